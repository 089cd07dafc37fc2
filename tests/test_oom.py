"""Lack of memory in words: what was asked for, what was free, who held the rest, and what would have helped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.database import Database
from pipeline.oom import MAX_EVENTS, Explained, explain_failures
from pipeline.oom_remedies import MIB, Remedy, Segment, State, remedies
from tests.sql.support import assert_rows, run, tables

GB = 10**9
EVENT: dict[str, Any] = {
    "oom_event_id": 0,
    "ts_ns": 100,
    "level": "tensor",
    "source": "torch",
    "requested_bytes": 5 * GB,
    "device_free_bytes": GB,
}
STATE: dict[str, Any] = {
    "ts_ns": 100,
    "moment": "oom",
    "reserved_bytes": 80 * GB,
    "allocated_bytes": 79 * GB,
    "pending_free_bytes": 0,
    "inactive_bytes": GB,
    "largest_free_bytes": GB // 2,
    "free_block_count": 9,
}


def _tensor(number: int, size: int, path: int | None, start: int = 0, end: int | None = None) -> dict[str, Any]:
    facts = {"generation": 0, "is_alloc_before_window": False, "is_free_inferred": False, "is_size_estimated": False}
    return facts | {
        "allocation_id": number,
        "allocated_bytes": size,
        "alloc_call_path_id": path,
        "alloc_ts_ns": start,
        "free_ts_ns": end,
    }


def _explained(database: Database) -> Explained:
    database.connection.execute("CREATE TEMP VIEW oom_events_made AS FROM oom_events")
    database.connection.execute(f"SET VARIABLE oom_events_told = {MAX_EVENTS}")
    run(database, "allocator", "oom_segments")
    return explain_failures(database)


def _finding(folder: Path, state: dict[str, Any] | None, **event: Any) -> dict[str, Any]:
    database = tables(
        folder,
        oom_events=[EVENT | event],
        fragmentation=[STATE | state] if state is not None else [],
        allocations=[_tensor(1, 60 * GB, 7), _tensor(2, 19 * GB, None), _tensor(3, 40 * GB, 8, 0, 90)],
        frames=[{"frame_id": 1, "function": "load", "file": "/app/model.py", "line": 3}],
        call_paths=[{"call_path_id": 7, "frame_ids": [1], "depth_count": 1}],
    )
    [found] = _explained(database).findings
    return found


def test_memory_in_use_names_who_held_it_then(tmp_path: Path) -> None:
    found = _finding(tmp_path, {})
    assert found["title"] == (
        "Out of memory on device 0: 5 GB asked for, 1 GB free on the device, the allocator held 80 GB, 79 GB of it in"
        " use, 1 GB free in 9 blocks, the largest 500 MB"
    )
    assert found["advice"].startswith("No allocator setting would have made room")
    assert "60 GB in 1 tensor of load (/app/model.py:3); 19 GB in 1 tensor of an unknown call path" in found["advice"]
    assert "40 GB" not in found["advice"]  # freed before


@pytest.mark.parametrize(
    ("state", "helps"),
    [
        ({"inactive_bytes": 6 * GB, "largest_free_bytes": 2 * GB}, "expandable_segments:True"),
        ({"inactive_bytes": 4 * GB, "largest_free_bytes": 2 * GB}, "expandable_segments:True"),
        ({"inactive_bytes": GB, "pending_free_bytes": 4 * GB}, "synchronise"),
        ({"inactive_bytes": GB, "pending_free_bytes": GB}, "No allocator setting"),
    ],
)
def test_what_would_have_helped(state: dict[str, Any], helps: str, tmp_path: Path) -> None:
    assert helps in _finding(tmp_path, state)["advice"]


def test_a_request_larger_than_the_device(tmp_path: Path) -> None:
    found = _finding(tmp_path, {}, requested_bytes=400 * GB)
    assert found["advice"] == "Even an empty allocator would have had 81 GB only: the request itself has to shrink."


def test_without_a_history_it_says_what_to_record(tmp_path: Path) -> None:
    found = _finding(tmp_path, None, requested_bytes=None, name="cudaMalloc", device_free_bytes=None)
    assert found["title"] == "Out of memory on device 0: cudaMalloc failed"
    assert "leakpath collect torch" in found["advice"]
    assert found["bytes"] is None


def test_the_kernels_own_lack_is_told_apart(tmp_path: Path) -> None:
    event = {"level": "host", "device_index": None, "process_id": 4711, "name": "python3", "requested_bytes": None}
    found = _finding(tmp_path, None, **event)
    assert found["title"] == "The kernel ran out of memory and killed python3 (4711)"


def test_of_many_the_first_are_told_and_the_rest_counted(tmp_path: Path) -> None:
    events = [EVENT | {"oom_event_id": number, "ts_ns": number} for number in range(50)]
    found = _explained(tables(tmp_path, oom_events=events)).findings
    assert len(found) == 21
    assert found[-1]["title"] == "30 more failed allocations"


def _weighed(
    segments: list[Segment],
    requested: int,
    free: int = 0,
    settings: dict[str, str] | None = None,
    total: int | None = None,
) -> dict[str, Remedy]:
    state = State(requested * MIB, free * MIB, segments)
    reserved = sum(segment.total for segment in segments)
    return {one.remedy: one for one in remedies(state, settings or {}, reserved=reserved, device_total=total)}


def _segment(total: int, used: int, largest: int, **more: Any) -> Segment:
    """Sizes in MiB; the free part is one piece."""
    gap = (total - used) * MIB
    base = Segment(total * MIB, 0, 0, "0,0", False, used * MIB, 0, largest * MIB, gap, gap)
    return base._replace(**more)


def test_large_segments_held_by_small_blocks() -> None:
    held = [_segment(512, 20, 10), _segment(512, 20, 10), _segment(20, 20, 20)]
    found = _weighed(held, 900)
    assert found["expandable_segments"].would_help
    split = found["max_split_size_mb"]
    assert (split.would_help, split.room) == (True, 984 * MIB)
    assert split.reason.startswith("at 256, 2 large segments with 1.03 GB free")
    assert not found["garbage_collection_threshold"].would_help
    full = _weighed([_segment(512, 500, 500)] * 2, 900)
    assert not any(one.would_help for one in full.values())


def test_what_is_on_already_is_not_advised() -> None:
    held = [_segment(512, 20, 10, is_expandable=True)]
    found = _weighed(held, 400)
    assert found["expandable_segments"].reason == "it is on already"
    assert "no effect while expandable_segments is on" in found["max_split_size_mb"].reason
    limited = _weighed([_segment(512, 20, 10)], 400, settings={"max_split_size": str(64 * MIB)})["max_split_size_mb"]
    assert (limited.would_help, limited.room) == (True, 492 * MIB)
    assert limited.reason.startswith("at 32,")
    tight = _weighed([_segment(512, 80, 40)], 400, settings={"max_split_size": str(64 * MIB)})["max_split_size_mb"]
    assert not tight.would_help
    assert "it is 67.1 MB already" in tight.reason


@pytest.mark.parametrize(
    ("segment", "remedy"),
    [
        (_segment(512, 20, 10, stream_id=7), "one_stream"),
        (_segment(512, 20, 10, pool_id="1,0"), "fewer_graph_pools"),
    ],
)
def test_free_bytes_that_the_request_may_not_use(segment: Segment, remedy: str) -> None:
    """Another stream's and a graph's free blocks are no room, whatever the settings say."""
    found = _weighed([segment, _segment(100, 100, 50)], 400)
    assert found[remedy].would_help
    assert not any(found[name].would_help for name in ("expandable_segments", "max_split_size_mb"))


def test_small_segments_serve_small_requests_only() -> None:
    small = [_segment(2, 1, 1)] * 600
    assert not _weighed(small, 400)["expandable_segments"].would_help
    assert _weighed([*small, _segment(512, 100, 50)], 400)["expandable_segments"].would_help


def test_whole_unused_segments_waiting_blocks_and_others() -> None:
    found = _weighed([_segment(512, 0, 0)], 400)
    assert found["garbage_collection_threshold"].would_help
    assert "set_per_process_memory_fraction" in found["garbage_collection_threshold"].reason
    waiting = _weighed([_segment(512, 512, 512, pending=500 * MIB)], 400)
    assert waiting["synchronize"].would_help
    assert not waiting["expandable_segments"].would_help
    shared = _weighed([_segment(100, 100, 50)], 400, free=10, total=2000 * MIB)
    assert (shared["other_processes"].would_help, shared["other_processes"].room) == (True, 1890 * MIB)
    assert _weighed([_segment(100, 100, 50)], 400)["other_processes"].would_help is None
    assert _weighed([_segment(100, 100, 50)], 400, free=500)["memory_limit"].would_help


def _at(number: int, level: str, low: int, size: int, *times: int | None, **more: Any) -> dict[str, Any]:
    """An allocation with its alloc, free request and free times."""
    names = ("alloc_ts_ns", "free_requested_ts_ns", "free_ts_ns")
    row = _tensor(number, size, None) | dict(zip(names, times, strict=True)) | {"level": level, "address": low}
    return row | {"stream_id": 4} | more


def test_segments_at_the_failure(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        oom_events=[EVENT],
        memory_events="action level ts_ns stream_id\noom tensor 100 4",
        allocations=[
            _at(1, "segment", 0, 1000, 10, None, None, pool_id="0,0"),
            _at(2, "segment", 2000, 500, None, None, None, pool_id="1,0", stream_id=5),
            _at(3, "segment", 4000, 500, 10, None, 90),
            _at(4, "tensor", 100, 200, 20, None, None),
            _at(5, "tensor", 600, 100, 20, 50, 150),  # waits
            _at(6, "tensor", 300, 300, 20, 60, 100),  # freed just then
            _at(7, "tensor", 700, 300, 101, None, None),  # not yet there
        ],
    )
    _explained(database)
    assert_rows(
        database,
        "oom_segments",
        """
        address total_bytes stream_id asking_stream_id pool_id used_bytes pending_bytes largest_used_bytes free_bytes
        0       1000        4         4                0,0     300        100           200                700
        2000    500         5         4                1,0     0          0             0                  500
        """,
    )
    assert database.rows("SELECT largest_free_bytes FROM oom_segments ORDER BY address") == [(300,), (500,)]
