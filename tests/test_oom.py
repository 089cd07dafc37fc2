"""Lack of memory in words: what was asked for, what was free, who held the rest, and what would have helped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.oom import oom_findings
from tests.sql.support import tables

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


def _finding(folder: Path, state: dict[str, Any] | None, **event: Any) -> dict[str, Any]:
    database = tables(
        folder,
        oom_events=[EVENT | event],
        fragmentation=[STATE | state] if state is not None else [],
        allocations=[_tensor(1, 60 * GB, 7), _tensor(2, 19 * GB, None), _tensor(3, 40 * GB, 8, 0, 90)],
        frames=[{"frame_id": 1, "function": "load", "file": "/app/model.py", "line": 3}],
        call_paths=[{"call_path_id": 7, "frame_ids": [1], "depth_count": 1}],
    )
    [found] = oom_findings(database)
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
    found = oom_findings(tables(tmp_path, oom_events=events))
    assert len(found) == 21
    assert found[-1]["title"] == "30 more failed allocations"
