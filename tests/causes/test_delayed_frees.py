"""Frees that wait for a stream: how much at once, and what is only a short or small wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.causes.delayed_frees import check_delayed_frees
from pipeline.causes.rows import Checked
from pipeline.leaks.paths import CallPathReader
from schemas.config import RootCauseSettings
from tests.causes.support import allocation, capture


def _check(temp: Path, rows: list[dict[str, Any]], **given: Any) -> Checked:
    database = capture(temp, rows, **given)
    return check_delayed_frees(database, RootCauseSettings(), CallPathReader(database))


def _tensor(number: int, mebibytes: int, start: int, asked: int | None, end: int | None) -> dict[str, Any]:
    asked_ns = None if asked is None else asked * 1_000_000
    return allocation(number, mebibytes, start, end, free_requested_ts_ns=asked_ns)


def test_blocks_that_wait_are_summed_where_they_overlap(tmp_path: Path) -> None:
    rows = [
        _tensor(1, 40, 0, 10, 90),
        _tensor(2, 40, 5, 20, 95),
        _tensor(3, 40, 5, 96, 99),  # after the others
        _tensor(4, 100, 0, None, None),  # in use
        allocation(5, 40, 50, None, level="segment"),  # taken while 80 MiB waited
        allocation(6, 40, 98, None, level="segment"),  # taken while 40 MiB waited
        allocation(7, 40, 0, None, level="segment"),
        allocation(8, 40, 50, None, level="segment", pool_id="1,0"),  # for a graph alone
    ]
    [cause] = _check(tmp_path, rows).causes
    assert (cause["root_cause"], cause["bytes"], cause["process_id"], cause["device_index"]) == (
        "delayed_free", 80 * 1024**2, 1, 0,
    )  # fmt: skip
    text = " / ".join(cause["evidence_for"])
    assert "83.9 MB waited at the highest point, 36% of what was not free" in text  # 80 of 220 MiB
    assert "3 blocks waited, half of them 75 ms or more, the longest 80 ms" in text
    assert "83.9 MB from the driver in 2 segments" in text
    assert cause["evidence_against"] == ["all of them had come back by the end"]


def test_short_waits_without_new_segments_speak_against_it(tmp_path: Path) -> None:
    rows = [_tensor(n, 50, 0, 10, 12) for n in range(1, 4)]
    [cause] = _check(tmp_path, rows).causes
    assert len(cause["evidence_against"]) == 3
    assert "copies overlap as they should" in cause["evidence_against"][0]
    assert cause["confidence"] < 0.5


def test_what_waits_at_the_dump_is_said(tmp_path: Path) -> None:
    rows = [_tensor(1, 100, 0, 10, None), _tensor(2, 1, 0, 200, 200)]
    [cause] = _check(tmp_path, rows).causes
    assert "1 block, 105 MB, not back at the end" in " ".join(cause["evidence_for"])


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([_tensor(1, 500, 0, 10, 10)], "every free completed within a millisecond"),
        ([_tensor(1, 8, 0, 10, 90), _tensor(2, 8, 0, 95, 95)], "at most 8.39 MB waited"),
        (
            [_tensor(1, 80, 0, 10, 90), _tensor(2, 4000, 0, None, None), _tensor(3, 1, 0, 95, 95)],
            "2% of what was not free",
        ),
    ],
)
def test_small_or_instant_frees_are_none(rows: list[dict[str, Any]], reason: str, tmp_path: Path) -> None:
    checked = _check(tmp_path, rows)
    assert checked.causes == []
    assert checked.reason is not None
    assert reason in checked.reason
    assert checked.abstained_reason is None


def test_a_lost_completion_is_no_wait(tmp_path: Path) -> None:
    lost = _tensor(1, 500, 0, 10, 90) | {"is_free_inferred": True}
    assert _check(tmp_path, [lost, _tensor(2, 1, 0, 95, 95)]).causes == []


def test_without_requests_to_free_it_abstains(tmp_path: Path) -> None:
    checked = _check(tmp_path, [_tensor(1, 500, 0, None, 90)])
    assert (checked.causes, checked.reason) == ([], None)
    assert checked.abstained_reason is not None
