"""Where a slow or broken answer comes from (method 9): the model, the cache or the network; and missed objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.database import Database
from pipeline.serving import capture_targets
from pipeline.wording import evidence_text
from schemas.config import Config, SloSettings, SymptomSettings

Row = dict[str, Any]
_OBJECTIVES = {
    "latency_p99": "P99 latency",
    "short_latency_p95": "P95 latency of short requests",
    "first_token_p95": "P95 time to the first token",
    "error_ratio": "error ratio",
    "truncation_ratio": "truncation ratio",
}
_AROUND = ("before", "during", "after")


def seconds_text(seconds: float) -> str:
    """Seconds in the unit that reads best: 1.8 s, 450 ms, 12.3 µs."""
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if abs(seconds) < limit * 0.9995:  # what three digits round to 1000 is one of the next unit
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.4g} s"


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _of_model(model: str, process_id: int | None) -> tuple[str, str]:
    """Words and an SQL condition for a model of a process."""
    words = f" of {model}" if model else ""
    place = "process_id IS NULL" if process_id is None else f"process_id = {process_id}"
    return words, f"model = {_quoted(model)} AND {place}"


def growing_intervals(database: Database) -> list[Row]:
    """Token intervals that grow with the position: the model does work again that it has done."""
    rows = database.rows(
        "SELECT process_id, model, interval_trend, interval_slope_ns, interval_slope_low_ns, interval_slope_high_ns,"
        " interval_p50_ns, last_position FROM token_memory WHERE interval_trend IN ('linear', 'superlinear')"
        " QUALIFY row_number() OVER (PARTITION BY process_id, model ORDER BY memory_side) = 1 ORDER BY 1, 2"
    )
    found = []
    for process, model, trend, slope, low, high, median, last in rows:
        words, where = _of_model(model, process)
        how = "faster than the position" if trend == "superlinear" else "with the position"
        found.append(
            {
                "finding_kind": "symptom",
                "severity": "warning",
                "title": f"Model: the time between tokens{words} grows {how}: {seconds_text(slope / 1e9)} more a token"
                f" (95 % interval {seconds_text(low / 1e9)} to {seconds_text(high / 1e9)}) up to position {last:,},"
                f" median {seconds_text(median / 1e9)}",
                "evidence": evidence_text(("token_memory", where)),
                "advice": "Look for work that is done again for all earlier tokens: a cache that is not used or is"
                " copied whole, rotary embeddings computed past their trained length, attention without paged keys.",
            }
        )
    return found


def pauses(database: Database, settings: SymptomSettings) -> list[Row]:
    """Answers that stop in the middle and go on: the cache was full, moved, or computed again."""
    rows = database.rows(
        "WITH usual AS (SELECT process_id, model, quantile_cont(interval_ns, 0.5) AS median_ns FROM token_steps"
        " WHERE interval_ns IS NOT NULL GROUP BY ALL)"
        " SELECT s.process_id, s.model, count(*), count(DISTINCT s.request_number), max(s.interval_ns),"
        " arg_max(s.request_id, s.interval_ns), any_value(u.median_ns), sum(s.interval_ns)"
        " FROM token_steps AS s JOIN usual AS u ON u.process_id IS NOT DISTINCT FROM s.process_id AND u.model = s.model"
        # A request's first interval holds what is built lazily; it is no pause in the middle.
        " WHERE s.token_index > 1 AND s.interval_ns >= greatest(? * u.median_ns, ? * 1e9) GROUP BY ALL"
        " HAVING count(DISTINCT s.request_number) >= ? ORDER BY 3 DESC, 1, 2",
        [settings.pause_min_ratio, settings.pause_min_seconds, settings.pause_min_requests],
    )
    found = []
    for process, model, count, requests, longest, request, median, total in rows:
        words, where = _of_model(model, process)
        found.append(
            {
                "finding_kind": "symptom",
                "severity": "warning",
                "title": f"Cache: answers{words} pause in the middle: {count:,} pause{'s' * (count != 1)} in"
                f" {requests:,} requests, {seconds_text(total / 1e9)} together, the longest"
                f" {seconds_text(longest / 1e9)} (request {request}) against {seconds_text(median / 1e9)}"
                " between tokens usually",
                "evidence": evidence_text(("token_memory", where), ("tokens", f"request_id = {_quoted(request)}")),
                "advice": "Look at preemptions, swaps and evictions of KV blocks at these times, and at the allocator's"
                " retries: give the cache more room, or admit fewer requests at once.",
            }
        )
    return found


def cuts(database: Database, settings: SymptomSettings) -> list[Row]:
    """Answers that are all cut after one time, which no other request outlives: a time-out on the way."""
    rows = database.rows(
        "WITH cut AS (SELECT source, count(*) AS cut_count, median(latency_ns) AS limit_ns,"
        "  list(DISTINCT status ORDER BY status)[:5] AS statuses"
        "  FROM served_requests WHERE is_truncated AND latency_ns > 0 GROUP BY source)"
        " SELECT source, any_value(cut_count), any_value(limit_ns) / 1e9, any_value(statuses),"
        " count(*) FILTER (is_truncated AND abs(latency_ns - limit_ns) <= $spread / 2 * limit_ns) AS together,"
        " count(*) FILTER (latency_ns > (1 + $spread / 2) * limit_ns) AS beyond,"
        " max(latency_ns) FILTER (NOT is_truncated) / 1e9"
        " FROM served_requests JOIN cut USING (source) WHERE latency_ns > 0 GROUP BY source"
        " HAVING together >= $count AND together * 2 >= any_value(cut_count) AND beyond * 20 <= together"
        " AND any_value(limit_ns) >= $least * 1e9 ORDER BY source",
        {
            "spread": settings.cut_max_spread_ratio,
            "count": settings.cut_min_requests,
            "least": settings.cut_min_seconds,
        },
    )
    found = []
    for source, count, limit, statuses, together, _, longest in rows:
        others = f"; the longest other took {seconds_text(longest)}" if longest is not None else ""
        said = ", ".join(status for status in statuses or () if status is not None) or "not known"
        found.append(
            {
                "finding_kind": "symptom",
                "severity": "warning",
                "title": f"Network: {together:,} of {count:,} cut answers (status {said}) end after"
                f" {seconds_text(limit)}, within {settings.cut_max_spread_ratio:.0%}{others}",
                "evidence": evidence_text(
                    ("request_latency", f"source = {_quoted(source)} AND measure = 'latency'"),
                    ("requests", f"source = {_quoted(source)}"),
                ),
                "advice": f"Something between client and server gives up after {seconds_text(limit)}: compare the"
                " time-outs of the client, the gateway and the load balancer; send keep-alives or stream.",
            }
        )
    return found


def _value_text(value: float, unit: str) -> str:
    return seconds_text(value) if unit == "seconds" else f"{value:.6f}".rstrip("0").rstrip(".")


def missed_objectives(database: Database, settings: SloSettings) -> list[Row]:
    """One finding an objective and source that was missed; told loudly only against targets that somebody set."""
    is_own = settings != SloSettings()
    own = set(capture_targets(database))
    rows = database.rows(
        "SELECT source, metric, objective, count(*) FILTER (slo_verdict = 'missed'),"
        " count(*) FILTER (slo_verdict <> 'abstained'), arg_max(value, value) FILTER (slo_verdict = 'missed'),"
        " any_value(target), any_value(unit) FROM slo WHERE window_kind IN ('time', 'count') GROUP BY ALL"
        " HAVING count(*) FILTER (slo_verdict = 'missed') > 0 ORDER BY 1, 2, 3"
    )
    found = []
    for source, metric, objective, missed, judged, worst, target, unit in rows:
        named = {"latency_p99": "latency_p99_seconds", "short_latency_p95": "short_latency_p95_seconds"}
        named |= {"first_token_p95": "first_token_p95_seconds"}
        loud = is_own or named.get(objective, f"max_{objective}") in own
        where = f"source = {_quoted(source)} AND metric = {_quoted(metric)} AND objective = '{objective}'"
        by = f" by {metric}" if source == "prometheus" else ""
        found.append(
            {
                "finding_kind": "slo",
                "severity": "warning" if loud else "info",
                "title": f"Objective missed{by}: {_OBJECTIVES[objective]} in {missed:,} of {judged:,} windows, at worst"
                f" {_value_text(worst, unit)} against {_value_text(target, unit)}",
                "evidence": evidence_text(("slo", where)),
                "advice": None
                if loud
                else "The target is a default: give the service's own under `slo` in capture.yaml.",
            }
        )
    return found + _periods(database)


def _periods(database: Database) -> list[Row]:
    """What a marked period did to each objective that could be judged in it."""
    rows = database.rows(
        "SELECT period, objective, source, metric, unit, "
        + ", ".join(
            f"any_value(value) FILTER (window_kind = '{kind}'), any_value(slo_verdict) FILTER (window_kind = '{kind}')"
            for kind in _AROUND
        )
        + " FROM slo WHERE period IS NOT NULL GROUP BY ALL ORDER BY 1, 3, 4, 2"
    )
    told: dict[str, list[str]] = {}
    for period, objective, _, metric, unit, *values in rows:
        said = []
        for place, kind in enumerate(_AROUND):
            value, verdict = values[2 * place : 2 * place + 2]
            if verdict in ("met", "missed") and value is not None:
                said.append(f"{kind} {_value_text(value, unit)} ({verdict})")
        if any(text.startswith("during") for text in said):
            by = "" if metric == "requests" else f" by {metric}"
            told.setdefault(period, []).append(f"{_OBJECTIVES[objective]}{by}: {', '.join(said)}")
    return [
        {
            "finding_kind": "slo",
            "severity": "info",
            "title": f"Period {period}: {'; '.join(lines[:4])}",
            "evidence": evidence_text(("slo", f"period = {_quoted(period)}")),
        }
        for period, lines in told.items()
    ]


def symptom_findings(database: Database, config: Config) -> Sequence[Row]:
    """Findings on requests and tokens, without numbers. Needs the tables of `pipeline.serving`."""
    settings = config.symptoms
    return [
        *growing_intervals(database),
        *pauses(database, settings),
        *cuts(database, settings),
        *missed_objectives(database, config.slo),
    ]
