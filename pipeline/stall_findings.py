"""Stalls and gaps (method 8) as findings: stalls of the regular work, fallbacks from graphs, idle devices, lockstep."""

from __future__ import annotations

from typing import Any

from pipeline.database import Database
from pipeline.wording import bytes_text, evidence_text, quoted_text, seconds_text
from schemas.stall_settings import StallSettings

Row = dict[str, Any]
_KINDS = {
    "synchronize": (
        ("wait for the device", "waits for the device"),
        "Queue the next work before waiting, and wait for an event of the one result that is needed;"
        " .item(), .cpu() and printing a tensor wait as well.",
    ),
    "synchronous_copy": (
        ("copy that waits", "copies that wait"),
        "Copy with non_blocking=True from or to pinned memory.",
    ),
    "pageable_copy": (
        ("copy of pageable memory, which waits,", "copies of pageable memory, which wait,"),
        "Pin the host memory (pin_memory=True): then non_blocking=True does not wait.",
    ),
    "allocation": (
        ("driver allocation or free", "driver allocations and frees"),
        "Let the caching allocator keep its memory: no empty_cache() in the loop, the largest shape first,"
        " expandable_segments:True where sizes vary.",
    ),
    "context": (
        ("making of a context", "makings of contexts"),
        "Make contexts at start-up, in every process that needs one.",
    ),
    "graph": (
        ("instantiation of a CUDA graph", "instantiations of CUDA graphs"),
        "Capture and instantiate the graphs of all shapes at start-up.",
    ),
    "module": (
        ("loading of a module", "loadings of modules"),
        "Load kernels at start-up: CUDA_MODULE_LOADING=EAGER, or warm up every shape.",
    ),
}
_WAITS = ("synchronize", "synchronous_copy", "pageable_copy")
_CAUSES = {"sync": "host waited for it", "launch": "launches under way", "host": "host did something else"}
_COSTLY = """
SELECT t.process_id, t.stall_kind, t.hot_count, t.hot_ns, t.hot_window_ns, t.hot_p50_ns, t.hot_max_ns,
    t.pending_free_bytes, m.name, m.range_path, EXISTS (
        FROM device_activity AS d
        WHERE d.idle_ns >= ? * (d.end_ns - d.start_ns) AND (d.process_id IS NULL OR d.process_id = t.process_id)
    )
FROM stall_costs AS t
JOIN (
    SELECT * FROM stall_costs WHERE NOT is_total
    QUALIFY row_number() OVER (PARTITION BY process_id, stall_kind ORDER BY hot_ns DESC NULLS LAST, cost_id) = 1
) AS m ON m.process_id IS NOT DISTINCT FROM t.process_id AND m.stall_kind = t.stall_kind
WHERE t.is_total AND t.hot_count > 0 AND t.hot_ns >= ? * t.hot_window_ns AND t.hot_ns >= ?
ORDER BY t.hot_ns DESC, t.process_id, t.stall_kind LIMIT ?
"""
_FALLBACKS = """
SELECT range_path, count(*), sum(launch_count), min(name) FROM sync_stalls
WHERE stall_kind = 'eager_fallback' AND coalesce(is_hot, true)
GROUP BY process_id, range_path ORDER BY 2 DESC, process_id, 1 LIMIT ?
"""
_IDLE = """
SELECT activity_id, process_id, device_index, end_ns - start_ns, idle_ns, sync_idle_ns, launch_idle_ns, host_idle_ns,
    gap_count, longest_gap_ns, abstained_reason
FROM device_activity WHERE idle_ns >= ? * (end_ns - start_ns) AND idle_ns >= ?
ORDER BY idle_ns DESC, activity_id LIMIT ?
"""
_LOCKSTEP = """
SELECT device_index, count(*), min(stream_id), max(other_stream_id), min(lockstep_ratio) FROM stream_pairs
WHERE is_lockstep GROUP BY process_id, device_index ORDER BY 2 DESC, process_id, 1 LIMIT ?
"""
_MAX_ROWS = 8


def stall_findings(database: Database, settings: StallSettings) -> list[Row]:
    """Findings without numbers: stalls of the regular work by kind, idle devices, fallbacks from graphs, lockstep."""
    return [*_stalls(database, settings), *_eager(database), *_idle(database, settings), *_lockstep(database)]


def _stalls(database: Database, settings: StallSettings) -> list[Row]:
    least = round(settings.stall_min_seconds * 1e9)
    rows = database.rows(_COSTLY, [settings.idle_min_ratio, settings.stall_min_ratio, least, _MAX_ROWS])
    found: list[Row] = []
    for process, kind, count, spent, window, middle, longest, pending, name, place, is_idle in rows:
        if kind not in _KINDS:
            continue
        words, advice = _KINDS[kind]
        what = f"{words[0]} takes" if count == 1 else f"{words[1]} take"
        is_costly = spent >= settings.stall_warning_ratio * window and (is_idle or kind not in _WAITS)
        where = f", most in {name}" + (f" below {place}" if place else "")
        spread = f" (median {seconds_text(middle / 1e9)}, longest {seconds_text(longest / 1e9)})" if count > 1 else ""
        held = f"; {bytes_text(pending)} waited for a stream meanwhile" if pending else ""
        who = f" of process {process}" if process is not None and process > 0 else ""
        condition = f"is_hot AND stall_kind = {quoted_text(kind)}"
        found.append(
            {
                "finding_kind": "stall",
                "severity": "warning" if is_costly else "info",
                "bytes": pending or None,
                "title": f"Stalls: {count:,} {what} {_share(spent, window)} of the regular work{who},"
                f" {seconds_text(spent / 1e9)}{spread}{where}{held}",
                "evidence": evidence_text(
                    ("sync_stalls", condition), ("stall_costs", f"stall_kind = {quoted_text(kind)} AND is_total")
                ),
                "advice": advice,
            }
        )
    return found


def _eager(database: Database) -> list[Row]:
    rows = database.rows(_FALLBACKS, [_MAX_ROWS])
    return [
        {
            "finding_kind": "stall",
            "severity": "warning",
            "title": f"Eager fallback: {count:,} × {place} launched {kernels:,} kernels one by one where others"
            f" launch a CUDA graph, first {name}",
            "evidence": evidence_text(("sync_stalls", "stall_kind = 'eager_fallback' AND coalesce(is_hot, true)")),
            "advice": "Capture graphs for the shapes of these steps, or pad them to a shape that has one.",
        }
        for place, count, kernels, name in rows
    ]


def _idle(database: Database, settings: StallSettings) -> list[Row]:
    least = round(settings.idle_min_seconds * 1e9)
    rows = database.rows(_IDLE, [settings.idle_min_ratio, least, _MAX_ROWS])
    found: list[Row] = []
    for number, process, device, window, idle, *parts, gaps, longest, reason in rows:
        shares = dict(zip(_CAUSES, parts, strict=True))
        known = [
            f"{_share(share, window)} {_CAUSES[name]}"
            for name, share in sorted(shares.items(), key=lambda item: -(item[1] or 0))
            if share
        ]
        split = f": {', '.join(known)}" if known else ""
        who = f"Device {device}" if device is not None else "The device"
        who += f" of process {process}" if process is not None and process > 0 else ""
        where = f"device_index IS NOT DISTINCT FROM {'NULL' if device is None else device}"
        found.append(
            {
                "finding_kind": "idle",
                "severity": "info",
                "title": f"{who} was idle for {_share(idle, window)} of {seconds_text(window / 1e9)}{split};"
                f" {gaps:,} gaps, the longest {seconds_text(longest / 1e9)}",
                "evidence": evidence_text(("device_activity", f"activity_id = {number}"), ("idle_gaps", where)),
                "advice": _idle_advice(shares),
                "abstained_reason": reason,
            }
        )
    return found


def _idle_advice(shares: dict[str, int | None]) -> str | None:
    cause = max(shares, key=lambda name: shares[name] or 0)
    if not shares[cause]:
        return None
    return {
        "sync": "Wait less often, so that work is queued when the device comes to the end of it.",
        "launch": "Launch fewer, larger kernels: CUDA graphs, torch.compile or larger batches.",
        "host": "Look at what the host does between launches (flame graph of samples, ranges in idle_gaps).",
    }[cause]


def _lockstep(database: Database) -> list[Row]:
    rows = database.rows(_LOCKSTEP, [_MAX_ROWS])
    return [
        {
            "finding_kind": "stall",
            "severity": "info",
            "title": f"Streams in lockstep: {count:,} {'pair' if count == 1 else 'pairs'} of streams of device {device}"
            f" start and stop together ({ratio:.0%} of their bursts or more), such as {first} and {last}",
            "evidence": evidence_text(("stream_pairs", "is_lockstep")),
            "advice": "Something waits for all of them at once: wait for single events instead of the device.",
        }
        for device, count, first, last, ratio in rows
    ]


def _share(part: int, whole: int) -> str:
    """A percentage that never rounds to all or nothing."""
    ratio = part / whole if whole else 0.0
    if 0.995 <= ratio < 1:
        return "> 99 %"
    return "< 1 %" if 0 < ratio < 0.005 else f"{ratio:.0%}".replace("%", " %")
