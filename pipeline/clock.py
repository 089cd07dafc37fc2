"""One clock for a capture: which offset each file gets, from shared moments, header pairs or its declared clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from pipeline.clock_rows import Alignment, Edge, File

__all__ = ["Alignment", "Edge", "File", "align"]

AGREE_NS = 10_000_000
DISAGREE_NS = 1_000_000
DISJOINT_NS = 60_000_000_000
_METHODS = ("shared_allocations", "shared_ranges", "shared_tokens")
_FORMATS = ("torch_snapshot", "cupti", "kineto", "bpftrace_cuda")
_HOST_CLOCKS = ("monotonic", "boottime", "monotonic_raw", "perf")
"""Clocks that all processes of a host read alike until it is started again."""


class _Line(NamedTuple):
    """One clock mapped to another: t + offset + drift × (t − origin)."""

    offset_ns: int
    drift_ratio: float
    origin_ns: int

    def then(self, other: _Line) -> _Line:
        """This mapping followed by `other` (the product of two drifts is below a nanosecond and left out)."""
        carried = round(other.drift_ratio * (self.origin_ns + self.offset_ns - other.origin_ns))
        return _Line(self.offset_ns + other.offset_ns + carried, self.drift_ratio + other.drift_ratio, self.origin_ns)


def _declared_offset(file: File) -> int | None:
    """Offset to realtime by the file's own word: 0 on realtime, header pairs elsewhere, None when unknown."""
    if file.clock == "realtime":
        return 0
    return file.pair_offset_ns


def _rank(edge: Edge) -> tuple[int, int]:
    return (_METHODS.index(edge.method), -edge.anchor_count)


def _components(files: Iterable[File], edges: Iterable[Edge]) -> list[dict[int, list[Edge]]]:
    """Files tied together by anchors: for each component, file → edges by which it can be placed."""
    placed_by: dict[int, list[Edge]] = {file.file_id: [] for file in files}
    neighbours: dict[int, set[int]] = {file_id: set() for file_id in placed_by}
    for edge in edges:
        placed_by[edge.file_id].append(edge)
        neighbours[edge.file_id].add(edge.reference_file_id)
        neighbours[edge.reference_file_id].add(edge.file_id)
    components, seen = [], set[int]()
    for start in placed_by:
        if start in seen:
            continue
        members, todo = set[int](), [start]
        while todo:
            node = todo.pop()
            if node not in members:
                members.add(node)
                todo += neighbours[node] - members
        seen |= members
        components.append({node: placed_by[node] for node in sorted(members)})
    return components


def _walk(component: Mapping[int, list[Edge]], root: int) -> dict[int, Edge | None]:
    """The edge that places each file of a component, growing from `root` by the best edge first."""
    placed: dict[int, Edge | None] = {root: None}
    while True:
        steps = [
            edge
            for node, edges in component.items()
            if node not in placed
            for edge in edges
            if edge.reference_file_id in placed
        ]
        if not steps:
            return placed
        best = min(steps, key=lambda edge: (*_rank(edge), edge.file_id, edge.reference_file_id))
        placed[best.file_id] = best


def _place(component: Mapping[int, list[Edge]], files: Mapping[int, File]) -> list[Alignment]:
    """Offsets of one component. The files' declared clocks vote for where realtime lies; the majority wins."""

    def preference(file_id: int) -> tuple[int, int, int]:
        file = files[file_id]
        order = _FORMATS.index(file.format) if file.format in _FORMATS else len(_FORMATS)
        return (order, -sum(edge.anchor_count for edge in component[file_id]), file_id)

    root = min(component, key=preference)
    walk = _walk(component, root)
    to_root = {root: _Line(0, 0.0, 0)}
    for file_id, edge in walk.items():
        if edge is not None:
            own = _Line(edge.offset_ns, edge.drift_ratio, edge.origin_ns)
            to_root[file_id] = own.then(to_root[edge.reference_file_id])
    votes = {
        file_id: declared - to_root[file_id].offset_ns
        for file_id in component
        if (declared := _declared_offset(files[file_id])) is not None
    }
    if not votes:
        return [Alignment(file_id, files[file_id].clock, "none") for file_id in component]
    support = {f: sum(abs(other - vote) <= AGREE_NS for other in votes.values()) for f, vote in votes.items()}
    winner = min(votes, key=lambda f: (-support[f], files[f].clock != "realtime", preference(f)))
    shift = votes[winner]
    rows = []
    for file_id in component:
        file, placing = files[file_id], walk[file_id]
        line = to_root[file_id]
        offset = line.offset_ns + shift
        check = _declared_offset(file)
        if placing is None and check is not None and abs(check - offset) > AGREE_NS:
            placing = min(component[file_id], key=_rank)  # the others outvoted its own clock
        row = Alignment(
            file_id, file.clock, placing.method if placing else "declared_realtime", offset, clock_aligned=True
        )
        if placing is not None:
            row = replace(
                row,
                reference_file_id=placing.reference_file_id,
                anchor_count=placing.anchor_count,
                outlier_count=placing.outlier_count,
                drift_ratio=line.drift_ratio,
                origin_ns=placing.origin_ns,
                residual_p50_ns=placing.residual_p50_ns,
                residual_p99_ns=placing.residual_p99_ns,
            )
        elif file.clock != "realtime":
            row = replace(row, method="clock_pairs")
        if check is not None and (placing is not None or check != offset):
            difference = check - offset
            limit = max(DISAGREE_NS, row.residual_p99_ns or 0)
            row = replace(
                row, check_offset_ns=check, check_difference_ns=difference, is_disagreement=abs(difference) > limit
            )
        rows.append(row)
    return rows


def _alone(file: File, span: tuple[int, int] | None) -> Alignment:
    """A file that shares no moment with another: its declared clock, unless that puts it a minute off all others."""
    if file.manual_offset_ns is not None:
        return Alignment(file.file_id, file.clock, "manual", file.manual_offset_ns, clock_aligned=True)
    offset = _declared_offset(file)
    if offset is None:
        return Alignment(file.file_id, file.clock, "none")
    method = "declared_realtime" if file.clock == "realtime" else "clock_pairs"
    apart = False
    if span is not None and file.first_ns is not None and file.last_ns is not None:
        apart = file.first_ns + offset > span[1] + DISJOINT_NS or file.last_ns + offset < span[0] - DISJOINT_NS
    if apart:
        return Alignment(file.file_id, file.clock, "none", check_offset_ns=offset, is_disagreement=True)
    return Alignment(file.file_id, file.clock, method, offset, clock_aligned=True)


def align(files: Iterable[File], edges: Iterable[Edge]) -> list[Alignment]:
    """Rows of `clock_alignments`, one a file, by file_id."""
    by_id = {file.file_id: file for file in files}
    manual = {file_id for file_id, file in by_id.items() if file.manual_offset_ns is not None}
    usable = [edge for edge in edges if not {edge.file_id, edge.reference_file_id} & manual]
    rows: dict[int, Alignment] = {}
    components = _components([f for f in by_id.values() if f.file_id not in manual], usable)
    for component in components:
        if len(component) > 1:
            rows |= {row.file_id: row for row in _place(component, by_id)}
    bounds = [
        (file.first_ns + row.offset_ns, file.last_ns + row.offset_ns)
        for row in rows.values()
        if (file := by_id[row.file_id]).first_ns is not None and file.last_ns is not None and row.offset_ns is not None
    ]
    span = (min(b[0] for b in bounds), max(b[1] for b in bounds)) if bounds else None
    for file_id, file in by_id.items():
        if file_id not in rows:
            rows[file_id] = _alone(file, span)
    if not any(row.clock_aligned for row in rows.values()):
        rows |= _own_clock(components, by_id)
    rows |= _same_clocks(rows, by_id)
    for file_id, row in rows.items():
        if not row.clock_aligned and by_id[file_id].first_ns is None:
            rows[file_id] = replace(row, method="no_times")
    return [rows[file_id] for file_id in sorted(rows)]


def _own_clock(components: list[dict[int, list[Edge]]], files: Mapping[int, File]) -> dict[int, Alignment]:
    """Nothing tells the time of day: the clock of the files that share most is the capture's clock."""
    timed = [c for c in components if any(files[file_id].first_ns is not None for file_id in c)]
    if not timed:
        return {}

    def preference(component: Mapping[int, list[Edge]]) -> tuple[int, int, int]:
        formats = [files[file_id].format for file_id in component]
        order = min(_FORMATS.index(f) if f in _FORMATS else len(_FORMATS) for f in formats)
        return (order, -len(component), min(component))

    chosen = min(timed, key=preference)
    root = min(chosen)
    declared = {file_id: replace(files[file_id], clock="unknown", pair_offset_ns=None) for file_id in chosen}
    declared[root] = replace(declared[root], clock="realtime")
    rows = _place(chosen, declared) if len(chosen) > 1 else [_alone(declared[root], None)]
    return {
        row.file_id: replace(
            row,
            clock=files[row.file_id].clock,
            method="own_clock" if row.file_id == root else row.method,
            check_offset_ns=None,
            check_difference_ns=None,
            is_disagreement=False,
        )
        for row in rows
    }


def _same_clocks(rows: Mapping[int, Alignment], files: Mapping[int, File]) -> dict[int, Alignment]:
    """Files that share no moment with another, but a clock of their host with one that is placed."""
    found = {}
    for file_id, row in rows.items():
        file = files[file_id]
        if row.clock_aligned or file.clock not in _HOST_CLOCKS or row.is_disagreement:
            continue
        donors = [
            donor
            for donor in rows.values()
            if donor.clock_aligned
            and donor.method != "manual"
            and donor.clock == file.clock
            and (file.host is None or files[donor.file_id].host in (None, file.host))
        ]
        if donors:
            donor = min(donors, key=lambda d: (-d.anchor_count, d.file_id))
            found[file_id] = replace(
                donor,
                file_id=file_id,
                method="same_clock",
                reference_file_id=donor.file_id,
                anchor_count=0,
                outlier_count=0,
                check_offset_ns=None,
                check_difference_ns=None,
                is_disagreement=False,
            )
    return found
