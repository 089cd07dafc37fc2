"""Links of a real capture against a second reading of the producers' own files."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingest.capture import capture_files
from pipeline.steps import analyze, ingest
from schemas.config import Config
from tests.ingest.torch_reading import CAPTURES, blocks_in_use, plain
from tests.pipeline.clock_captures import copy_small

pytestmark = pytest.mark.skipif(not CAPTURES.exists(), reason="the captures are not checked out")


class Run:
    """The tables of one capture beside its files."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder, self._tables = folder / name, folder / "out" / "tables"
        copy_small(name, self.folder)
        files = capture_files(self.folder)
        ingest(files, self.folder, folder / "out")
        analyze(folder / "out", Config())
        self.snapshot = plain(self.folder / "snapshot.pickle")
        self.cupti = [json.loads(line) for line in (self.folder / "cupti.jsonl").read_text().splitlines()]
        self.truth = json.loads((CAPTURES / name / "truth.json").read_text())

    def table(self, name: str) -> pl.DataFrame:
        return pl.read_parquet(self._tables / f"{name}.parquet")

    def links(self, link: str) -> dict[int, tuple[str, str]]:
        """allocation_id → (linked id, method)."""
        rows = self.table("allocation_links").filter(pl.col("link") == link)
        assert rows["allocation_id"].is_unique().all(), "one link of a kind an allocation"
        return {
            a: (linked, method) for a, linked, method in rows.select("allocation_id", "linked_id", "link_method").rows()
        }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    return cache(lambda name: Run(name, tmp_path_factory.mktemp("links")))


@pytest.fixture(params=["kv_leak", "expandable"])
def run(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    return runs(request.param)


@pytest.fixture
def kv_leak(runs: Callable[[str], Run]) -> Run:
    return runs("kv_leak")


def _bpftrace(path: Path) -> dict[tuple[int, int], list[str]]:
    """(address, bytes) of each cuMemAlloc that succeeded → functions of its stack, innermost first."""
    found: dict[tuple[int, int], list[str]] = {}
    stack: list[str] | None = None
    for line in path.read_text().splitlines():
        call = re.match(r"\d+ \d+ \d+ (\w+) (0x[0-9a-f]+) (\d+) (-?\d+)$", line)
        if call:
            stack = found.setdefault((int(call[2], 16), int(call[3])), []) if call[1] == "cuMemAlloc" else None
        elif line.startswith("\t") and stack is not None:
            stack.append(re.sub(r"\+\d+ \(.*|^\s*[0-9a-f]+ | \(\[unknown\]\)$", "", line).strip())
    return found


def test_each_segment_is_linked_to_the_cudamalloc_that_made_it(kv_leak: Run) -> None:
    made = {
        (r["address"], r["bytes"]): r["correlation_id"]
        for r in kv_leak.cupti
        if r["kind"] == "MEMORY2" and r["memory_operation_type"] == 1 and r["memory_kind"] == 3
    }
    names = {r["correlation_id"]: r["name"] for r in kv_leak.cupti if r["kind"] == "RUNTIME"}
    expected = {}
    for segment in kv_leak.snapshot["segments"]:
        correlation = made[segment["address"], segment["total_size"]]
        assert names[correlation].startswith("cudaMalloc")
        expected[segment["address"]] = correlation
    assert len(expected) == 20
    segments = kv_leak.table("allocations").filter(pl.col("level") == "segment")
    assert dict(segments.select("address", "alloc_correlation_id").rows()) == expected
    calls = kv_leak.links("api_call")
    for allocation, address in segments.select("allocation_id", "address").rows():
        assert calls[allocation] == (str(expected[address]), "correlation_id")


def test_each_segment_that_ebpf_saw_has_its_stack(kv_leak: Run) -> None:
    seen = _bpftrace(kv_leak.folder / "bpftrace.txt")
    segments = kv_leak.table("allocations").filter(pl.col("level") == "segment")
    native = kv_leak.links("native_stack")
    frames = dict(kv_leak.table("frames").select("frame_id", "function").rows())
    paths = dict(kv_leak.table("call_paths").select("call_path_id", "frame_ids").rows())
    linked = 0
    for allocation, address, size in segments.select("allocation_id", "address", "allocated_bytes").rows():
        stack = seen.get((address, size))
        if stack is None:
            assert allocation not in native
            continue
        ours = [frames[frame] for frame in reversed(paths[int(native[allocation][0])])]
        named = [name for name in stack if not re.match(r"(0x)?[0-9a-f]+$", name)]
        assert [name for name in ours if name in named][:5] == named[:5]
        linked += 1
    assert linked >= 10


def test_tensors_lie_in_their_segments_and_segments_in_driver_allocations(run: Run) -> None:
    allocations = run.table("allocations")
    parent = allocations.select(
        pl.col("allocation_id").alias("parent_allocation_id"),
        pl.col("level").alias("parent_level"),
        pl.col("address").alias("low"),
        (pl.col("address") + pl.col("allocated_bytes").cast(pl.UInt64)).alias("high"),
        pl.col("alloc_ts_ns").alias("from_ns"),
        pl.col("free_ts_ns").alias("until_ns"),
    )
    tensors = allocations.filter(pl.col("level") == "tensor")
    assert tensors["parent_allocation_id"].null_count() == 0
    joined = allocations.join(parent, on="parent_allocation_id")
    assert (joined["address"] >= joined["low"]).all()
    assert (joined["address"] < joined["high"]).all()
    up = dict(joined.select("level", "parent_level").unique().rows())
    assert up.items() <= {"tensor": "segment", "segment": "driver"}.items()
    inside = joined.filter(pl.col("level") == "tensor")
    assert (inside["alloc_ts_ns"] >= inside["from_ns"]).fill_null(True).all()
    assert inside.filter(pl.col("until_ns").is_not_null() & pl.col("free_ts_ns").is_null()).is_empty()
    live = {
        (0, a): size
        for a, size in inside.filter(pl.col("free_ts_ns").is_null()).select("address", "allocated_bytes").rows()
    }
    assert live == {place: size for place, (size, _) in blocks_in_use(run.snapshot).items()}


def _intervals(run: Run) -> list[tuple[int, int, str]]:
    """(start, end, request) of the annotations, which lie on the same clock as the allocator's events."""
    notes, found = run.snapshot["external_annotations"], []
    opened: dict[str, int] = {}
    for note in notes:
        if note["name"].startswith("request:"):
            if note["stage"] == "START":
                opened[note["name"]] = note["time_us"] * 1000
            else:
                found.append((opened.pop(note["name"]), note["time_us"] * 1000, note["name"].split(":")[1]))
    return sorted(found)


def _marks(run: Run) -> list[tuple[int, int, str]]:
    """(start, end, name) of the NVTX ranges in the CUPTI dump: a start record names it, an end record has its id."""
    opened = {r["id"]: r for r in run.cupti if r["kind"] == "MARKER" and r["name"]}
    ends = {r["id"]: r["timestamp"] for r in run.cupti if r["kind"] == "MARKER" and not r["name"]}
    return [(r["timestamp"], ends[number], r["name"]) for number, r in opened.items()]


def test_request_and_range_of_every_tensor_by_time(run: Run) -> None:
    intervals = _intervals(run)
    starts = [start for start, _, _ in intervals]
    assert all(before[1] <= after[0] for before, after in pairwise(intervals))
    marks = _marks(run)
    edges = sorted(edge for start, end, _ in marks for edge in (start, end))
    log = [json.loads(line) for line in (run.folder / "requests.jsonl").read_text().splitlines()]
    margin = 2_000_000  # of the log's own span beyond the annotation, where either answer is right
    names = dict(run.table("ranges").select("range_id", "name").rows())
    tensors = run.table("allocations").filter((pl.col("level") == "tensor") & pl.col("alloc_ts_ns").is_not_null())
    checked = 0
    for at, request, range_id in tensors.select("alloc_ts_ns", "request_id", "range_id").rows():
        place = bisect.bisect_right(starts, at) - 1
        inside = place >= 0 and at < intervals[place][1]
        if inside:
            assert request == intervals[place][2]
            near = bisect.bisect_left(edges, at - 100_000)
            if near < len(edges) and edges[near] < at + 100_000:
                continue  # the two clocks leave open on which side it lies
            around = [mark for mark in marks if mark[0] <= at < mark[1]]
            innermost = min(around, key=lambda mark: mark[1] - mark[0])[2] if around else f"request:{request}"
            assert names[range_id] == innermost
            checked += 1
        elif not any(r["start_ns"] - margin <= at <= r["end_ns"] + margin for r in log):
            assert request is None
            assert range_id is None
    assert checked > tensors.height // 2


def test_planted_tensors_belong_to_the_planted_requests(run: Run) -> None:
    planted: list[Any] = [tuple(storage) for leak in run.truth["planted"] for storage in leak["storages"]]
    live = run.table("allocations").filter((pl.col("level") == "tensor") & pl.col("free_ts_ns").is_null())
    request = dict(live.select("address", "request_id").rows())
    log = [json.loads(line) for line in (run.folder / "requests.jsonl").read_text().splitlines()]
    cancelled = {str(r["request_id"]) for r in log if r["status"] == 499}
    assert {request[address] for address, _ in planted} == cancelled
    assert all(address in request for address, _ in planted)
