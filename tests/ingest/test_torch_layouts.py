"""Each layout that PyTorch has written, by hand, with the rows that must come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingest.errors import BadInput
from ingest.torch_snapshot import IMPORTER
from tests.ingest.support import check_importer, counts_of, ingest_file
from tests.ingest.torch_shapes import MIB, SEGMENT, START_US, block, event, segment, stack, whole, write


def _read(tmp_path: Path, snapshot: object) -> dict[str, pl.DataFrame]:
    return ingest_file(write(tmp_path, snapshot), tmp_path, IMPORTER)


def test_todays_layout(tmp_path: Path) -> None:
    tables = check_importer(write(tmp_path, whole()), tmp_path, IMPORTER)
    events = tables["memory_events"]
    start = START_US * 1000
    columns: tuple[str, ...] = ("level", "action", "ts_ns", "address", "size_bytes", "user_metadata", "compile_context")
    assert events.select(columns).rows() == [
        ("segment", "alloc", start, SEGMENT, 2 * MIB, None, None),
        ("tensor", "alloc", start + 10_000, SEGMENT, 1016, "step 1", "3/0"),
        ("tensor", "alloc", start + 20_000, SEGMENT + 1024, 4088, None, None),
        ("tensor", "free_requested", start + 30_000, SEGMENT + 1024, 4088, None, None),
        ("tensor", "free", start + 31_000, SEGMENT + 1024, 4088, None, None),
    ]  # fmt: skip
    assert tables["segments"].select("address", "total_bytes", "pool_id", "ts_ns", "is_expandable").rows() == [
        (SEGMENT, 2 * MIB, "0,0", start + 31_000, False)
    ]
    columns = ("address", "allocated_bytes", "requested_bytes", "block_state")
    assert tables["blocks"].select(columns).rows() == [
        (SEGMENT, 1024, 1016, "active_allocated"),
        (SEGMENT + 1024, 2 * MIB - 1024, None, "inactive"),
    ]
    assert tables["ranges"].select("name", "start_ns", "end_ns", "device_index").rows() == [
        ("request:1", start + 5_000, start + 40_000, 0)
    ]
    assert dict(tables["allocator_settings"].select("name", "setting").rows()) == {
        "expandable_segments": "False",
        "max_split_size": "-1",
    }
    assert "diagnostics" not in tables


def test_frames_of_cpp_and_of_nowhere(tmp_path: Path) -> None:
    frames = [
        {"name": "c10::Allocator::raw(unsigned long)", "filename": "??", "line": 0},
        {"name": "??", "filename": "", "line": 0},
        {"name": "", "filename": "x.py", "line": 3},
        {"name": "main", "filename": "main.py", "line": 9},
    ]
    tables = _read(tmp_path, {"device_traces": [[event("alloc", 512, 8, frames=frames)]], "segments": []})
    known = {row[0]: row[1:] for row in tables["frames"].select("frame_id", "function", "file", "line").rows()}
    assert [known[frame] for frame in tables["call_paths"]["frame_ids"][0]] == [
        ("main", "main.py", 9),
        ("??", "x.py", 3),
        ("??", None, None),
        ("c10::Allocator::raw(unsigned long)", None, None),
    ]


def test_events_without_frames_have_no_call_path(tmp_path: Path) -> None:
    bare = event("alloc", 1024, 8)
    del bare["frames"]
    snapshot = {"device_traces": [[event("alloc", 512, 8, frames=[]), bare]], "segments": []}
    tables = _read(tmp_path, snapshot)
    assert tables["memory_events"]["call_path_id"].to_list() == [None, None]
    assert "call_paths" not in tables
    assert "diagnostics" not in tables


def test_one_call_path_whether_frames_are_shared_or_equal(tmp_path: Path) -> None:
    shared = stack("leaf", "middle", "root")
    events = [
        event("alloc", 512, 8, frames=shared),
        event("alloc", 1024, 8, frames=list(shared)),
        event("alloc", 1536, 8, frames=stack("leaf", "middle", "root")),
        event("alloc", 2048, 8, frames=[shared[0], {**shared[1], "line": 99}, shared[2]]),
        event("alloc", 2560, 8, frames=[*shared[:2], *stack("root2")]),
    ]
    numbers = _read(tmp_path, {"device_traces": [events], "segments": []})["memory_events"]["call_path_id"].to_list()
    assert len(set(numbers[:3])) == 1
    assert len(set(numbers)) == 3


def test_old_history_layout_without_addresses_and_times(tmp_path: Path) -> None:
    """PyTorch 1.13 and 2.0: blocks carry a history, newest first; they tile their segment."""
    old = {
        "device": 0, "address": SEGMENT, "total_size": 4096, "allocated_size": 1536, "active_size": 2048, "stream": 0,
        "segment_type": "small",
        "blocks": [
            {"size": 1024, "state": "active_allocated",
             "history": [{"addr": SEGMENT, "real_size": 1000, "frames": stack("new")},
                         {"addr": SEGMENT, "real_size": 900, "frames": stack("older")}]},
            {"size": 512, "state": "inactive", "history": [{"addr": 1, "real_size": 512, "frames": stack("past")}]},
            {"size": 512, "state": "active_allocated", "requested_size": 400},
            {"size": 512, "state": "active_awaiting_free",
             "history": [{"addr": SEGMENT + 2048, "real_size": 500, "frames": stack("late")}]},
            {"size": 1536, "state": "inactive"},
        ],
    }  # fmt: skip
    tables = _read(tmp_path, {"segments": [old], "device_traces": [[event("alloc", SEGMENT, 1000, None)]]})
    assert tables["blocks"].select("address", "allocated_bytes", "requested_bytes", "block_state").rows() == [
        (SEGMENT, 1024, 1000, "active_allocated"),
        (SEGMENT + 1024, 512, None, "inactive"),
        (SEGMENT + 1536, 512, 400, "active_allocated"),
        (SEGMENT + 2048, 512, 500, "active_pending_free"),
        (SEGMENT + 2560, 1536, None, "inactive"),
    ]
    names = dict(tables["frames"].select("frame_id", "function").rows())
    paths = dict(tables["call_paths"].select("call_path_id", "frame_ids").rows())
    leaves = [names[paths[n][-1]] if n is not None else None for n in tables["blocks"]["call_path_id"]]
    assert leaves == ["new", None, None, "late", None]
    assert tables["memory_events"]["ts_ns"].to_list() == [None]
    assert counts_of(tables) == {("events_without_time", "info"): 1, ("older_history_entries", "info"): 1}


def test_out_of_memory_events(tmp_path: Path) -> None:
    events = [
        event("alloc", 512, 8),
        event("oom", None, 5 * MIB, 9, device_free=123, frames=stack("f")),
        event("snapshot", 0, 0),
    ]
    tables = _read(tmp_path, {"device_traces": [events], "segments": []})
    assert tables["memory_events"].select("action", "address", "size_bytes", "device_free_bytes").rows() == [
        ("alloc", 512, 8, None),
        ("oom", None, 5 * MIB, 123),
        ("snapshot", 0, 0, None),
    ]


def test_several_devices(tmp_path: Path) -> None:
    snapshot = {
        "device_traces": [[event("alloc", 512, 8)], [], [event("alloc", 512, 16), event("free_completed", 512, 16)]],
        "segments": [segment(0, 4096, block(512, 512)), segment(0, 4096, block(512, 1024), device=2)],
    }
    tables = _read(tmp_path, snapshot)
    assert tables["memory_events"].select("event_index", "device_index", "size_bytes").rows() == [
        (0, 0, 8),
        (1, 2, 16),
        (2, 2, 16),
    ]
    assert tables["blocks"].select("device_index", "allocated_bytes").rows() == [(0, 512), (2, 1024)]


def test_expandable_segments_and_private_pools(tmp_path: Path) -> None:
    snapshot = {
        "device_traces": [[event("segment_map", SEGMENT, 2 * MIB, 1), event("segment_unmap", SEGMENT, MIB, 2)]],
        "segments": [segment(SEGMENT + MIB, MIB, is_expandable=True, segment_pool_id=(3, 17), stream=99)],
    }
    tables = _read(tmp_path, snapshot)
    assert tables["memory_events"].select("level", "action").rows() == [("segment", "map"), ("segment", "unmap")]
    assert tables["segments"].select("is_expandable", "pool_id", "stream_id").rows() == [(True, "3,17", 99)]


def test_annotations_nested_repeated_unclosed_and_unopened(tmp_path: Path) -> None:
    def note(stage: str, name: str, at: int, device: int = 0) -> dict[str, Any]:
        return {"stage": stage, "name": name, "device": device, "time_us": START_US + at}

    notes = [
        note("END", "before", 0),
        note("START", "step", 1),
        note("START", "f", 2),
        note("START", "f", 3),
        note("END", "f", 4),
        note("START", "f", 5, device=1),
        note("END", "f", 6),
        note("END", "step", 7),
        note("START", "open", 8),
    ]
    tables = _read(tmp_path, whole() | {"external_annotations": notes})
    rows = tables["ranges"].with_columns(pl.col("start_ns", "end_ns") // 1000 - START_US)
    assert rows.select("name", "device_index", "start_ns", "end_ns").rows() == [
        ("step", 0, 1, 7),
        ("f", 0, 2, 6),
        ("f", 0, 3, 4),
        ("f", 1, 5, None),
        ("open", 0, 8, None),
    ]
    assert counts_of(tables) == {("annotation_end_without_start", "info"): 1, ("annotation_without_end", "info"): 2}


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(
            [segment(SEGMENT, 4096, block(SEGMENT, 512), block(SEGMENT + 512, 3584, "inactive"))], id="a list"
        ),
        pytest.param({"segments": [segment(SEGMENT, 4096, block(SEGMENT, 512))]}, id="no traces"),
        pytest.param(
            {"segments": [segment(SEGMENT, 4096, block(SEGMENT, 512))], "device_traces": []}, id="empty traces"
        ),
        pytest.param(
            {"segments": [segment(SEGMENT, 4096, block(SEGMENT, 512))], "device_traces": [[], []]}, id="idle devices"
        ),
    ],
)
def test_the_state_alone_is_read_and_says_what_is_missing(snapshot: object, tmp_path: Path) -> None:
    tables = _read(tmp_path, snapshot)
    assert tables["segments"]["address"].to_list() == [SEGMENT]
    assert tables["blocks"]["address"][0] == SEGMENT
    assert "memory_events" not in tables
    assert counts_of(tables) == {("no_memory_history", "info"): 1}


@pytest.mark.parametrize(
    "value",
    [{}, {"a": 1}, [1, 2], ["x"], [{"size": 3}], "text", 7, None, (), {"segments": {"a": 1}}, {"device_traces": "x"},
     {"segments": 5}],
    ids=repr,
)  # fmt: skip
def test_a_pickle_that_is_no_snapshot(value: object, tmp_path: Path) -> None:
    path = write(tmp_path, value)
    with pytest.raises(BadInput, match=r"not a PyTorch memory snapshot|is not a list") as refused:
        ingest_file(path, tmp_path, IMPORTER)
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)
