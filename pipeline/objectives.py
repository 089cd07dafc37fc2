"""Missed objectives, and what marked periods did to them (method 9), as findings."""

from __future__ import annotations

from typing import Any

from pipeline.database import Database
from pipeline.serving import capture_targets
from pipeline.wording import evidence_text, quoted_text, seconds_text
from schemas.config import SloSettings

Row = dict[str, Any]
_OBJECTIVES = {
    "latency_p99": "P99 latency",
    "short_latency_p95": "P95 latency of short requests",
    "first_token_p95": "P95 time to the first token",
    "error_ratio": "error ratio",
    "truncation_ratio": "truncation ratio",
}
_AROUND = ("before", "during", "after")


def _value_text(value: float, unit: str) -> str:
    return seconds_text(value) if unit == "seconds" else f"{value:.6f}".rstrip("0").rstrip(".")


def missed_objectives(database: Database, settings: SloSettings) -> list[Row]:
    """One finding an objective and source that was missed; told loudly only against targets that somebody set."""
    is_own = settings != SloSettings()
    own = set(capture_targets(database))
    rows = database.rows(
        "SELECT source, metric, objective, count(*) FILTER (slo_verdict = 'missed'),"
        " count(*) FILTER (slo_verdict <> 'abstained'), arg_max(value, value) FILTER (slo_verdict = 'missed'),"
        " any_value(target), any_value(unit) FROM slo WHERE window_kind IN ('time', 'count', 'server') GROUP BY ALL"
        " HAVING count(*) FILTER (slo_verdict = 'missed') > 0 ORDER BY 1, 2, 3"
    )
    found = []
    for source, metric, objective, missed, judged, worst, target, unit in rows:
        named = {"latency_p99": "latency_p99_seconds", "short_latency_p95": "short_latency_p95_seconds"}
        named |= {"first_token_p95": "first_token_p95_seconds"}
        loud = is_own or named.get(objective, f"max_{objective}") in own
        where = f"source = {quoted_text(source)} AND metric = {quoted_text(metric)} AND objective = '{objective}'"
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
            "evidence": evidence_text(("slo", f"period = {quoted_text(period)}")),
        }
        for period, lines in told.items()
    ]
