"""Lives of segments: whole ones, and expandable ones that grow and shrink piece by piece."""

from __future__ import annotations

from pathlib import Path

from tests.sql.support import assert_rows, run, tables


def test_segment_alloc_and_free(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        level    action  ts_ns  address  size_bytes  call_path_id  stream_id
        segment  alloc   10     4096     2048        1             3
        segment  free    20     4096     2048        2             3
        segment  alloc   30     4096     1024        4             3
        tensor   alloc   31     4096     512         5             3
        """,
    )
    run(database, "lifetimes", "segment_lives")
    assert_rows(
        database,
        "segment_lives",
        """
        address allocated_bytes alloc_ts_ns free_ts_ns alloc_call_path_id free_call_path_id stream_id is_free_inferred
        4096    2048            10          20         1                  2                 3         false
        4096    1024            30          -          4                  -                 3         false
        """,
    )


def test_an_unmapped_start_of_a_mapped_range(tmp_path: Path) -> None:
    """[0, 40) is mapped, [0, 20) given back, [10, 20) mapped anew."""
    database = tables(
        tmp_path,
        memory_events="""
        level    action  ts_ns  address  size_bytes
        segment  map     10     100      40
        segment  unmap   20     100      20
        segment  map     30     110      10
        """,
    )
    run(database, "lifetimes", "segment_lives")
    assert_rows(
        database,
        "segment_lives",
        """
        address allocated_bytes alloc_ts_ns free_ts_ns
        100     20              10          20
        120     20              10          -
        110     10              30          -
        """,
    )


def test_one_unmap_ends_two_maps(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        level    action  ts_ns  address  size_bytes
        segment  map     10     100      20
        segment  map     11     120      20
        segment  unmap   20     100      40
        """,
    )
    run(database, "lifetimes", "segment_lives")
    assert_rows(
        database,
        "segment_lives",
        """
        address allocated_bytes alloc_ts_ns free_ts_ns
        100     20              10          20
        120     20              11          20
        """,
    )


def test_the_dump_knows_segments_that_the_history_does_not(tmp_path: Path) -> None:
    """An expandable segment of 60 bytes: the first 40 from before the window, the last 20 mapped within it."""
    database = tables(
        tmp_path,
        memory_events="""
        level    action  ts_ns  address  size_bytes
        segment  map     10     140      20
        segment  alloc   11     500      10
        tensor   alloc   40     100      5
        """,
        segments="""
        address  total_bytes  is_expandable  pool_id
        100      60           true           0,0
        """,
        blocks="""
        address  allocated_bytes
        100      5
        """,
    )
    run(database, "lifetimes", "tensor_lives", "segment_lives", "host_files", "diagnostics_made")
    assert_rows(
        database,
        "segment_lives",
        """
        address allocated_bytes alloc_ts_ns free_ts_ns is_alloc_before_window is_free_inferred pool_id
        100     40              -           -          true                   false            0,0
        140     20              10          -          false                  false            0,0
        500     10              11          40         false                  true             -
        """,
    )
    assert_rows(
        database,
        "diagnostics_made",
        """
        name                                severity   occurrence_count
        segment_without_event               info       1
        live_segment_event_without_segment  data_loss  1
        """,
    )


def test_lost_segment_events(tmp_path: Path) -> None:
    """A free without its alloc, then an alloc over a live one."""
    database = tables(
        tmp_path,
        memory_events="""
        level    action  ts_ns  address  size_bytes
        segment  free    10     100      20
        segment  alloc   20     100      20
        segment  alloc   30     100      20
        """,
    )
    run(database, "lifetimes", "segment_lives")
    assert_rows(
        database,
        "segment_lives",
        """
        address allocated_bytes alloc_ts_ns free_ts_ns is_alloc_before_window is_free_inferred
        100     20              -           10         true                   false
        100     20              20          30         false                  true
        100     20              30          -          false                  false
        """,
    )


def test_a_snapshot_of_segments_alone(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        segments="""
        address  total_bytes  device_index
        100      60           0
        100      20           1
        160      10           0
        """,
    )
    run(database, "lifetimes", "tensor_lives", "segment_lives")
    assert_rows(
        database,
        "segment_lives",
        """
        device_index address allocated_bytes is_alloc_before_window free_ts_ns difference
        0            100     60              true                   -          -
        0            160     10              true                   -          -
        1            100     20              true                   -          -
        """,
    )
