"""Where a slow or broken answer comes from (method 9): the model, the cache, the host or the network."""

from __future__ import annotations

from typing import Any

from pipeline.database import Database
from pipeline.wording import evidence_text, quoted_text, seconds_text
from schemas.config import SymptomSettings

Row = dict[str, Any]


def _of_model(model: str, process_id: int | None) -> tuple[str, str]:
    """Words and an SQL condition for a model of a process."""
    words = f" of {model}" if model else ""
    place = "process_id IS NULL" if process_id is None else f"process_id = {process_id}"
    return words, f"model = {quoted_text(model)} AND {place}"


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


_PAUSES = (
    "WITH usual AS (SELECT process_id, model, quantile_cont(interval_ns, 0.5) AS median_ns FROM token_steps"
    " WHERE interval_ns IS NOT NULL GROUP BY ALL), paused AS ("
    " SELECT s.*, u.median_ns FROM token_steps AS s"
    " JOIN usual AS u ON u.process_id IS NOT DISTINCT FROM s.process_id AND u.model = s.model"
    # A request's first interval holds what is built lazily; it is no pause in the middle.
    " WHERE s.token_index > 1 AND s.interval_ns >= greatest($ratio * u.median_ns, $seconds * 1e9))"
)
_IDLE_SHARE = 0.1
_LOOKED_AT = 200


def _busy_share(database: Database, process_id: int | None, model: str, settings: SymptomSettings) -> float | None:
    """Share of the longest pauses in which the process's device worked; None when its operations were not recorded."""
    [(share,)] = database.rows(
        _PAUSES + ", longest AS (SELECT ts_ns - interval_ns AS start_ns, ts_ns AS end_ns FROM paused"
        "  WHERE process_id IS NOT DISTINCT FROM $process AND model = $model"
        "  AND file_id IN (SELECT file_id FROM tokens WHERE clock_aligned)"
        "  ORDER BY interval_ns DESC, ts_ns LIMIT $limit),"
        " ops AS (SELECT start_ns, end_ns FROM gpu_ops WHERE clock_aligned AND end_ns > start_ns"
        "  AND (process_id = $process OR process_id IS NULL OR $process IS NULL)),"
        " seen AS (SELECT min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM ops),"
        " inside AS (SELECT l.* FROM longest AS l JOIN seen AS s ON l.start_ns >= s.first_ns AND l.end_ns <= s.last_ns)"
        " SELECT coalesce((SELECT sum(least(i.end_ns, o.end_ns) - greatest(i.start_ns, o.start_ns)) FROM inside AS i"
        "  JOIN ops AS o ON o.start_ns < i.end_ns AND o.end_ns > i.start_ns), 0)"
        " / (SELECT sum(end_ns - start_ns) FROM inside)",
        {
            "ratio": settings.pause_min_ratio,
            "seconds": settings.pause_min_seconds,
            "process": process_id,
            "model": model,
            "limit": _LOOKED_AT,
        },
    )
    return None if share is None else float(share)


def pauses(database: Database, settings: SymptomSettings) -> list[Row]:
    """Answers that stop in the middle and go on: the cache was full, moved, or computed again.

    Where the device's operations were recorded and it hardly worked meanwhile, the process itself stood still.
    """
    rows = database.rows(
        _PAUSES + " SELECT process_id, model, count(*), count(DISTINCT request_number), max(interval_ns),"
        " arg_max(request_id, interval_ns), any_value(median_ns), sum(interval_ns) FROM paused"
        " GROUP BY process_id, model HAVING count(DISTINCT request_number) >= $requests ORDER BY 3 DESC, 1, 2",
        {
            "ratio": settings.pause_min_ratio,
            "seconds": settings.pause_min_seconds,
            "requests": settings.pause_min_requests,
        },
    )
    found = []
    for process, model, count, requests, longest, request, median, total in rows:
        words, where = _of_model(model, process)
        busy = _busy_share(database, process, model, settings)
        is_host = busy is not None and busy < _IDLE_SHARE
        meanwhile = "" if busy is None else f"; the device worked for {busy:.2%} of that time"
        found.append(
            {
                "finding_kind": "symptom",
                # Whoever records at this depth may be who stops the process.
                "severity": "info" if is_host else "warning",
                "title": f"{'Host' if is_host else 'Cache'}: answers{words} pause in the middle: {count:,}"
                f" pause{'s' * (count != 1)} in {requests:,} requests, {seconds_text(total / 1e9)} together, the"
                f" longest {seconds_text(longest / 1e9)} (request {request}) against {seconds_text(median / 1e9)}"
                f" between tokens usually{meanwhile}",
                "evidence": evidence_text(("token_memory", where), ("tokens", f"request_id = {quoted_text(request)}")),
                "advice": "The process stood still itself: look for garbage collection, a lock, a busy machine, or the"
                " recording; without recording, see whether the pauses stay."
                if is_host
                else "Look at preemptions, swaps and evictions of KV blocks at these times, and at the allocator's"
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
                    ("request_latency", f"source = {quoted_text(source)} AND measure = 'latency'"),
                    ("requests", f"source = {quoted_text(source)}"),
                ),
                "advice": f"Something between client and server gives up after {seconds_text(limit)}: compare the"
                " time-outs of the client, the gateway and the load balancer; send keep-alives or stream.",
            }
        )
    return found


def symptom_findings(database: Database, settings: SymptomSettings) -> list[Row]:
    """Findings without numbers. Needs `token_memory`, `token_steps` and `served_requests` of `pipeline.serving`."""
    return [*growing_intervals(database), *pauses(database, settings), *cuts(database, settings)]
