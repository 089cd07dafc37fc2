"""Weights by call path: what each flame graph shows, read from the tables in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from reports.source import CaptureTables, Row, query_text
from reports.text import tidy, tidy_middle

MAX_PATHS = 3000  # call paths of one profile
MAX_DEPTH = 200  # frames of one call path
MAX_PROFILES = 24

Graph = Literal["live_at_end", "live_at_peak", "suspects", "churn_bytes", "churn_count", "cpu_samples", "gpu_time"]
GRAPHS: tuple[Graph, ...] = ("live_at_end", "live_at_peak", "suspects", "churn_bytes", "churn_count")
TITLES: dict[Graph, str] = {
    "live_at_end": "Bytes live at the end",
    "live_at_peak": "Bytes live at the peak",
    "suspects": "Bytes kept by suspects",
    "churn_bytes": "Bytes allocated in the window",
    "churn_count": "Allocations in the window",
    "cpu_samples": "CPU samples",
    "gpu_time": "Device time by call path",
}


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A frame as the flame graph shows it."""

    name: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Stacks:
    """Stacks of one level, process and device with their weights; `note` says what was capped or left out."""

    level: str
    process_id: int | None
    device_index: int | None
    note: str
    samples: tuple[tuple[tuple[StackFrame, ...], int], ...]


_WEIGHTS = """
CREATE OR REPLACE TEMP TABLE stack_weights AS
SELECT level, process_id, device_index, call_path_id, leaf, sum(weight)::BIGINT AS weight,
       count(*) FILTER (WHERE weight IS NULL) AS unknown
FROM ({select} UNION ALL BY NAME SELECT NULL::VARCHAR AS leaf WHERE false) GROUP BY ALL
"""


def graphs_of(tables: CaptureTables) -> tuple[Graph, ...]:
    """The flame graphs of a capture: those of memory, and those of its samples and devices where there are any."""
    more: dict[Graph, str] = {"cpu_samples": "stack_samples", "gpu_time": "gpu_ops"}
    return (*GRAPHS, *(graph for graph, table in more.items() if tables.states[table].row_count))


def read_stacks(tables: CaptureTables, graph: Graph) -> Iterator[Stacks]:
    """Stacks of every level, process and device, the finest level first; none when the graph has nothing to show.

    The weights of each `Stacks` sum to the table's own sum, whatever was capped.
    """
    tables.rows(_WEIGHTS.format(select=query_text(f"stacks/{graph}")))
    groups = tables.query("stacks/_groups")
    for group in groups[:MAX_PROFILES]:
        yield _read_group(tables, group)
    rest = groups[MAX_PROFILES:]
    if rest:
        frame = StackFrame(f"[{len(rest)} more levels, processes and devices]")
        yield Stacks("other", None, None, "not shown apart", (((frame,), sum(row["weight"] for row in rest)),))


def _read_group(tables: CaptureTables, group: Row) -> Stacks:
    key = {name: group[name] for name in ("level", "process_id", "device_index")}
    rows = tables.query("stacks/_paths", paths=MAX_PATHS, depth=MAX_DEPTH, **key)
    frames = _frames(tables, {number for row in rows for number in row["frame_ids"] or ()})
    samples: dict[tuple[StackFrame, ...], int] = {}
    cut = 0
    for row in rows:
        cut += bool(row["depth"] and row["depth"] > MAX_DEPTH)
        stack = tuple(frames[number] for number in row["frame_ids"] or ()) or (StackFrame("[no call path]"),)
        if row["leaf"] is not None:
            stack += (StackFrame(tidy(row["leaf"], 160)),)
        samples[stack] = samples.get(stack, 0) + row["weight"]
    rest = group["weight"] - sum(samples.values())
    if rest:
        samples[(StackFrame("[other call paths]"),)] = rest
    notes = [f"{MAX_PATHS:,} largest of {group['paths']:,} call paths"] if group["paths"] > MAX_PATHS else []
    notes += [f"{cut:,} paths cut to {MAX_DEPTH} frames"] if cut else []
    notes += [f"{group['unknown']:,} allocations of unknown size left out"] if group["unknown"] else []
    ordered = sorted(samples.items(), key=lambda item: [(f.name, f.file or "", f.line or 0) for f in item[0]])
    return Stacks(**key, note="; ".join(notes), samples=tuple(ordered))


def _frames(tables: CaptureTables, numbers: set[int]) -> dict[int, StackFrame]:
    rows = tables.rows(
        "SELECT frame_id, min(left(function, 1000)) AS function, min(right(file, 1000)) AS file, min(line) AS line,"
        " min(right(module, 1000)) AS module"
        " FROM frames WHERE frame_id IN (SELECT unnest($numbers::BIGINT[])) GROUP BY frame_id",
        {"numbers": sorted(numbers)},
    )
    frames = {number: StackFrame(f"[frame {number}]") for number in numbers} | {-1: StackFrame("[frames cut]")}
    for row in rows:
        function, line = tidy(row["function"], 160), row["line"] or None
        if function in ("", "[unknown]") and row["module"]:  # a frame without a symbol
            function = f"[{tidy_middle(row['module'].rsplit('/', 1)[-1], 80)}]"
        where = "/".join(row["file"].split("/")[-2:]) if row["file"] else ""
        place = tidy_middle(where, 80) + (f":{line}" if line else "")
        name = f"{function} ({place})" if where else function
        frames[row["frame_id"]] = StackFrame(name, tidy_middle(row["file"], 300) if where else None, line)
    return frames
