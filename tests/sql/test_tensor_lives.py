"""Lives of caching-allocator blocks, one case a screen."""

from __future__ import annotations

from pathlib import Path

from tests.sql.support import assert_rows, run, tables


def test_alloc_request_free(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        action          ts_ns  address  size_bytes  call_path_id  stream_id
        alloc           10     512      700         1             0
        free_requested  20     512      700         2             0
        free            30     512      700         2             0
        alloc           40     2048     1           3             7
        """,
    )
    run(database, "lifetimes", "tensor_lives")
    assert_rows(
        database,
        "tensor_lives",
        """
        address generation requested_bytes allocated_bytes alloc_ts_ns free_requested_ts_ns free_ts_ns alloc_call_path_id free_call_path_id stream_id
        512     0          700             1024            10          20                   30         1                  2                 0
        2048    0          1               512             40          -                    -          3                  -                 7
        """,  # noqa: E501
    )


def test_an_address_used_again_and_again(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        action  ts_ns  address  size_bytes
        alloc   10     512      512
        free    20     512      512
        alloc   20     512      512
        free    20     512      512
        alloc   30     512      512
        """,
    )
    run(database, "lifetimes", "tensor_lives")
    assert_rows(
        database,
        "tensor_lives",
        """
        address generation alloc_ts_ns free_ts_ns is_free_inferred is_alloc_before_window
        512     0          10          20         false            false
        512     1          20          20         false            false
        512     2          30          -          false            false
        """,
    )


def test_lost_events(tmp_path: Path) -> None:
    """512 lost its free; 1024 its alloc; 2048 its free_requested; 4096 its free_completed, then its alloc."""
    database = tables(
        tmp_path,
        memory_events="""
        action          ts_ns  address  size_bytes
        alloc           10     512      512
        alloc           20     512      100
        free_requested  21     1024     512
        free            22     1024     512
        alloc           30     2048     512
        free            31     2048     512
        alloc           40     4096     512
        free_requested  41     4096     512
        alloc           50     4096     512
        free_requested  51     4096     512
        free_requested  60     4096     512
        free            61     4096     512
        """,
    )
    run(database, "lifetimes", "tensor_lives")
    assert_rows(
        database,
        "tensor_lives",
        """
        address generation alloc_ts_ns free_requested_ts_ns free_ts_ns is_free_inferred is_alloc_before_window
        512     0          10          -                    20         true             false
        512     1          20          -                    -          false            false
        1024    0          -           21                   22         false            true
        2048    0          30          -                    31         false            false
        4096    0          40          41                   50         true             false
        4096    1          50          51                   60         true             false
        4096    2          -           60                   61         false            true
        """,
    )


def test_processes_and_devices_are_apart(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        action  ts_ns  address  size_bytes  process_id  device_index
        alloc   10     512      512         1           0
        alloc   11     512      512         1           1
        alloc   12     512      512         2           0
        free    13     512      512         1           1
        """,
    )
    run(database, "lifetimes", "tensor_lives")
    assert_rows(
        database,
        "tensor_lives",
        """
        process_id device_index address alloc_ts_ns free_ts_ns
        1          0            512     10          -
        1          1            512     11          13
        2          0            512     12          -
        """,
    )


def test_the_dump_decides_what_lives(tmp_path: Path) -> None:
    """512 is in both; 1024 only in the history; 2048 only in the dump, waiting to be freed; 4096 is free in both."""
    database = tables(
        tmp_path,
        memory_events="""
        action  ts_ns  address  size_bytes
        alloc   10     512      600
        alloc   11     1024     512
        alloc   12     4096     512
        free    30     4096     512
        """,
        segments="""
        address  total_bytes
        0        8192
        """,
        blocks="""
        address  allocated_bytes  requested_bytes  block_state          call_path_id
        512      2048             600              active_allocated     9
        2048     1024             1000             active_pending_free  8
        4096     512              -                inactive             -
        """,
    )
    run(database, "lifetimes", "tensor_lives")
    assert_rows(
        database,
        "tensor_lives",
        """
        address allocated_bytes requested_bytes alloc_ts_ns free_requested_ts_ns free_ts_ns is_alloc_before_window is_free_inferred is_size_estimated
        512     2048            600             10          -                    -          false                  false            false
        1024    512             512             11          -                    30         false                  true             true
        2048    1024            1000            -           30                   -          true                   false            false
        4096    512             512             12          -                    30         false                  false            true
        """,  # noqa: E501
    )
    run(database, "lifetimes", "segment_lives")
    run(database, "lifetimes", "host_files", "diagnostics_made")
    assert_rows(
        database,
        "diagnostics_made",
        """
        name                      severity   occurrence_count
        block_without_event       info       1
        live_event_without_block  data_loss  1
        segment_without_event     info       1
        """,
    )


def test_a_device_without_a_dump_keeps_its_open_allocations(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        action  ts_ns  address  size_bytes  device_index
        alloc   10     512      512         0
        alloc   11     512      512         1
        """,
        segments="""
        address  total_bytes  device_index
        0        8192         0
        """,
    )
    run(database, "lifetimes", "tensor_lives")
    assert_rows(
        database,
        "tensor_lives",
        """
        device_index free_ts_ns is_free_inferred difference
        0            10         true             live_event_without_block
        1            -          false            -
        """,
    )


def test_events_without_time_keep_their_order(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        action  ts_ns  address  size_bytes
        alloc   -      512      512
        free    -      512      512
        alloc   -      512      1024
        """,
    )
    run(database, "lifetimes", "tensor_lives")
    assert_rows(
        database,
        "tensor_lives",
        """
        generation requested_bytes alloc_ts_ns free_ts_ns is_free_inferred difference
        0          512             -           -          false            ended_at_unknown_time
        1          1024            -           -          false            -
        """,
    )


def test_two_files_of_one_process_are_replayed_one_after_the_other(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        file_id  action  ts_ns  address  size_bytes
        0        free    30     512      512
        0        alloc   40     512      512
        1        alloc   10     512      512
        """,
    )
    run(database, "lifetimes", "tensor_lives")
    assert_rows(
        database,
        "tensor_lives",
        """
        generation alloc_ts_ns free_ts_ns
        0          10          30
        1          40          -
        """,
    )
