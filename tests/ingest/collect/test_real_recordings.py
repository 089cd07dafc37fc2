"""What the recorders wrote on a real GPU, against what the recorded programs did (PROVENANCE.md beside the files)."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

from .harness import ROOT, read_capture

DATA = ROOT / "tests" / "data"
EXAMPLE = ROOT / "examples" / "kv_leak_small"


def _rows(kind: str, path: Path = DATA / "leakpath_cupti" / "pools_and_graphs.arrow") -> list[dict[str, Any]]:
    return read_capture(path).rows.get(kind, [])


def test_pool_allocations_plain_ones_and_pinned_ones() -> None:
    device, pinned = 3, 2
    sizes = {
        (row["memory_kind"], row["memory_operation_type"], row["bytes"], row["is_async"]) for row in _rows("MEMORY2")
    }
    assert {
        (device, 1, 12345678, 1),
        (device, 2, 12345678, 1),
        (device, 1, 7654321, 0),
        (pinned, 1, 4 << 20, 0),
    } <= sizes
    [pooled] = {row["memory_pool_config_address"] for row in _rows("MEMORY2") if row["is_async"]}
    assert {row["address"] for row in _rows("MEMORY_POOL")} == {pooled}


def test_each_driver_allocation_has_the_call_that_made_it() -> None:
    names = {row["correlation_id"]: row["name"] for row in _rows("RUNTIME")}
    calls = {
        row["bytes"]: names[row["correlation_id"]] for row in _rows("MEMORY2") if row["bytes"] in (12345678, 7654321)
    }
    assert calls[7654321].startswith("cudaMalloc_v")
    assert {names[row["correlation_id"]].split("_v")[0] for row in _rows("MEMORY2") if row["is_async"]} == {
        "cudaMallocAsync",
        "cudaFreeAsync",
    }


def test_a_graph_launch_and_an_nvtx_range_on_one_thread() -> None:
    [graph] = _rows("GRAPH_TRACE")
    assert 0 < graph["end"] - graph["start"] < 1_000_000
    start, end = _rows("MARKER")
    assert (start["name"], start["flags_"], end["flags_"]) == ("work", 2, 4)
    assert start["id"] == end["id"] and start["timestamp"] < end["timestamp"]
    assert start["object_id_thread_id"] == start["object_id_process_id"], "the main thread's tid is the pid"


def test_a_killed_program_leaves_what_was_written_before() -> None:
    capture = read_capture(DATA / "leakpath_cupti" / "killed.arrow")
    assert capture.footer is None
    assert len(capture.rows["CONCURRENT_KERNEL"]) == 5  # four fills and an addition; the later product is lost
    assert [row["name"] for row in capture.rows["MARKER"]] == ["work", None]


def test_the_examples_leak_is_in_its_snapshot_and_its_segments_are_in_its_cupti_file() -> None:
    truth = json.loads((DATA / "example_truth.json").read_text())
    snapshot = pickle.loads(gzip.decompress((EXAMPLE / "snapshot.pickle.gz").read_bytes()))
    blocks = {
        block["address"]: block["requested_size"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }
    planted: dict[int, int] = dict(truth["storages"])
    assert len(planted) == 64
    assert {address: blocks.get(address) for address in planted} == planted
    segments = {(segment["address"], segment["total_size"]) for segment in snapshot["segments"]}
    driver = {(row["address"], row["bytes"]) for row in _rows("MEMORY2", EXAMPLE / "cupti.arrow")}
    assert len(segments) == 21
    assert segments <= driver


def test_the_example_stays_small_and_names_no_folder_of_its_makers() -> None:
    files = [path for path in EXAMPLE.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 3_000_000
    snapshot = pickle.loads(gzip.decompress((EXAMPLE / "snapshot.pickle.gz").read_bytes()))
    frames = {frame["filename"] for trace in snapshot["device_traces"] for event in trace for frame in event["frames"]}
    assert all(name.startswith("/srv/app/") or "/site-packages/" in name for name in frames)
