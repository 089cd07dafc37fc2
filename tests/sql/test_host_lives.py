"""Host memory from alloc to free, which files count, and where a teardown begins."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.sql.support import assert_rows, result, run, tables

HOST = ("host_files", "host_lives")
SLAB = {"source": "ebpf", "level": "host", "memory_kind": "slab", "process_id": 0, "device_index": None}


def test_what_each_order_of_events_means(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        level memory_kind process_id action ts_ns address size_bytes requested_bytes call_path_id
        host  slab        0          alloc  10    512     192        184             1
        host  slab        0          free   20    512     -          -               2
        host  slab        0          free   30    512     -          -               3
        host  slab        0          alloc  40    512     192        184             1
        host  slab        0          alloc  50    512     192        184             4
        host  page        0          alloc  60    512     4096       -               5
        host  heap        7          alloc  70    512     24         -               -
        host  slab        0          alloc  80    0       64         -               -
        host  slab        0          other  90    1024    64         -               -
        host  heap        -          alloc  91    1024    64         -               -
        host  unknown     0          alloc  92    1024    64         -               -
        host  slab        0          alloc  -     2048    64         -               -
        """,
    )
    run(database, "lifetimes", *HOST)
    assert_rows(
        database,
        "host_lives",
        """
        process_id memory_kind generation allocated_bytes requested_bytes alloc_ts_ns free_ts_ns is_alloc_before_window is_free_inferred alloc_call_path_id free_call_path_id
        0          slab        0          192             184             10          20         false                  false            1                  2
        0          slab        1          -               -               -           30         true                   false            -                  3
        0          slab        2          192             184             40          50         false                  true             1                  -
        0          slab        3          192             184             50          -          false                  false            4                  -
        0          page        0          4096            -               60          -          false                  false            5                  -
        7          heap        0          24              -               70          -          false                  false            -                  -
        """,  # noqa: E501
    )


def test_two_files_of_one_time_count_once(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        file_id level memory_kind process_id clock_aligned action ts_ns         address
        0       host  slab        0          true          alloc  10            512
        0       host  slab        0          true          free   20            512
        1       host  slab        0          true          alloc  11            512
        2       host  slab        0          true          alloc  900,000,000   512
        3       host  slab        0          true          alloc  5,000,000,000 1024
        4       host  slab        0          false         alloc  12            512
        4       host  slab        0          false         alloc  13            1024
        4       host  slab        0          false         alloc  14            2048
        5       host  page        0          false         alloc  12            512
        6       host  page        0          false         alloc  12            512
        6       host  page        0          false         free   13            512
        """,
    )
    run(database, "lifetimes", *HOST, "tensor_lives", "segment_lives", "diagnostics_made")
    assert_rows(
        database,
        "host_files",
        """
        file_id memory_kind is_used recording
        0       slab        true    1
        2       slab        true    1
        3       slab        true    2
        1       slab        false   1
        4       slab        false   1
        6       page        true    1
        5       page        false   1
        """,
    )
    # What lived before a gap of four seconds ended in it, for all that is known.
    assert_rows(
        database,
        "host_lives",
        """
        memory_kind address alloc_ts_ns   free_ts_ns    is_free_inferred
        slab        512     10            20            false
        slab        512     900,000,000   900,000,000   true
        slab        1024    5,000,000,000 -             false
        page        512     12            13            false
        """,
    )
    assert result(database, "diagnostics_made", ("name", "occurrence_count")) == [("host_events_left_out", 5)]


def _replay(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Lives by a dictionary of what is open: (address, alloc, free, inferred)."""
    open_at: dict[int, int] = {}
    lives: list[tuple[Any, ...]] = []
    for event in sorted(events, key=lambda event: event["ts_ns"]):
        address, now = event["address"], event["ts_ns"]
        before = open_at.pop(address, None)
        if event["action"] == "alloc":
            if before is not None:
                lives.append((address, before, now, True))
            open_at[address] = now
        else:
            lives.append((address, before, now, False))
    return lives + [(address, start, None, False) for address, start in open_at.items()]


@pytest.mark.parametrize("seed", range(8))
def test_as_a_replay_one_event_at_a_time(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    events = [
        {
            **SLAB,
            "action": random.choice(("alloc", "alloc", "free")),
            "ts_ns": place // random.choice((1, 1, 2)),
            "address": random.randrange(1, 12) * 64,
            "size_bytes": 64,
        }
        for place in range(300)
    ]
    events.sort(key=lambda event: event["ts_ns"])  # of one instant, the file's order counts
    database = tables(tmp_path, memory_events=events)
    run(database, "lifetimes", *HOST)
    found = result(database, "host_lives", ("address", "alloc_ts_ns", "free_ts_ns", "is_free_inferred"))
    assert sorted(found, key=repr) == sorted(_replay(events), key=repr)


def _life(start: int | None, end: int | None, address: int) -> dict[str, Any]:
    return {
        "level": "host", "memory_kind": "slab", "process_id": 0, "source": "ebpf", "address": address, "generation": 0,
        "allocated_bytes": 192, "alloc_ts_ns": start, "free_ts_ns": end, "is_alloc_before_window": start is None,
        "is_free_inferred": False, "is_size_estimated": False, "allocation_id": address,
    }  # fmt: skip


def _ends(tmp_path: Path, lives: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    database = tables(tmp_path, allocations=lives)
    run(database, "leaks", "host_ends")
    return result(database, "host_ends", ("judged_until_ns", "last_ns", "live_count", "freed_count"))


def test_a_teardown_gives_back_much_at_the_end(tmp_path: Path) -> None:
    kept = [_life(i * 100, 10_000 + i, i) for i in range(50)]
    for_good = [_life(i * 100, None, 1000 + i) for i in range(50)]
    churned = [_life(i * 100, i * 100 + 50, 2000 + i) for i in range(99)]
    on_the_way_out = [_life(9_990, None, 3000), _life(10_020, 10_021, 3001)]
    assert _ends(tmp_path, kept + for_good + churned + on_the_way_out) == [(10_000, 10_049, 101, 50)]


def test_an_idle_time_before_the_exit_is_no_part_of_it(tmp_path: Path) -> None:
    kept = [_life(i * 100, 60_000 + i, i) for i in range(50)]
    churned = [_life(5000 + i, 5100 + i, 1000 + i) for i in range(9)]
    assert _ends(tmp_path, kept + churned) == [(60_000, 60_049, 50, 50)]


@pytest.mark.parametrize(
    "lives",
    [
        pytest.param([_life(i * 100, i * 100 + 50, i) for i in range(100)], id="churn"),
        pytest.param([_life(i * 100, None, i) for i in range(100)], id="nothing given back"),
        pytest.param([_life(i * 100, None if i % 8 else 10_000 + i, i) for i in range(100)], id="little of what lived"),
        pytest.param([_life(None, 100 + i, i) for i in range(50)], id="nothing allocated"),
    ],
)
def test_what_is_no_teardown(lives: list[dict[str, Any]], tmp_path: Path) -> None:
    assert _ends(tmp_path, lives) == []
