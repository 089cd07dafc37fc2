"""Geometry of a timeline: axes, paths, epoch marks and hover columns of an SVG without any script."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from reports.models.timeline import Panel, Point, Series, Timeline
from reports.text import bytes_text, duration_text, tidy

WIDTH, LEFT, RIGHT = 880, 70, 14
PANEL_HEIGHTS = {"kept": 84, "live": 150, "ledger": 150}
PANEL_GAP, MARKS_HEIGHT, TIP_WIDTH = 28, 12, 250
_TIME_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)  # of ns, µs, ms
_CLOCK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)  # of seconds


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled position in pixels."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Layer:
    """One drawn series; `key` names its colour. The path is in pixels."""

    key: str
    label: str
    path: str
    is_area: bool
    legend_x: float


@dataclass(frozen=True, slots=True)
class PanelDrawing:
    """One scale with its layers, from `top` to `bottom`."""

    title: str
    top: float
    bottom: float
    ticks: tuple[Tick, ...]
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class MarkDrawing:
    """One epoch on the strip."""

    x: float
    width: float
    label: str
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Column:
    """A strip of the chart that shows its values while the pointer is on it."""

    x: float
    width: float
    cursor: float
    tip_x: float
    time: str
    mark: str
    values: tuple[tuple[str, str, str], ...]  # colour key, label, value


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything the SVG template prints. Sizes in pixels."""

    width: int
    height: float
    left: float
    right: float
    top: float
    bottom: float
    marks_top: float
    panels: tuple[PanelDrawing, ...]
    marks: tuple[MarkDrawing, ...]
    ticks: tuple[Tick, ...]
    columns: tuple[Column, ...]
    summary: str


def draw(timeline: Timeline, *, columns: int = 80) -> Chart:
    """Lay out a timeline; the same timeline gives the same numbers."""
    right = WIDTH - RIGHT
    span = max(1, timeline.end_ns - timeline.start_ns)

    def x(ts_ns: int) -> float:
        return LEFT + (min(max(ts_ns, timeline.start_ns), timeline.end_ns) - timeline.start_ns) / span * (right - LEFT)

    top, drawings = 20.0, []
    for panel in timeline.panels:
        height = PANEL_HEIGHTS[panel.key]
        drawings.append(_draw_panel(panel, top, top + height, x))
        top += height + PANEL_GAP
    bottom = top - PANEL_GAP
    marks_top = bottom + 5
    marks = tuple(
        MarkDrawing(_px(x(m.start_ns)), _px(max(1.2, x(m.end_ns) - x(m.start_ns) - 0.6)), m.label, m.kept_bytes > 0)
        for m in timeline.marks
    )
    axis = marks_top + (MARKS_HEIGHT if marks else 0)
    ticks = tuple(Tick(_px(x(timeline.start_ns + at)), label) for at, label in time_ticks(span))
    return Chart(
        WIDTH,
        axis + 22,
        LEFT,
        right,
        20.0,
        axis,
        marks_top,
        tuple(drawings),
        marks,
        ticks,
        _columns(timeline, columns, right, span),
        _summary(timeline),
    )


def byte_ticks(high: int, wanted: int) -> list[int]:
    """Round byte values from 0 up to `high`, about `wanted` steps of 1, 2 or 5 times a power of ten."""
    step, power = 1, 1
    while True:
        for factor in (1, 2, 5):
            step = factor * power
            if high / step <= wanted:
                return list(range(0, high + 1, step))
        power *= 10


def time_ticks(span_ns: int, wanted: int = 10) -> list[tuple[int, str]]:
    """Round offsets from 0 to `span_ns` with labels; days are counted when a capture lasts that long."""
    steps = [s * unit for unit in (1, 1_000, 1_000_000) for s in _TIME_STEPS] + [
        s * 1_000_000_000 for s in _CLOCK_STEPS
    ]
    step = next(
        (s for s in steps if span_ns / s <= wanted), 86_400_000_000_000 * -(-span_ns // (86_400_000_000_000 * wanted))
    )
    return [(at, duration_text(at) if at else "0") for at in range(0, span_ns + 1, step)]


def _px(value: float) -> float:
    return round(value, 1)


def _draw_panel(panel: Panel, top: float, bottom: float, x: object) -> PanelDrawing:
    assert callable(x)
    bases: list[dict[int, int]] = [{}]
    for series in panel.series if panel.shape == "stack" else ():
        below = bases[-1]
        bases.append({ts: below.get(ts, 0) + value for ts, value in series.points})
    tops = bases[1:] if panel.shape == "stack" else [dict(series.points) for series in panel.series]
    high = max((value for values in tops for value in values.values()), default=0) or 1

    def y(value: int) -> float:
        return bottom - value / (high * 1.04) * (bottom - top)

    layers, legend_x = [], float(LEFT + len(panel.title) * 7.2 + 24)
    for position, series in enumerate(panel.series):
        upper = _steps(
            [(x(ts), y(tops[position][ts])) for ts, _ in series.points]
            if panel.shape == "stack"
            else [(x(ts), y(value)) for ts, value in series.points]
        )
        path = upper
        if panel.shape == "stack":
            lower = _steps([(x(ts), y(bases[position].get(ts, 0))) for ts, _ in series.points], backwards=True)
            path = f"{upper}{lower}Z"
        layers.append(Layer(series.key, series.label, path, panel.shape == "stack", _px(legend_x)))
        legend_x += len(series.label) * 5.8 + 30
    ticks = tuple(
        Tick(_px(y(value)), bytes_text(value) if value else "0")
        for value in byte_ticks(high, 3 if bottom - top < 100 else 5)
    )
    return PanelDrawing(panel.title, _px(top), _px(bottom), ticks, tuple(layers))


def _steps(points: list[tuple[float, float]], *, backwards: bool = False) -> str:
    """Path that holds each value until the next point; `backwards` continues an area from its right end."""
    if not points:
        return ""
    corners: list[tuple[float, float]] = [points[0]]
    for (_, before), (x, y) in pairwise(points):
        corners += [(x, before), (x, y)]
    if backwards:
        corners.reverse()
    parts = [f"{'L' if backwards else 'M'}{_px(corners[0][0]):g} {_px(corners[0][1]):g}"]
    for (x0, y0), (x1, y1) in pairwise(corners):
        if _px(x0) != _px(x1):
            parts.append(f"H{_px(x1):g}")
        if _px(y0) != _px(y1):
            parts.append(f"V{_px(y1):g}")
    return "".join(parts)


def _columns(timeline: Timeline, count: int, right: float, span: int) -> tuple[Column, ...]:
    width = (right - LEFT) / count
    every: list[tuple[Series, list[int]]] = [
        (series, [ts for ts, _ in series.points]) for panel in timeline.panels for series in panel.series
    ]
    columns = []
    for number in range(count):
        offset = span * (2 * number + 1) // (2 * count)
        middle = LEFT + width * (number + 0.5)
        values = [
            (series.key, series.label, bytes_text(value) if value is not None else "–")
            for series, times in every
            for value in (_value_at(series.points, times, timeline.start_ns + offset),)
        ]
        mark = next((m for m in timeline.marks if m.start_ns <= timeline.start_ns + offset <= m.end_ns), None)
        tip_x = middle + 8 if middle < (LEFT + right) / 2 else middle - 8 - TIP_WIDTH
        label = tidy(mark.label, 42) if mark else ""
        columns.append(
            Column(
                _px(LEFT + width * number),
                _px(width),
                _px(middle),
                _px(tip_x),
                duration_text(offset),
                label,
                tuple(values),
            )
        )
    return tuple(columns)


def _value_at(points: tuple[Point, ...], times: list[int], ts_ns: int) -> int | None:
    position = bisect_right(times, ts_ns) - 1
    return points[position][1] if position >= 0 else None


def _summary(timeline: Timeline) -> str:
    parts = []
    for panel in timeline.panels:
        for series in panel.series:
            high = max(value for _, value in series.points)
            parts.append(f"{series.label}: at most {bytes_text(high)}, last {bytes_text(series.points[-1][1])}")
    return (
        f"Memory over {duration_text(timeline.end_ns - timeline.start_ns)}, {timeline.title}. " + "; ".join(parts) + "."
    )
