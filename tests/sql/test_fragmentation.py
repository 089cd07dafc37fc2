"""The allocator's state over time: tiny rows, and a replay in plain Python of random histories."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from pipeline.database import Database
from pipeline.fragmentation import fragmentation_cause, fragmented_allocators
from schemas.config import Config
from tests.sql.support import assert_rows, parse, run, tables

KIB, MIB = 1024, 1024 * 1024
_PLAIN = {"generation": 0, "is_alloc_before_window": False, "is_free_inferred": False, "is_size_estimated": False}


def _fragmentation(temp: Path, allocations: str | list[dict[str, Any]], moments: int = 100, **given: Any) -> Database:
    rows = parse(allocations) if isinstance(allocations, str) else allocations
    database = tables(temp, allocations=[_PLAIN | row for row in rows], **given)
    database.connection.execute(f"SET VARIABLE max_points = 1000; SET VARIABLE allocator_moments = {moments}")
    database.connection.execute("SET VARIABLE allocator_rows = 1000000")
    run(database, "leaks", "live_bytes_made")
    database.connection.execute("CREATE OR REPLACE TEMP VIEW live_bytes AS FROM live_bytes_made")
    database.connection.execute("CREATE OR REPLACE TEMP VIEW oom_events_made AS FROM oom_events")
    run(database, "allocator", "allocator_moments", "fragmentation_made")
    return database


def test_free_space_between_and_around_blocks(tmp_path: Path) -> None:
    database = _fragmentation(
        tmp_path,
        allocations="""
            allocation_id  level    address  allocated_bytes  requested_bytes  alloc_ts_ns  free_ts_ns
            1              segment  0        20480            -                10           -
            2              segment  65536    4096             -                10           -
            3              tensor   0        4096             4000             20           -
            4              tensor   8192     2048             2048             30           40
        """,
    )
    assert_rows(
        database,
        "(SELECT * FROM fragmentation_made ORDER BY ts_ns)",
        """
        ts_ns  reserved_bytes  allocated_bytes  inactive_bytes  inactive_split_bytes  free_block_count
        10     24576           0                24576           0                     2
        20     24576           4096             20480           16384                 2
        30     24576           6144             18432           14336                 3
        40     24576           4096             20480           16384                 2
        """,
    )
    largest = database.rows("SELECT largest_free_bytes FROM fragmentation_made ORDER BY ts_ns")
    assert largest == [(20480,), (16384,), (10240,), (16384,)]


def test_blocks_that_wait_for_a_stream_are_neither_free_nor_handed_out(tmp_path: Path) -> None:
    database = _fragmentation(
        tmp_path,
        allocations="""
            allocation_id  level    address  allocated_bytes  alloc_ts_ns  free_requested_ts_ns  free_ts_ns
            1              segment  0        4096             10           -                     -
            2              tensor   0        1024             10           20                    30
        """,
    )
    assert_rows(
        database,
        "(SELECT * FROM fragmentation_made ORDER BY ts_ns)",
        """
        ts_ns  allocated_bytes  pending_free_bytes  active_bytes  inactive_bytes
        10     1024             0                   1024          3072
        20     0                1024                1024          3072
        30     0                0                   0             4096
        """,
    )


def test_touching_pieces_are_one_segment_only_when_expandable(tmp_path: Path) -> None:
    held = """
        allocation_id  level    address  allocated_bytes  alloc_ts_ns
        1              segment  0        4096             10
        2              segment  4096     4096             10
        3              tensor   2048     512              10
    """
    apart = _fragmentation(tmp_path / "apart", allocations=held)
    assert_rows(apart, "fragmentation_made", "free_block_count  largest_free_bytes\n3 4096")
    grown = _fragmentation(
        tmp_path / "grown", allocations=held, memory_events="level action address size_bytes\nsegment map 0 4096"
    )
    assert_rows(grown, "fragmentation_made", "free_block_count  largest_free_bytes\n2 5632")


def test_an_oom_event_is_a_moment_with_the_state_before_it(tmp_path: Path) -> None:
    database = _fragmentation(
        tmp_path,
        allocations="""
            allocation_id  level    address  allocated_bytes  alloc_ts_ns  free_ts_ns
            1              segment  0        4096             10           -
            2              tensor   0        1024             10           50
        """,
        oom_events=[{"oom_event_id": 0, "ts_ns": 30, "requested_bytes": 9999}],
    )
    assert_rows(
        database,
        "(SELECT * FROM fragmentation_made WHERE moment = 'oom')",
        "ts_ns  allocated_bytes  largest_free_bytes\n30     1024             3072",
    )


def test_private_pools_are_told_apart_where_pools_are_known(tmp_path: Path) -> None:
    held = """
        allocation_id  level    address  allocated_bytes  alloc_ts_ns  pool_id
        1              segment  0        4096             10           0,0
        2              segment  8192     4096             10           2,0
        3              tensor   8192     512              10           2,0
    """
    known = _fragmentation(tmp_path / "known", allocations=held)
    assert_rows(known, "fragmentation_made", "private_reserved_bytes  private_inactive_bytes\n4096 3584")
    unknown = _fragmentation(tmp_path / "unknown", allocations=held.replace("2,0", "-").replace("0,0", "-"))
    assert_rows(unknown, "fragmentation_made", "private_reserved_bytes  private_inactive_bytes\n- -")


def test_free_bytes_of_private_pools_are_no_fragmentation(tmp_path: Path) -> None:
    state = {"moment": "end", "ts_ns": 9, "active_bytes": 100 * MIB, "allocated_bytes": 100 * MIB, "segment_count": 9}
    state |= {
        "reserved_bytes": 1000 * MIB,
        "inactive_bytes": 900 * MIB,
        "inactive_split_bytes": 0,
        "free_block_count": 9,
    }
    state |= {"pending_free_bytes": 0, "largest_free_bytes": 90 * MIB, "external_fragmentation_ratio": 0.9}
    pools = {"private_reserved_bytes": 850 * MIB, "private_inactive_bytes": 850 * MIB}
    settings = Config().allocator
    [found] = fragmented_allocators(tables(tmp_path / "plain", fragmentation=[state]), settings)
    assert found.free == 900 * MIB
    assert fragmented_allocators(tables(tmp_path / "pools", fragmentation=[state | pools]), settings) == []
    few = {"private_reserved_bytes": 50 * MIB, "private_inactive_bytes": 50 * MIB}
    [mostly] = fragmented_allocators(tables(tmp_path / "few", fragmentation=[state | few]), settings)
    assert any("private pools" in line for line in fragmentation_cause(mostly)["evidence_against"])


def _history(chance: random.Random) -> list[dict[str, Any]]:
    """Segments that stay or go, and blocks placed in them without overlap in space and time."""
    rows: list[dict[str, Any]] = []
    for segment in range(chance.randint(1, 4)):
        low, size = segment * 1_000_000, chance.randint(4, 40) * KIB
        until = chance.choice((None, 900))
        rows.append(
            {"level": "segment", "address": low, "allocated_bytes": size, "alloc_ts_ns": 5, "free_ts_ns": until}
        )
        for slot in range(size // (2 * KIB)):
            ts = 10
            while chance.random() < 0.7 and ts < 800:
                start = ts + chance.randint(1, 100)
                end = start + chance.randint(1, 200)
                row = {
                    "level": "tensor",
                    "address": low + slot * 2 * KIB,
                    "allocated_bytes": chance.randint(1, 4) * 512,
                }
                rows.append(row | {"alloc_ts_ns": start, "free_ts_ns": end if end < 890 or until else None})
                if end >= 890:
                    rows[-1]["free_ts_ns"] = 895 if until else None
                    break
                ts = end
    return [{"allocation_id": number, **row} for number, row in enumerate(rows)]


def _replayed(rows: list[dict[str, Any]], ts: int) -> tuple[int, int, int, int]:
    """Free bytes, free blocks, the largest and the split-off bytes at a moment, byte by byte of 512."""
    live = [r for r in rows if r["alloc_ts_ns"] <= ts and (r["free_ts_ns"] is None or r["free_ts_ns"] > ts)]
    used = {
        place
        for r in live
        if r["level"] == "tensor"
        for place in range(r["address"], r["address"] + r["allocated_bytes"], 512)
    }
    runs, split = [], 0
    for segment in (r for r in live if r["level"] == "segment"):
        pages = range(segment["address"], segment["address"] + segment["allocated_bytes"], 512)
        found, length = [], 0
        for page in [*pages, None]:
            if page is not None and page not in used:
                length += 512
            elif length:
                found.append(length)
                length = 0
        runs += found
        split += sum(found) if any(page in used for page in pages) else 0
    return sum(runs), len(runs), max(runs, default=0), split


def test_random_histories_agree_with_a_replay_in_plain_python(tmp_path: Path) -> None:
    checked = 0
    for seed in range(12):
        chance = random.Random(seed)
        rows = _history(chance)
        database = _fragmentation(tmp_path / str(seed), rows, chance.choice((10, 100)))
        made = database.rows(
            "SELECT ts_ns, inactive_bytes, free_block_count, coalesce(largest_free_bytes, 0), inactive_split_bytes,"
            " reserved_bytes - active_bytes FROM fragmentation_made"
        )
        assert made
        for ts, *state, unused in made:
            assert tuple(state) == _replayed(rows, ts), f"seed {seed} at {ts}"
            assert unused == state[0]
            checked += 1
    assert checked > 100
