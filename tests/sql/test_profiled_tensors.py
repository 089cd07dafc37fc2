"""Tensors that a profiler's trace (Kineto) shows: alone, beside a snapshot of the process, and what they tell of it."""

from __future__ import annotations

from pathlib import Path

from tests.sql.correlated import correlated
from tests.sql.support import assert_rows, run, tables

BASE_CLOCK = ("file_processes", "clock_anchors", "clock_edges", "dumps")


def test_a_trace_alone_gives_lifetimes_of_blocks(tmp_path: Path) -> None:
    """Its sizes are the blocks'; what was asked for is not known, and nothing tells whether 1024 is kept."""
    database = tables(
        tmp_path,
        memory_events="""
        source action ts_ns address size_bytes
        kineto alloc  10    512     1536
        kineto free   20    512     1536
        kineto alloc  30    1024    512
        kineto oom    40    -       999
        """,
    )
    run(database, "lifetimes", "tensor_lives")
    assert_rows(
        database,
        "tensor_lives",
        """
        source address allocated_bytes requested_bytes alloc_ts_ns free_ts_ns is_size_estimated difference
        kineto 512     1536            -               10          20         false             -
        kineto 1024    512             -               30          -          false             -
        """,
    )


def test_no_tensor_counts_twice_beside_a_snapshot(tmp_path: Path) -> None:
    """The snapshot's history begins at 20: before it the trace speaks, and its tensor is freed in the history."""
    database = tables(
        tmp_path,
        memory_events="""
        file_id source action ts_ns address size_bytes
        0       kineto alloc  10    512     512
        0       kineto alloc  20    1024    512
        0       kineto free   40    512     512
        0       kineto alloc  50    2048    512
        0       kineto free   60    2048    512
        1       torch  alloc  20    1024    500
        1       torch  free   40    512     512
        1       torch  alloc  50    2048    500
        """,
        blocks="""
        file_id address allocated_bytes requested_bytes
        1       1024    512             500
        1       2048    512             500
        """,
    )
    run(database, "lifetimes", "tensor_lives")
    assert_rows(
        database,
        "tensor_lives",
        """
        source address alloc_ts_ns free_ts_ns requested_bytes difference
        kineto 512     10          40         -               -
        torch  1024    20          -          500             -
        torch  2048    50          -          500             -
        """,
    )


def test_a_snapshot_of_another_process_or_device_leaves_the_trace_alone(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        file_id source process_id device_index action ts_ns address size_bytes
        0       kineto 1          0            alloc  10    512     512
        0       kineto 1          1            alloc  11    512     512
        1       torch  1          1            alloc  5     512     512
        2       torch  2          0            alloc  5     512     512
        """,
    )
    run(database, "lifetimes", "tensor_lives")
    assert_rows(
        database,
        "tensor_lives",
        """
        source process_id device_index alloc_ts_ns
        kineto 1          0            10
        torch  1          1            5
        torch  2          0            5
        """,
    )


def test_shared_tensors_name_the_snapshots_process_and_tie_its_clock(tmp_path: Path) -> None:
    """All files lie in one folder. 700 asked for are a block of 1024; the device tells the ranks apart; 9216 is taken
    twice, and ties nothing."""
    database = tables(
        tmp_path,
        capture_files="""
        file_id path   format         process_id
        0       a.json kineto         11
        1       b.json kineto         12
        2       c      torch_snapshot -
        3       d      torch_snapshot -
        """,
        memory_events="""
        file_id source process_id device_index action ts_ns address size_bytes
        0       kineto 11         0            alloc  100   4096    1024
        0       kineto 11         0            alloc  200   9216    512
        0       kineto 11         0            alloc  300   9216    512
        1       kineto 12         1            alloc  100   4096    1024
        2       torch  -          1            alloc  1100  4096    700
        3       torch  -          0            alloc  2100  4096    700
        3       torch  -          0            alloc  2200  9216    512
        """,
    )
    run(database, "clock", *BASE_CLOCK)
    assert_rows(
        database,
        "file_processes",
        """
        file_id process_id
        0       11
        1       12
        2       12
        3       11
        """,
    )
    assert_rows(
        database,
        "clock_anchors",
        """
        reference_file_id file_id method             reference_ns ts_ns
        0                 3       shared_allocations 100          2100
        3                 0       shared_allocations 2100         100
        1                 2       shared_allocations 100          1100
        2                 1       shared_allocations 1100         100
        """,
    )
    assert_rows(
        database,
        "dumps",
        """
        file_id device_index dump_index cutoff_ns
        2       1            0          -
        3       0            0          -
        """,
    )


def test_the_trace_tells_a_snapshots_tensor_its_thread_and_range(tmp_path: Path) -> None:
    """Two threads are in a range at once: time alone could not tell. Operators and the device's ranges nest in none."""
    database = correlated(
        tmp_path,
        memory_events="""
        file_id source action ts_ns  thread_id address size_bytes
        0       kineto alloc  10005  7         512     512
        0       kineto alloc  20005  8         1024    512
        0       kineto alloc  30005  9         2048    512
        1       torch  alloc  10000  -         512     500
        1       torch  alloc  20000  -         1024    500
        1       torch  alloc  30000  -         2048    500
        """,
        ranges="""
        range_id file_id range_kind name      start_ns end_ns thread_id
        1        0       annotation forward   1000     50000  7
        2        0       annotation load      1000     29000  8
        3        0       operator   aten::cat 9000     11000  7
        4        0       gpu        forward   1000     60000  -
        5        0       mark       here      15000    15000  8
        6        0       annotation batch     19000    21000  8
        """,
    )
    assert_rows(
        database,
        "allocations_made",
        """
        address range_id
        512     1
        1024    6
        2048    1
        """,
    )
    assert_rows(
        database,
        "range_nesting",
        """
        range_id range_path       depth
        1        forward          0
        2        load             0
        5        load_|_>_|_here  1
        6        load_|_>_|_batch 1
        """,
    )
    methods = database.rows(
        "SELECT a.address, l.link_method FROM allocation_links_made AS l"
        " JOIN allocations_made AS a USING (allocation_id)"
        " WHERE l.link = 'range' ORDER BY ALL"
    )
    assert methods == [(512, "thread_and_time"), (1024, "thread_and_time"), (2048, "time_alone")]


def test_a_request_is_named_once_though_the_device_has_its_range_too(tmp_path: Path) -> None:
    database = correlated(
        tmp_path,
        ranges="""
        range_id file_id range_kind name      start_ns end_ns thread_id
        1        0       annotation request:5 1000     2000   7
        2        0       gpu        request:5 1500     9000   -
        """,
    )
    assert_rows(
        database,
        "request_spans_made",
        """
        request_id start_ns end_ns range_id
        5          1000     2000   1
        """,
    )
