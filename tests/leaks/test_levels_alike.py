"""Tensors, driver allocations and kernel objects are judged by the same rules, processes and devices apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.leaks.judging import Row, life, rated, steps, verdicts

LEAK, CACHE, WEIGHTS, WARM_UP, CHURN = range(1, 6)
COUNT = 24
LEVELS: dict[str, dict[str, Any]] = {
    "tensor": {"level": "tensor"},
    "driver": {"level": "driver", "alloc_correlation_id": 7},
    "pinned": {"level": "driver", "memory_kind": "pinned", "alloc_correlation_id": 7},
    "slab": {"level": "host", "memory_kind": "slab", "device_index": None},
    "heap": {"level": "host", "memory_kind": "heap", "device_index": None},
}


def _lives(**facts: Any) -> list[Row]:
    rows = [life(WEIGHTS, -0.5, **facts)]
    for i in range(COUNT):
        rows.append(life(LEAK, i + 0.3, **facts))
        rows.append(life(CACHE, i + 0.4, i + 3.4 if i + 3.4 < COUNT else None, **facts))
        rows += [life(CHURN, i + 0.5 + k / 16, i + 0.53 + k / 16, **facts) for k in range(4)]
        if i < 6:
            rows.append(life(WARM_UP, i + 0.2, **facts))
    return rows


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_is_judged_alike(level: str, tmp_path: Path) -> None:
    found = rated(tmp_path, _lives(**LEVELS[level]), ranges=steps(COUNT))
    assert verdicts(found) == {LEAK: "growing", CACHE: "bounded", WEIGHTS: "one_time", WARM_UP: "bounded"}
    [suspect] = [item for item in found if item.suspect.judgement.verdict == "growing"]
    assert (suspect.epochs.kind, suspect.epochs.count) == ("step", COUNT)
    assert (suspect.suspect.total("count"), suspect.suspect.total("bytes")) == (COUNT, COUNT * 4096)


def test_of_two_devices_the_leaking_one(tmp_path: Path) -> None:
    clean = [row for row in _lives(device_index=0) if row["alloc_call_path_id"] != LEAK]
    found = rated(tmp_path, [*clean, *_lives(device_index=1)], ranges=steps(COUNT))
    growing = [item.suspect.groups[0].key for item in found if item.suspect.judgement.verdict == "growing"]
    assert [(key.device_index, key.path_key) for key in growing] == [(1, LEAK)]


def test_of_two_processes_the_leaking_one_each_by_its_own_steps(tmp_path: Path) -> None:
    clean = [row for row in _lives(process_id=1) if row["alloc_call_path_id"] != LEAK]
    ranges = [*steps(COUNT, process_id=1), *steps(COUNT, name="batch {}", process_id=2, file_id=1)]
    found = rated(tmp_path, [*clean, *_lives(process_id=2)], ranges=ranges)
    growing = [item for item in found if item.suspect.judgement.verdict == "growing"]
    assert [(item.suspect.groups[0].key.process_id, item.epochs.kind) for item in growing] == [(2, "range family")]


@pytest.mark.parametrize("level", ["tensor", "driver"])
def test_no_call_stack_is_judged_by_range_path(level: str, tmp_path: Path) -> None:
    inner = [
        {"name": name, "start_ns": i * 10**6 + begin, "end_ns": i * 10**6 + end, "thread_id": 1, "range_id": place}
        for i in range(COUNT)
        for name, begin, end, place in (("load", 1, 5, 1000 + 2 * i), ("decode", 10, 900_000, 1001 + 2 * i))
    ]
    own = {LEAK: 1001, CACHE: 1000}
    rows = [
        dict(row)
        | {
            "alloc_call_path_id": None,
            "range_id": own[row["alloc_call_path_id"]] + 2 * int(row["alloc_ts_ns"] // 10**6),
        }
        for row in _lives(**LEVELS[level])
        if row["alloc_call_path_id"] in own
    ]
    found = rated(tmp_path, rows, ranges=[*steps(COUNT), *inner])
    assert sorted(verdicts(found).values()) == ["bounded", "growing"]
