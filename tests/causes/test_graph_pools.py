"""Private pools that grow with captured shapes, and those that only look like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.causes.graph_pools import check_graph_pools
from pipeline.causes.rows import Checked
from pipeline.leaks.paths import CallPathReader
from schemas.config import RootCauseSettings
from tests.causes.support import MIB, allocation, capture
from tests.sql.support import run

CAPTURED = {
    "frames": [
        {"frame_id": 1, "function": "serve", "file": "/app/a.py", "line": 1},
        {"frame_id": 2, "function": "__call__", "file": "/lib/vllm/compilation/cuda_graph.py", "line": 9},
    ],
    "call_paths": [
        {"call_path_id": 7, "frame_ids": [1, 2], "depth_count": 2},
        {"call_path_id": 8, "frame_ids": [1], "depth_count": 1},
    ],
}
EPOCHS = [
    {"epoch_index": n, "epoch_kind": "request", "epoch_name": str(n), "start_ns": n * 10**7, "end_ns": (n + 1) * 10**7}
    for n in range(10)
]


def _check(temp: Path, rows: list[dict[str, Any]], **given: Any) -> Checked:
    database = capture(temp, rows, **given)
    return check_graph_pools(database, RootCauseSettings(), CallPathReader(database))


def _segment(number: int, start: int | None, pool: str, path: int = 7, mebibytes: int = 20) -> dict[str, Any]:
    return allocation(number, mebibytes, start, None, level="segment", pool_id=pool, alloc_call_path_id=path)


_GROWING = [_segment(n, n * 10, f"{n},0") for n in range(1, 10)]


def test_a_pool_a_captured_shape_grows(tmp_path: Path) -> None:
    rows = [*_GROWING, _segment(20, 0, "0,0", 8, 500)]
    calls = [
        {"api": "runtime", "name": "cudaGraphInstantiate_v12000", "start_ns": n, "return_code": 0} for n in range(9)
    ]
    calls += [{"api": "driver", "name": "cuGraphInstantiateWithFlags", "start_ns": n} for n in range(9)]
    checked = _check(tmp_path, rows, epochs=EPOCHS, api_calls=calls, **CAPTURED)
    [cause] = checked.causes
    assert (cause["root_cause"], cause["bytes"]) == ("graph_pool", 180 * MIB)
    text = " / ".join(cause["evidence_for"])
    assert "9 private pools hold 189 MB in 9 segments, taken at 9 moments" in text
    assert "105 MB of it, and 5 of the pools, came in the later half of what repeats" in text  # from 50 ms on
    assert "100% of it was taken while a CUDA graph was captured" in text
    assert "9 graphs were instantiated" in text
    assert cause["evidence_against"] == []
    assert "CUDA graph pools keep growing: 189 MB in 9 private pools" in checked.findings[0]["title"]


def test_a_pool_made_by_hand_without_graphs_is_doubted(tmp_path: Path) -> None:
    rows = [_segment(n, n * 10, "0,3", 8) for n in range(1, 10)]
    [cause] = _check(tmp_path, rows, **CAPTURED).causes
    against = " / ".join(cause["evidence_against"])
    assert "only 0% of it has a frame of a CUDA graph's capture" in against
    assert "torch.cuda.MemPool" in against
    assert "nothing repeats in the recording" in against
    assert cause["confidence"] < 0.5


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([_segment(n, n, f"{n},0") for n in range(1, 10)], "do not grow"),  # captured at the start
        ([_segment(n, None, f"{n},0") for n in range(1, 10)], "from before the recorded window"),
        ([_segment(n, n * 10, f"{n},0", mebibytes=2) for n in range(1, 10)], "less than 67.1 MB"),
        ([_segment(n, n * 10, "0,0") for n in range(1, 10)], "no segment lies in a private pool"),
        ([_segment(1, 0, "1,0"), _segment(2, 90, "1,0", mebibytes=100)], "do not grow"),  # one late step
    ],
)
def test_pools_that_do_not_grow_are_none(rows: list[dict[str, Any]], reason: str, tmp_path: Path) -> None:
    checked = _check(tmp_path, [*rows, allocation(30, 1, 0, 100)], epochs=EPOCHS, **CAPTURED)
    assert checked.causes == []
    assert checked.reason is not None
    assert reason in checked.reason


@pytest.mark.parametrize(
    ("rows", "reason"),
    [([], "no memory snapshot"), ([_segment(1, 0, "0,0") | {"pool_id": None}], "the snapshot names no pools")],
)
def test_without_pool_ids_it_abstains(rows: list[dict[str, Any]], reason: str, tmp_path: Path) -> None:
    checked = _check(tmp_path, rows)
    assert checked.causes == []
    assert checked.abstained_reason is not None
    assert reason in checked.abstained_reason


def test_the_survivors_pools_and_requests_are_counted(tmp_path: Path) -> None:
    rows = [
        allocation(1, 4, 0, None, pool_id="3,0", request_id="a"),
        allocation(2, 4, 0, None, pool_id="0,0", request_id="a"),
        allocation(3, 4, 0, None, pool_id="4,0", request_id="b"),
    ]
    spans = [
        {"request_id": "a", "start_ns": 0, "end_ns": 9, "is_request_id_inferred": False},
        {"request_id": "b", "start_ns": 0, "is_request_id_inferred": False},
    ]
    database = capture(tmp_path, rows, request_spans=spans)
    database.connection.execute(
        "CREATE TEMP TABLE leak_evidence_made AS SELECT 5 AS suspect_id, allocation_id, request_id FROM allocations"
    )
    run(database, "causes", "suspect_facts")
    assert database.rows("FROM suspect_facts") == [(5, 8 * MIB, 2, 2, 1)]
