"""Stalls of the host and idle time of devices: what waited, where, and why devices had nothing to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reports.source import CaptureTables, Row
from reports.text import place_text, tidy, tidy_middle

MAX_ROWS = 12
_KINDS = {
    "synchronize": "waits for the device",
    "synchronous_copy": "copies that wait",
    "pageable_copy": "copies of pageable memory",
    "allocation": "driver allocations and frees",
    "context": "contexts made",
    "graph": "graphs instantiated",
    "module": "modules loaded",
    "eager_fallback": "kernels instead of a graph",
}
_PARTS = (
    ("busy", "busy_ns"),
    ("sync", "sync_idle_ns"),
    ("launch", "launch_idle_ns"),
    ("host", "host_idle_ns"),
    ("unknown", "unknown_idle_ns"),
)
_CAUSES = {"sync": "host waited", "launch": "launch under way", "host": "host elsewhere", "unknown": "not known"}
_HOT = {
    "request": "requests",
    "step": "steps",
    "range family": "ranges",
    "repeated range": "ranges",
    "launches": "launches",
}


@dataclass(frozen=True, slots=True)
class StallCost:
    """Stalls of one kind, or of one call at one place: its range and the leaf of its path. ns; ratios are 0 to 1."""

    kind: str
    who: str
    call: str
    place: str
    count: int
    union_ns: int
    share: float | None
    median_ns: int | None
    longest_ns: int | None
    hot_by: str
    hot_count: int | None
    hot_ns: int | None
    hot_share: float | None
    pending_bytes: int | None


@dataclass(frozen=True, slots=True)
class DeviceBar:
    """Busy and idle time of one device; `parts` are (class, start and width in per cent of the bar, share)."""

    who: str
    length_ns: int | None
    idle_ns: int | None
    gap_count: int | None
    longest_ns: int | None
    parts: tuple[tuple[str, float, float, float], ...]
    reason: str


@dataclass(frozen=True, slots=True)
class LongGap:
    """One gap in the work of a device."""

    who: str
    start_ns: int
    idle_ns: int
    cause: str
    place: str
    call: str


@dataclass(frozen=True, slots=True)
class Stalls:
    """The whole section; `*_left_out` count what the page's bounds left out."""

    devices: tuple[DeviceBar, ...]
    devices_left_out: int
    kinds: tuple[StallCost, ...]
    kinds_left_out: int
    places: tuple[StallCost, ...]
    places_left_out: int
    gaps: tuple[LongGap, ...]
    lockstep: tuple[str, ...]
    lockstep_left_out: int


def read_stalls(tables: CaptureTables) -> Stalls:
    """All blocks of the section; those without rows are empty."""
    devices, kinds, places, gaps, streams = (
        tables.query(name, limit=MAX_ROWS)
        for name in ("device_activity", "stall_kinds", "stall_places", "longest_gaps", "lockstep_streams")
    )
    return Stalls(
        tuple(_device(row) for row in devices),
        _left_out(devices),
        tuple(_cost(row) for row in kinds),
        _left_out(kinds),
        tuple(_cost(row) for row in places),
        _left_out(places),
        tuple(_gap(row) for row in gaps),
        tuple(f"{_who(row)}: streams {row['stream_id']} and {row['other_stream_id']}" for row in streams),
        _left_out(streams),
    )


def _left_out(rows: list[Row]) -> int:
    return rows[0]["total"] - len(rows) if rows else 0


def _who(row: Row) -> str:
    return place_text(process_id=row["process_id"], device_index=row.get("device_index")) or "all"


def _ratio(part: Any, whole: Any) -> float | None:
    return part / whole if part is not None and whole else None


def _device(row: Row) -> DeviceBar:
    length = None if row["end_ns"] is None or row["start_ns"] is None else row["end_ns"] - row["start_ns"]
    parts, at = [], 0.0
    for name, column in _PARTS:
        if share := _ratio(row[column], length):
            parts.append((name, round(at, 3), round(100 * share, 3), share))
            at += 100 * share
    reason = tidy(row["abstained_reason"], 300)
    return DeviceBar(_who(row), length, row["idle_ns"], row["gap_count"], row["longest_gap_ns"], tuple(parts), reason)


def _cost(row: Row) -> StallCost:
    leaf = tidy_middle(row.get("leaf_function"), 60)
    if leaf and row["leaf_file"]:
        leaf += f" ({tidy_middle(row['leaf_file'], 50)}" + (f":{row['leaf_line']})" if row["leaf_line"] else ")")
    return StallCost(
        _KINDS.get(row["stall_kind"], tidy(row["stall_kind"], 40)),
        _who(row),
        tidy(row["name"], 80),
        " > ".join(part for part in (tidy_middle(row["range_path"], 120), leaf) if part),
        row["stall_count"],
        row["union_ns"] or 0,
        _ratio(row["union_ns"], row["window_ns"]),
        row["p50_ns"],
        row["max_ns"],
        _HOT.get(row["hot_by"], ""),
        row["hot_count"],
        row["hot_ns"],
        _ratio(row["hot_ns"], row["hot_window_ns"]),
        row["pending_free_bytes"],
    )


def _gap(row: Row) -> LongGap:
    request = f"request {tidy(row['request_id'], 40)}" if row["request_id"] is not None else ""
    place = ", ".join(part for part in (request, tidy_middle(row["range_path"], 120)) if part)
    cause = _CAUSES.get(row["idle_cause"], tidy(row["idle_cause"], 20))
    return LongGap(_who(row), row["start_ns"], row["idle_ns"], cause, place, tidy(row["waiting_call"], 60))
