"""Memory pressure of hosts and cgroups beside the latency of requests (limit events, kills, pressure stalls)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.database import Database
from pipeline.rank_sum import Values, higher_p_value
from pipeline.wording import evidence_text, quoted_text, seconds_text
from schemas.config import Config
from schemas.host_settings import HostSettings

Row = dict[str, Any]
Publish = Callable[[str, str], None]
WriteRows = Callable[[str, list[Row]], None]
MAX_GROUPS = 64
_SUMMED = """
SELECT host, cgroup, clock_aligned, count(*) FILTER (is_pressed), count(*) FILTER (NOT is_pressed), min(start_ns),
    max(end_ns),
    sum(high_event_count)::BIGINT, sum(max_event_count)::BIGINT, sum(oom_event_count)::BIGINT, sum(kill_count)::BIGINT,
    max(some_stalled_ratio), max(memory_bytes), arg_max(limit_bytes, end_ns)
FROM host_pressure_made GROUP BY host, cgroup, clock_aligned ORDER BY 1, 2, 3 LIMIT ?
"""


def _latencies(database: Database, host: str, cgroup: str) -> tuple[Values, Values]:
    """Latencies of the requests that ran under pressure, and of the others. ns"""
    found = database.connection.execute(
        "SELECT is_pressed, latency_ns FROM pressed_requests WHERE host = ? AND cgroup = ?", [host, cgroup]
    ).fetchnumpy()
    latency = np.asarray(found["latency_ns"], dtype=np.float64)
    pressed = np.asarray(found["is_pressed"], dtype=bool)
    return latency[pressed], latency[~pressed]


def _p95(values: Values) -> int | None:
    return round(float(np.percentile(values, 95))) if len(values) else None


def _missing(row: Row, is_aligned: bool, settings: HostSettings) -> str | None:
    """What keeps the two sides from being compared."""
    pressed, calm = row["pressed_request_count"], row["calm_request_count"]
    if not row["pressed_window_count"]:
        return "never under pressure"
    if not is_aligned:
        return "the samples could not be put on the capture's clock"
    if not pressed + calm:
        return "no requests were recorded meanwhile"
    if min(pressed, calm) < settings.min_requests:
        return f"{pressed} requests ran under pressure and {calm} did not, {settings.min_requests} of each are needed"
    return None


def pressure_effects(database: Database, settings: HostSettings) -> list[Row]:
    """Rows of `pressure_effects`: one a host or cgroup, from `host_pressure_made` and `pressed_requests`."""
    rows = []
    for host, cgroup, is_aligned, pressed, calm, *sums in database.rows(_SUMMED, [MAX_GROUPS]):
        under, others = _latencies(database, host, cgroup) if is_aligned else (np.empty(0), np.empty(0))
        names = ("start_ns", "end_ns", "high_event_count", "max_event_count", "oom_event_count", "kill_count")
        row: Row = {
            "host": host or None,
            "cgroup": cgroup,
            "clock_aligned": is_aligned,
            "pressed_window_count": pressed,
            "calm_window_count": calm,
            **dict(zip((*names, "highest_stalled_ratio", "memory_bytes", "limit_bytes"), sums, strict=True)),
            "pressed_request_count": len(under),
            "calm_request_count": len(others),
            "pressed_p95_ns": _p95(under),
            "calm_p95_ns": _p95(others),
        }
        row["abstained_reason"] = _missing(row, is_aligned, settings)
        if row["abstained_reason"] is None:
            row["pressure_p_value"] = min(1.0, higher_p_value(under, others))
        rows.append(row)
    return rows


def _happened(row: Row) -> str:
    """What happened, in words: the strongest first."""
    times = (
        ("kill_count", "had {} killed for lack of memory"),
        ("max_event_count", "hit memory.max {}"),
        ("high_event_count", "went over memory.high {}"),
        ("oom_event_count", "ran out of memory {}"),
    )
    said = []
    for name, words in times:
        if count := row[name]:
            noun = "process" if name == "kill_count" else "time"
            plural = noun + ("es" if noun == "process" else "s") if count > 1 else noun
            said.append(words.format(f"{count:,} {plural}"))
    if row["highest_stalled_ratio"]:
        said.append(f"waited for memory up to {row['highest_stalled_ratio']:.0%} of a window")
    return " and ".join(said[:3])


def _latency_words(row: Row, settings: HostSettings) -> tuple[str, bool]:
    """What requests saw of it, and whether it slowed them."""
    if row["abstained_reason"]:
        return f"; what requests saw of it is not known: {row['abstained_reason']}", False
    pressed, calm = seconds_text(row["pressed_p95_ns"] / 1e9), seconds_text(row["calm_p95_ns"] / 1e9)
    counts = f"({row['pressed_request_count']:,} and {row['calm_request_count']:,} requests)"
    if row["pressure_p_value"] <= settings.max_p_value and row["pressed_p95_ns"] > row["calm_p95_ns"]:
        return f" while P95 latency rose from {calm} to {pressed} {counts}", True
    return f"; requests were not slower meanwhile: P95 {pressed} against {calm} {counts}", False


def pressure_findings(effects: list[Row], settings: HostSettings) -> list[Row]:
    """One finding a host or cgroup that was under pressure."""
    found = []
    for row in effects:
        if not row["pressed_window_count"]:
            continue
        who = f"The cgroup {row['cgroup']}" if row["cgroup"] else "The host"
        who += f" on {row['host']}" if row["host"] and len(effects) > 2 else ""
        words, is_slower = _latency_words(row, settings)
        place = f"cgroup = {quoted_text(row['cgroup'])}"
        place += f" AND host = {quoted_text(row['host'])}" if row["host"] else ""
        is_lost = bool(row["kill_count"] or row["oom_event_count"])
        found.append(
            {
                "finding_kind": "host_pressure",
                "severity": "warning" if is_slower or is_lost else "info",
                "confidence": 1 - row["pressure_p_value"] if is_slower else None,
                "bytes": row["memory_bytes"],
                "title": f"{who} {_happened(row)}{words}",
                "evidence": evidence_text(("pressure_effects", place), ("host_pressure", f"{place} AND is_pressed")),
                "advice": "Give it more memory, or find who grew: what a process maps is in `metrics`"
                " (process_rss_bytes), what lives in `allocations`."
                + (" Record requests as well (leakpath reads their logs)." if row["abstained_reason"] else ""),
                "abstained_reason": row["abstained_reason"],
            }
        )
    return found


def publish_pressure(database: Database, config: Config, publish: Publish, write: WriteRows) -> list[Row]:
    """Make and publish `host_pressure` and `pressure_effects`; returns their findings."""
    settings = config.host
    for name in ("pressure_windows", "stalled_min_ratio"):
        database.connection.execute(f"SET VARIABLE {name} = ?", [getattr(settings, name)])
    for relation in ("pressure_samples", "host_pressure_made", "pressed_requests"):
        database.run("host", relation)
    effects = pressure_effects(database, settings)
    publish("host_pressure", "(SELECT * REPLACE (nullif(host, '') AS host) FROM host_pressure_made)")
    write("pressure_effects", effects)
    return pressure_findings(effects, settings)
