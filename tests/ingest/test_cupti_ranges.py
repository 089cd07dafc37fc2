"""Pairing of MARKER records: any batches, any order in the file, ids that come back."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import cupti_ranges
from ingest.cupti_ranges import RangePairs

SCHEMA = {
    "flags_": pl.Int64,
    "timestamp": pl.Int64,
    "id": pl.Int64,
    "object_kind": pl.Int64,
    "object_id_process_id": pl.Int64,
    "object_id_thread_id": pl.Int64,
    "name": pl.String,
    "domain": pl.String,
    "event_index": pl.Int64,
    "process_id": pl.Int64,
}
INSTANT, START, END = 1, 2, 4


def marker(flags: int, ts: int, number: int, name: str = "", thread: int = 7, pid: int = 1) -> tuple[Any, ...]:
    return (flags, ts, number, 2, pid, thread, name, None, 0, 99)


def pair(batches: list[list[tuple[Any, ...]]]) -> tuple[list[tuple[Any, ...]], RangePairs]:
    """(name, process, thread, start, end) of all ranges, sorted, and the pairing with its counts."""
    pairs, found, index = RangePairs(), [], 0
    for batch in batches:
        rows = [(*row[:8], index + place, row[9]) for place, row in enumerate(batch)]
        index += len(batch)
        found.append(pairs.add(pl.DataFrame(rows, schema=SCHEMA, orient="row")))
    found.append(pairs.finish())
    rows = [row for frame in found if frame.height for row in frame.iter_rows(named=True)]
    assert len({row["event_index"] for row in rows}) == len(rows)
    columns = ("name", "process_id", "thread_id", "start_ns", "end_ns")
    return sorted((tuple(row[column] for column in columns) for row in rows), key=str), pairs


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_order_and_batches(data: st.DataObject) -> None:
    """Ranges that overlap as they like, told in any order and cut into any batches, come out as they were made."""
    ranges = data.draw(
        st.lists(
            st.tuples(st.integers(1, 1000), st.integers(0, 1000), st.sampled_from("abc"), st.integers(1, 3)),
            max_size=12,
        )
    )
    markers, expected = [], []
    for number, (start, length, name, pid) in enumerate(ranges):
        is_open = data.draw(st.booleans())
        markers.append(marker(START, start, number, name, pid=pid))
        expected.append((name, pid, 7, start, None if is_open else start + length))
        if not is_open:
            markers.append(marker(END, start + length, number, pid=pid))
    markers = data.draw(st.permutations(markers))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(markers)), max_size=4)))
    bounds = [0, *cuts, len(markers)]
    batches = [list(markers[a:b]) for a, b in pairwise(bounds)]
    found, pairs = pair(batches)
    assert found == sorted(expected, key=str)
    assert pairs.unclosed == sum(row[4] is None for row in expected)
    assert pairs.unopened == 0


def test_an_id_that_comes_back() -> None:
    batches = [
        [marker(START, 10, 5, "first"), marker(END, 20, 5)],
        [marker(START, 30, 5, "lost its end"), marker(START, 40, 5, "second")],
        [marker(END, 50, 5)],
    ]
    found, pairs = pair(batches)
    assert found == [
        ("first", 1, 7, 10, 20),
        ("lost its end", 1, 7, 30, None),
        ("second", 1, 7, 40, 50),
    ]
    assert pairs.unclosed == 1


def test_one_id_in_two_processes() -> None:
    found, _ = pair([[marker(START, 1, 5, "a", pid=1), marker(START, 2, 5, "b", pid=2), marker(END, 3, 5, pid=1)]])
    assert found == [("a", 1, 7, 1, 3), ("b", 2, 7, 2, None)]


def test_end_without_start_and_marks_and_nonsense() -> None:
    found, pairs = pair([[marker(END, 5, 1), marker(INSTANT, 6, 2, "mark"), marker(0, 7, 3), marker(64, 8, 4)]])
    assert found == [("mark", 1, 7, 6, 6)]
    assert (pairs.unopened, pairs.unclosed, pairs.unknown) == (1, 0, 2)


def test_a_range_of_a_process_has_no_thread() -> None:
    row = (START, 10, 1, 1, 42, 0, "whole", None, 0, 99)
    end = (END, 30, 1, 1, 42, 0, "", None, 0, 99)
    assert pair([[row], [end]])[0] == [("whole", 42, None, 10, 30)]


def test_open_records_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti_ranges, "MAX_OPEN", 10)
    found, pairs = pair([[marker(START, ts, ts, "x") for ts in range(batch, batch + 8)] for batch in range(1, 80, 8)])
    assert len(found) == pairs.unclosed == 80
