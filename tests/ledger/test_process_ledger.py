"""The ledger by process and rank over time, and counters that can't be."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pipeline.database import Database
from pipeline.ledger import judge_ledger
from tests.ledger.rows import Row, allocation, device, process
from tests.sql.support import tables


def _judge(
    folder: Path, metrics: Iterable[Row], allocations: Iterable[Row] = (), **others: list[Row]
) -> tuple[Database, list[dict[str, Any]]]:
    database = tables(folder, metrics=list(metrics), allocations=list(allocations), **others)
    for name, value in (("ledger_samples", 500), ("context_min_bytes", 1)):
        database.connection.execute(f"SET VARIABLE {name} = {value}")
    return database, judge_ledger(database, lambda name, made: None)


def _sample(ts: int, used: int, held: int, total: int = 10_000) -> list[Row]:
    return [*device(ts, used, free=total - used, total=total), process(ts, held)]


def test_each_process_with_its_rank_and_what_it_is_made_of(tmp_path: Path) -> None:
    metrics = [
        *(*_sample(1, 3000, 1000), process(1, 1500, pid=2)),
        *(*_sample(2, 5000, 4000), process(2, 900, pid=2)),
        *(*_sample(3, 3000, 2000), process(3, 800, pid=2)),
    ]
    lives = [allocation(0, "segment", 700, 1), allocation(1, "tensor", 400, 1)]
    facts = {"process_name": "a", "host": None, "file_id": 0}
    ranks: list[Row] = [facts | {"process_id": pid, "rank": pid + 5} for pid in (1, 2)]
    database, found = _judge(tmp_path, metrics, lives, processes=ranks)
    columns = "process_id, rank, sample_count, first_bytes, last_bytes, highest_bytes, torch_allocated_bytes"
    columns += ", torch_cached_bytes, context_bytes, unattributed_bytes, impossible_count"
    assert database.rows(f"SELECT {columns} FROM process_ledger_made ORDER BY process_id") == [
        (1, 6, 3, 1000, 2000, 4000, 400, 300, 300, 1000, 0),
        (2, 7, 3, 1500, 800, 1500, None, None, None, None, 0),
    ]
    assert found == []


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([device(ts, 11_000, total=10_000) for ts in range(4)], "more is used than the device has in 4 of 4"),
        ([device(ts, 6_000, free=5_000, total=10_000) for ts in range(4)], "used and free together are more"),
        ([_sample(ts, 3_000, 3_500) for ts in range(4)], "processes hold more than the device uses in 4 of 4 samples"),
        ([device(ts, 1, total=10_000 + ts) for ts in range(4)], "its capacity changes in 4 of 4 samples, by up to 3 B"),
    ],
    ids=["used", "free", "processes", "capacity"],
)
def test_counters_that_cannot_be_are_told(rows: list[list[Row]], words: str, tmp_path: Path) -> None:
    _, [found] = _judge(tmp_path, [row for sample in rows for row in sample])
    assert words in found["title"]
    assert (found["finding_kind"], found["severity"]) == ("ledger", "warning")


def test_allocations_beyond_what_the_process_holds(tmp_path: Path) -> None:
    metrics = [row for ts in range(1, 6) for row in _sample(ts, 3_000, 2_000)]
    lives = [allocation(0, "segment", 2_600, 1), allocation(1, "tensor", 2_700, 1)]
    database, found = _judge(tmp_path, metrics, lives)
    assert [row["title"] for row in found] == [
        "Device 0, process 1: its allocations are more than it holds in 5 of 5 samples, by up to 600 B",
        "Device 0, process 1: more is handed out than reserved in 5 of 5 samples, by up to 100 B",
    ]
    [(impossible,)] = database.rows("SELECT impossible_count FROM process_ledger_made")
    assert impossible == 5


@pytest.mark.parametrize("wrong", [{2}, {1, 2}, {0, 3, 5}], ids=str)
def test_a_sample_between_two_events_is_no_finding(wrong: set[int], tmp_path: Path) -> None:
    metrics = [row for ts in range(7) for row in _sample(ts, 3_000, 3_100 if ts in wrong else 2_000)]
    database, found = _judge(tmp_path, metrics)
    assert found == []
    [(count,)] = database.rows("SELECT count(*) FROM memory_ledger_made WHERE is_impossible")
    assert count == len(wrong), "it is marked all the same"


def test_a_running_total_that_falls_is_told(tmp_path: Path) -> None:
    values = {"a_total": (1, 5, 9, 2, 3), "b_total": (1, 1, 2, 2, 2), "c_bytes": (9, 8, 7, 6, 5)}
    facts = {"process_id": None, "device_index": None}
    rows = [
        facts | {"metric": m, "ts_ns": ts, "value": float(v)} for m, all_ in values.items() for ts, v in enumerate(all_)
    ]
    _, [found] = _judge(tmp_path, rows)
    assert found["title"] == "The running total a_total falls once in 5 samples: it was restarted"
    assert found["severity"] == "info"


def test_nothing_sampled_is_nothing_said(tmp_path: Path) -> None:
    database, found = _judge(tmp_path, [])
    assert found == []
    assert database.rows("SELECT * FROM process_ledger_made") == []
