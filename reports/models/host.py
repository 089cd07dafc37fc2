"""The host's memory: pressure on its cgroups laid beside the latency of requests, and what lies on which NUMA node."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reports.source import CaptureTables, Row
from reports.text import bytes_text, duration_text, place_text, plural, share_text, tidy

MAX_EFFECTS, MAX_CHARTS, MAX_WINDOWS, MAX_NODES = 12, 4, 400, 32
WIDTH, HEIGHT, LEFT, RIGHT = 880, 262, 70, 34
_MEMORY, _STALLS, _LATENCY = (24, 94), (118, 158), (182, 236)  # top and bottom of each scale, in pixels
_EVENTS = (
    ("max_event_count", "hit memory.max", "time"),
    ("high_event_count", "over memory.high", "time"),
    ("oom_event_count", "out of memory", "time"),
    ("kill_count", "killed", "process"),
)


@dataclass(frozen=True, slots=True)
class Effect:
    """One host or cgroup: what happened to its memory, and P95 latency of requests meanwhile and otherwise (ns)."""

    who: str
    events: str
    highest_stalled: float | None
    memory_bytes: int | None
    limit_bytes: int | None
    pressed_count: int
    calm_count: int
    pressed_p95_ns: int | None
    calm_p95_ns: int | None
    p_value: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One window: a strip from `x`, with what to say of it, and its drawn values (None: not known). Pixels."""

    x: float
    width: float
    label: str
    is_pressed: bool
    stall_y: float | None
    has_events: bool
    latency_y: float | None


@dataclass(frozen=True, slots=True)
class PressureChart:
    """One host or cgroup over time: memory with its limit, stalls and limit events, and latency, on one axis."""

    who: str
    bars: tuple[Bar, ...]
    memory_path: str
    limit_path: str
    ticks: tuple[tuple[float, str], ...]
    times: tuple[tuple[float, str], ...]
    has_latency: bool
    start_ns: int
    summary: str


@dataclass(frozen=True, slots=True)
class NodePart:
    """One part of memory on one node."""

    place: str
    part: str
    node_index: int
    first_bytes: int | None
    last_bytes: int | None
    growth_per_hour: float | None
    growth_p_value: float | None
    share: float | None


@dataclass(frozen=True, slots=True)
class NodeTraffic:
    """Pages of 4 KiB that one node handed out."""

    place: str
    node_index: int
    local_count: int | None
    remote_count: int | None
    missed_count: int | None
    remote_ratio: float | None


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Bounded lists; `*_left_out` say how many more rows their tables have."""

    effects: tuple[Effect, ...]
    effects_left_out: int
    charts: tuple[PressureChart, ...]
    nodes: tuple[NodePart, ...]
    nodes_left_out: int
    traffic: tuple[NodeTraffic, ...]


def read_host(tables: CaptureTables) -> HostMemory:
    """Everything of the section; empty lists where nothing was sampled."""
    effects = tables.query("host_effects", limit=MAX_EFFECTS)
    charts = []
    for row in effects[:MAX_CHARTS]:
        facts = {name: row[name] for name in ("host", "cgroup", "clock_aligned")}
        chart = _chart(_who(row), tables.query("host_windows", **facts, limit=MAX_WINDOWS))
        charts += [chart] if chart else []
    nodes = tables.query("numa_nodes", limit=MAX_NODES)
    return HostMemory(
        tuple(map(_effect, effects)),
        effects[0]["total"] - len(effects) if effects else 0,
        tuple(charts),
        tuple(map(_node, nodes)),
        nodes[0]["total"] - len(nodes) if nodes else 0,
        tuple(map(_traffic, tables.query("numa_traffic", limit=MAX_NODES))),
    )


def _who(row: Row) -> str:
    name = f"cgroup {tidy(row['cgroup'], 80)}" if row["cgroup"] else "the host"
    return name + (f" on {tidy(row['host'], 60)}" if row["host"] else "")


def _events_text(row: Row) -> str:
    return ", ".join(f"{words} {plural(row[name], noun)}" for name, words, noun in _EVENTS if row[name])


def _effect(row: Row) -> Effect:
    known = [row[name] for name, _, _ in _EVENTS if row[name] is not None]
    return Effect(
        _who(row),
        _events_text(row) or ("none" if known else "not counted"),
        row["highest_stalled_ratio"],
        row["memory_bytes"],
        row["limit_bytes"],
        row["pressed_request_count"],
        row["calm_request_count"],
        row["pressed_p95_ns"],
        row["calm_p95_ns"],
        row["pressure_p_value"],
        tidy(row["abstained_reason"], 200),
    )


def _node(row: Row) -> NodePart:
    place = place_text(process_id=row["process_id"]) or tidy(row["host"], 60) or "the host"
    part = tidy(row["memory_part"], 40).replace("_", " ")
    return NodePart(
        place,
        part,
        row["node_index"],
        row["first_bytes"],
        row["last_bytes"],
        row["growth_bytes_per_hour"],
        row["growth_p_value"],
        row["node_share_ratio"],
    )


def _traffic(row: Row) -> NodeTraffic:
    return NodeTraffic(
        tidy(row["host"], 60) or "the host",
        row["node_index"],
        row["local_page_count"],
        row["remote_page_count"],
        row["miss_page_count"],
        row["remote_ratio"],
    )


def _chart(who: str, windows: list[Row]) -> PressureChart | None:
    """The drawing of a host's or cgroup's windows; None with fewer than two."""
    if len(windows) < 2:
        return None
    start: int = windows[0]["start_ns"]
    end: int = windows[-1]["end_ns"]
    span = max(1, end - start)
    top_bytes = max((row[name] or 0 for row in windows for name in ("memory_bytes", "limit_bytes")), default=0) or 1
    latencies = [float(row["p95_ns"]) for row in windows if (row["p95_ns"] or 0) > 0]
    low = math.floor(math.log10(min(latencies))) if latencies else 0
    high = max(math.ceil(math.log10(max(latencies))) if latencies else 1, low + 1)

    def x(ts_ns: int) -> float:
        return round(LEFT + (ts_ns - start) / span * (WIDTH - LEFT - RIGHT), 1)

    def at(scale: tuple[int, int], share: float) -> float:
        return round(scale[1] - min(max(share, 0.0), 1.0) * (scale[1] - scale[0]), 1)

    bars = []
    for row in windows:
        stalled, p95 = row["some_stalled_ratio"], row["p95_ns"]
        bars.append(
            Bar(
                x(row["start_ns"]),
                max(0.8, round(x(row["end_ns"]) - x(row["start_ns"]), 1)),
                _bar_text(row, start),
                bool(row["is_pressed"]),
                at(_STALLS, stalled) if stalled is not None else None,
                bool(_events_text(row)),
                at(_LATENCY, (math.log10(p95) - low) / (high - low)) if p95 and p95 > 0 else None,
            )
        )

    def path(name: str) -> str:
        steps = [
            f"M{x(row['start_ns']):g} {at(_MEMORY, row[name] / top_bytes):g}H{x(row['end_ns']):g}"
            for row in windows
            if row[name] is not None
        ]
        return "".join(steps)

    ticks = [(at(_MEMORY, share), bytes_text(top_bytes * share)) for share in (0.5, 1.0)]
    ticks += [(at(_STALLS, 0.0), "0 %"), (at(_STALLS, 1.0), "100 %")]
    if latencies:
        ticks += [(at(_LATENCY, share), duration_text(10.0**power)) for share, power in ((0.0, low), (1.0, high))]
    parts = range(5)
    times = [(x(start + span * part // 4), duration_text(span * part / 4) if part else "0") for part in parts]
    pressed = sum(bar.is_pressed for bar in bars)
    summary = f"{plural(len(bars), 'window')} over {duration_text(span)}, {pressed:,} of them under pressure"
    return PressureChart(
        who,
        tuple(bars),
        path("memory_bytes"),
        path("limit_bytes"),
        tuple(ticks),
        tuple(times),
        bool(latencies),
        start,
        summary,
    )


def _bar_text(row: Row, start_ns: int) -> str:
    parts = [f"after {duration_text(row['start_ns'] - start_ns)}"]
    if row["memory_bytes"] is not None:
        parts.append(f"held {bytes_text(row['memory_bytes'])}")
    parts += [text for text in (_events_text(row),) if text]
    if row["some_stalled_ratio"] is not None:
        parts.append(f"waited for memory {share_text(row['some_stalled_ratio'])} of it")
    if row["p95_ns"]:
        parts.append(f"{plural(row['request_count'], 'request')} ended, P95 {duration_text(row['p95_ns'])}")
    return ", ".join(parts)
