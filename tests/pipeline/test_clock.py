"""Placing files on one clock: who is believed, what is said of those that can't be placed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from ingest.capture import capture_files
from pipeline.clock import Alignment, Edge, File, align
from pipeline.ingesting import ingest
from tests.ingest.torch_shapes import MIB, SEGMENT, block, event, segment, write

HOUR = 3_600_000_000_000
T0 = 1_796_036_318_000_000_000


def _file(number: int, format_: str, clock: str = "realtime", start: int = T0, **more: int | None) -> File:
    known = {"pair_offset_ns": None, "manual_offset_ns": None} | more
    return File(number, format_, clock, start, start + 10**10, known["pair_offset_ns"], known["manual_offset_ns"])


def _tie(one: int, other: int, offset: int, method: str = "shared_allocations", anchors: int = 20) -> list[Edge]:
    """`other` + offset = `one`, in both directions."""
    return [
        Edge(one, other, method, anchors, 0, offset, 0.0, T0, 10, 90),
        Edge(other, one, method, anchors, 0, -offset, 0.0, T0, 10, 90),
    ]


def _offsets(rows: list[Alignment]) -> list[int | None]:
    return [row.offset_ns for row in rows]


def test_the_majority_of_declared_clocks_decides() -> None:
    """Torch is an hour ahead of the dump, the log and the tokens: it is the one that moves."""
    files = [_file(i, f) for i, f in enumerate(("torch_snapshot", "cupti", "request_log", "tokens_csv"))]
    edges = [*_tie(0, 1, HOUR), *_tie(1, 2, 0, "shared_ranges"), *_tie(2, 3, 0, "shared_tokens")]
    rows = align(files, edges)
    assert _offsets(rows) == [-HOUR, 0, 0, 0]
    assert [row.is_disagreement for row in rows] == [True, False, False, False]
    assert (rows[0].method, rows[0].reference_file_id) == ("shared_allocations", 1)
    assert all(row.clock_aligned for row in rows)


def test_two_files_that_differ_are_placed_together_and_named() -> None:
    rows = align([_file(0, "torch_snapshot"), _file(1, "cupti")], _tie(0, 1, HOUR))
    assert _offsets(rows) == [0, HOUR]
    assert (rows[1].check_offset_ns, rows[1].check_difference_ns, rows[1].is_disagreement) == (0, -HOUR, True)


def test_a_monotonic_file_is_placed_by_what_it_shares_and_checked_by_its_pairs() -> None:
    files = [
        _file(0, "torch_snapshot"),
        _file(1, "bpftrace_cuda", "monotonic", 10**12, pair_offset_ns=T0 - 10**12 + 400),
    ]
    rows = align(files, _tie(0, 1, T0 - 10**12))
    assert rows[1].offset_ns == T0 - 10**12
    assert rows[1].method == "shared_allocations"
    assert (rows[1].check_difference_ns, rows[1].is_disagreement) == (400, False)


def test_header_pairs_place_a_file_that_shares_nothing() -> None:
    row = align([_file(0, "bpftrace_cuda", "monotonic", 10**12, pair_offset_ns=T0)], [])[0]
    assert (row.method, row.offset_ns, row.clock_aligned) == ("clock_pairs", T0, True)


def test_a_file_on_an_unknown_clock_that_shares_nothing_is_not_placed() -> None:
    rows = align([_file(0, "torch_snapshot"), _file(1, "bpftrace_cuda", "monotonic", 10**12)], [])
    assert (rows[1].method, rows[1].offset_ns, rows[1].clock_aligned) == ("none", None, False)
    assert rows[0].clock_aligned


def test_without_a_time_of_day_the_files_that_share_moments_are_on_the_first_ones_clock() -> None:
    files = [
        _file(0, "cupti", "unknown", 5),
        _file(1, "bpftrace_cuda", "monotonic", 10**12),
        _file(2, "ftrace", "perf", 10**9),
    ]
    rows = align(files, _tie(0, 1, 77))
    assert [(row.method, row.offset_ns) for row in rows] == [
        ("own_clock", 0),
        ("shared_allocations", 77),
        ("none", None),
    ]
    assert [row.clock for row in rows] == ["unknown", "monotonic", "perf"]


def test_a_file_alone_is_on_its_own_clock() -> None:
    [row] = align([_file(0, "slab_table", "monotonic", 10**12)], [])
    assert (row.method, row.offset_ns, row.clock, row.clock_aligned) == ("own_clock", 0, "monotonic", True)
    [silent] = align([File(0, "memleak", "unknown", None, None, None)], [])
    assert (silent.clock_aligned, silent.method) == (False, "no_times")


def test_files_on_one_clock_of_a_host_are_placed_together() -> None:
    """A slab trace shares nothing with CUPTI, but its clock with the driver calls that do."""
    offset = T0 - 10**12
    files = [
        _file(0, "cupti"),
        _file(1, "bpftrace_cuda", "monotonic", 10**12),
        _file(2, "slab_table", "monotonic", 10**12),
        _file(3, "ftrace", "perf", 10**12),
    ]
    rows = align(files, _tie(0, 1, offset))
    assert [(row.method, row.offset_ns) for row in rows[1:]] == [
        ("shared_allocations", offset),
        ("same_clock", offset),
        ("none", None),
    ]
    assert rows[2].reference_file_id == 1
    apart = [replace(files[1], host="a"), replace(files[2], host="b")]
    assert not align([files[0], *apart], _tie(0, 1, offset))[2].clock_aligned


def test_a_lone_file_a_day_off_is_not_believed() -> None:
    files = [_file(0, "torch_snapshot"), _file(1, "cupti"), _file(2, "nvml_csv", start=T0 + 24 * HOUR)]
    row = align(files, _tie(0, 1, 0))[2]
    assert (row.clock_aligned, row.is_disagreement, row.check_offset_ns) == (False, True, 0)


def test_a_manual_offset_is_final() -> None:
    files = [_file(0, "torch_snapshot"), _file(1, "cupti", manual_offset_ns=-5)]
    row = align(files, _tie(0, 1, HOUR))[1]
    assert (row.method, row.offset_ns, row.clock_aligned) == ("manual", -5, True)


def test_chains_add_up_and_the_better_method_wins() -> None:
    """Torch ← CUPTI by allocations, CUPTI ← log by ranges; a direct but weaker tie torch ← log is 1 s off."""
    files = [_file(0, "torch_snapshot"), _file(1, "cupti", "unknown"), _file(2, "request_log", "unknown")]
    edges = [
        *_tie(0, 1, 100),
        *_tie(1, 2, 30, "shared_ranges", anchors=50),
        *_tie(0, 2, 10**9, "shared_tokens", anchors=500),
    ]
    assert _offsets(align(files, edges)) == [0, 100, 130]


def test_drift_is_carried_along_a_chain() -> None:
    files = [_file(0, "torch_snapshot"), _file(1, "cupti", "unknown"), _file(2, "bpftrace_cuda", "unknown")]
    fast = Edge(0, 1, "shared_allocations", 20, 0, 1000, 1e-4, T0, 1, 2)
    flat = Edge(1, 2, "shared_allocations", 20, 0, 0, 0.0, T0 + 10**10, 1, 2)
    row = align(files, [fast, flat, Edge(1, 0, "shared_allocations", 20, 0, -1000, -1e-4, T0, 1, 2)])[2]
    assert row.drift_ratio == pytest.approx(1e-4)
    assert row.offset_ns == 1000 + 10**6  # at its own origin, ten seconds on, the drift has grown to a millisecond


def test_no_files_and_one_file() -> None:
    assert align([], []) == []
    assert align([File(0, "torch_snapshot", "realtime", None, None, None)], [])[0].clock_aligned


def _dump(folder: Path, name: str, first: int, last: int, address: int) -> None:
    """A snapshot whose ring buffer holds one 1 KiB block an event, those from `first` to `last`; all blocks live."""
    events = [event("alloc", address + 1024 * i, 1016, 1000 * i) for i in range(first, last)]
    if first == 0:
        events.insert(0, event("segment_alloc", address, MIB, 0))
    blocks = [block(address + 1024 * i, 1024) for i in range(last)]
    blocks.append(block(address + 1024 * last, MIB - 1024 * last, "inactive"))
    folder.mkdir(exist_ok=True, parents=True)
    write(folder, {"device_traces": [events], "segments": [segment(address, MIB, *blocks)]}, name)


def test_two_dumps_of_one_process_are_one_history(tmp_path: Path) -> None:
    """The second dump repeats events 20 to 30 of the first and goes on to 50."""
    root = tmp_path / "capture"
    _dump(root, "a.pickle", 0, 30, SEGMENT)
    _dump(root, "b.pickle", 20, 50, SEGMENT)
    header = {"kind": "_HEADER", "clock": {"realtime": T0, "monotonic": 1}, "pid": 77}
    call = {"kind": "MEMORY2", "address": SEGMENT, "bytes": MIB, "process_id": 77, "timestamp": T0, "correlation_id": 5}
    call |= {"memory_operation_type": 1, "memory_kind": 3, "device_id": 0, "context_id": 1, "stream_id": 0}
    (root / "cupti.jsonl").write_text(f"{json.dumps(header)}\n{json.dumps(call)}\n")
    ingest(capture_files(root), root, tmp_path / "out")
    events = pl.read_parquet(tmp_path / "out/tables/memory_events.parquet").filter(pl.col("level") == "tensor")
    assert events["process_id"].unique().to_list() == [77]
    assert events["address"].sort().to_list() == [SEGMENT + 1024 * i for i in range(50)]
    blocks = pl.read_parquet(tmp_path / "out/tables/blocks.parquet")
    assert dict(blocks.group_by("file_id").agg(pl.col("dump_index").first()).rows()) == {0: 1, 1: 0}


def test_snapshots_of_ranks_in_subfolders_stay_apart(tmp_path: Path) -> None:
    root = tmp_path / "capture"
    _dump(root / "rank0", "snapshot.pickle", 0, 10, SEGMENT)
    _dump(root / "rank1", "snapshot.pickle", 0, 20, SEGMENT)
    ingest(capture_files(root), root, tmp_path / "out")
    events = pl.read_parquet(tmp_path / "out/tables/memory_events.parquet").filter(pl.col("level") == "tensor")
    counts = dict(events.group_by("process_id").agg(pl.len()).rows())
    assert sorted(counts.values()) == [10, 20]
    assert all(process < 0 for process in counts)
    files = pl.read_parquet(tmp_path / "out/tables/capture_files.parquet")
    assert files.select("path", "rank").rows() == [("rank0/snapshot.pickle", 0), ("rank1/snapshot.pickle", 1)]
