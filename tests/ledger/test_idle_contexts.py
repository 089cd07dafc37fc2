"""Processes that hold device memory and do nothing with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.rows import Row, allocation, process
from tests.sql.support import run, tables

MIB = 1024 * 1024
TIMES = range(100, 2100, 100)


def _call(ts: int, pid: int = 1) -> dict[str, Any]:
    return {"source": "cupti", "start_ns": ts, "end_ns": ts + 5, "process_id": pid, "name": "cudaLaunchKernel"}


def _idle(folder: Path, samples: Sequence[Row], calls: Sequence[Row], **more: Sequence[Row]) -> list[tuple[Any, ...]]:
    database = tables(folder, metrics=samples, api_calls=calls, **more)
    database.connection.execute(f"SET VARIABLE context_min_bytes = {64 * MIB}")
    run(database, "ledger", "device_samples", "idle_contexts")
    return database.rows("SELECT process_id, device_index, last_bytes FROM idle_contexts ORDER BY ALL")


def _level(pid: int, held: int = 600 * MIB, times: Sequence[int] = TIMES) -> list[Row]:
    return [process(ts, held, pid=pid) for ts in times]


BUSY = [_call(ts) for ts in TIMES]


def test_idle_processes_beside_a_busy_one(tmp_path: Path) -> None:
    samples = [*_level(1), *_level(8), *_level(9, 500 * MIB)]
    assert _idle(tmp_path, samples, BUSY) == [(8, 0, 600 * MIB), (9, 0, 500 * MIB)]


def test_one_that_settles_in_the_first_half_is_idle(tmp_path: Path) -> None:
    samples = [process(ts, min(ts, 500) * MIB, pid=8) for ts in TIMES]
    assert _idle(tmp_path, samples, BUSY) == [(8, 0, 500 * MIB)]


@pytest.mark.parametrize(
    "samples",
    [
        [process(ts, ts * MIB, pid=8) for ts in TIMES],
        _level(8, 60 * MIB),
        _level(8, times=range(100, 900, 100)),
    ],
    ids=["grows", "small", "few samples"],
)
def test_not_level_not_much_or_not_long(samples: list[Row], tmp_path: Path) -> None:
    assert _idle(tmp_path, samples, BUSY) == []


def test_a_process_that_calls_late_is_not_idle(tmp_path: Path) -> None:
    assert _idle(tmp_path, _level(8), [*BUSY, _call(1900, pid=8)]) == []


def test_calls_of_its_start_alone_leave_it_idle(tmp_path: Path) -> None:
    assert _idle(tmp_path, _level(8), [*BUSY, _call(150, pid=8)]) == [(8, 0, 600 * MIB)]


def test_a_process_with_a_snapshot_is_not_idle(tmp_path: Path) -> None:
    assert _idle(tmp_path, _level(8), BUSY, allocations=[allocation(1, "tensor", 512, 1, process_id=8)]) == []


def test_nobody_is_idle_where_nobody_was_recorded(tmp_path: Path) -> None:
    assert _idle(tmp_path, [*_level(8), *_level(9)], []) == []
