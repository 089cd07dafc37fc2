"""The memory timeline: what suspects keep, live bytes by level, and the device's ledger on one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reports.models.marks import Mark, read_marks
from reports.source import CaptureTables, Row
from reports.text import place_text, plural

SLICES = 400  # points a series keeps: about one for two pixels
MAX_LANES = 8
MARGIN_RATIO = 0.15  # of the time at work, shown before and after it
SHORT_MARGIN_NS = 500_000_000  # at least, but no more than the time at work itself

LEVEL_LABELS = {
    "tensor": "tensors (allocated)",
    "segment": "segments (reserved)",
    "driver": "driver allocations",
    "host": "host allocations",
}
PART_LABELS = {
    "torch_allocated": "torch allocated",
    "torch_cached": "torch cached",
    "driver_outside": "outside torch",
    "context_and_modules": "context, modules",
    "unattributed": "unattributed",
    "other_process": "other processes",
}
Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Series:
    """One line or one layer of a stack: (ts_ns, bytes) in time order; each value holds until the next point."""

    key: str
    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """Series that share one scale. In a stack the first series lies at the bottom."""

    key: str
    title: str
    shape: Literal["lines", "stack"]
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """One process on one device (either may be unknown): panels over `start_ns`..`end_ns`, and the epochs."""

    title: str
    process_id: int | None
    device_index: int | None
    start_ns: int
    end_ns: int
    panels: tuple[Panel, ...]
    marks: tuple[Mark, ...]
    marks_note: str


def read_timelines(tables: CaptureTables) -> tuple[list[Timeline], int]:
    """Timelines, the one that matters most first, and how many more there would be."""
    lanes = tables.query("lanes")
    timelines = [_timeline(tables, lane) for lane in lanes[:MAX_LANES]]
    return [timeline for timeline in timelines if timeline.panels], max(0, len(lanes) - MAX_LANES)


def _timeline(tables: CaptureTables, lane: Row) -> Timeline:
    at = {"process_id": lane["process_id"], "device_index": lane["device_index"]}
    (seen,) = tables.query("lane_window", **at)
    start_ns, end_ns = _window(seen)
    slices = {"start_ns": start_ns, "width_ns": max(1, -(-(end_ns - start_ns + 1) // SLICES))}
    sampled = {"device_index": at["device_index"], "parts": list(PART_LABELS), "end_ns": end_ns}
    panels = (
        _kept(tables.query("kept_series", **at, **slices), start_ns, end_ns),
        _live(tables.query("live_series", **at, **slices), end_ns),
        _ledger(tables.query("ledger_series", **sampled, **slices), min(end_ns, seen["sampled_end_ns"] or end_ns)),
    )
    marks, marks_note = read_marks(tables, at["process_id"], start_ns, end_ns)
    return Timeline(
        place_text(**at) or "whole capture",
        at["process_id"],
        at["device_index"],
        start_ns,
        end_ns,
        tuple(panel for panel in panels if panel),
        marks,
        marks_note,
    )


def _window(seen: Row) -> tuple[int, int]:
    """The time at work with a margin, as far as the device was sampled; the samples' own span without any work."""
    start, end = seen["active_start_ns"], seen["active_end_ns"]
    if start is None:
        return seen["sampled_start_ns"] or 0, seen["sampled_end_ns"] or 0
    margin = max(int((end - start) * MARGIN_RATIO), min(end - start, SHORT_MARGIN_NS))
    sampled_start, sampled_end = seen["sampled_start_ns"], seen["sampled_end_ns"]
    if sampled_start is not None:
        start, end = min(start, max(start - margin, sampled_start)), max(end, min(end + margin, sampled_end))
    return start, end


def _kept(rows: list[Row], start_ns: int, end_ns: int) -> Panel | None:
    if not rows:
        return None
    points = [(start_ns, 0), *((row["ts_ns"], row["bytes"]) for row in rows)]
    points.append((max(end_ns, points[-1][0]), points[-1][1]))  # they are live at the end
    return Panel("kept", "Kept by suspects", "stack", (Series("kept", "kept by suspects", tuple(points)),))


def _live(rows: list[Row], end_ns: int) -> Panel | None:
    series = []
    for level, label in LEVEL_LABELS.items():
        points = [(row["ts_ns"], row["bytes"]) for row in rows if row["level"] == level]
        if points:
            points.append((max(end_ns, points[-1][0]), points[-1][1]))  # nothing more happened
            series.append(Series(level, label, tuple(points)))
    return Panel("live", "Live bytes by level", "lines", tuple(series)) if series else None


def _ledger(rows: list[Row], end_ns: int) -> Panel | None:
    times = sorted({row["ts_ns"] for row in rows})
    values = {(row["ledger_part"], row["ts_ns"]): max(0, row["bytes"] or 0) for row in rows}
    series = tuple(
        Series(part, label, (*points, (max(end_ns, times[-1]), points[-1][1])))
        for part, label in PART_LABELS.items()
        for points in (tuple((ts, values.get((part, ts), 0)) for ts in times),)
        if any(value for _, value in points)
    )
    return Panel("ledger", "Device memory", "stack", series) if series else None


def describe_thinning(timeline: Timeline) -> str:
    """One sentence on what a drawn point is."""
    slice_ns = max(1, -(-(timeline.end_ns - timeline.start_ns + 1) // SLICES))
    return f"{plural(SLICES, 'slice')} of {slice_ns / 1e6:,.3g} ms; each shows its highest value"
