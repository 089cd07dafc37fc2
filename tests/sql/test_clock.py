"""Shared moments and the lines through them, one case a screen."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pipeline.database import Database
from tests.sql.support import Row, assert_rows, run, tables

CLOCK = ("file_processes", "clock_anchors", "clock_edges", "dumps")


def test_which_moments_tie_files_together(tmp_path: Path) -> None:
    """Of the two files' events only 512 and 4096 tie: 1024 is seen twice, 2048 differs in size, 8192 in process."""
    database = tables(
        tmp_path,
        capture_files="""
        file_id path format
        0       a    cupti
        1       b    bpftrace_cuda
        """,
        memory_events="""
        file_id level   action ts_ns  process_id address size_bytes return_code
        0       driver  alloc  1000   1          512     10         0
        1       driver  alloc  51000  1          512     10         0
        0       driver  alloc  1100   1          1024    10         0
        0       driver  alloc  1200   1          1024    10         0
        1       driver  alloc  51100  1          1024    10         0
        0       driver  alloc  1300   1          2048    10         0
        1       driver  alloc  51300  1          2048    20         0
        0       driver  alloc  1400   1          4096    10         -
        1       driver  alloc  51405  1          4096    10         0
        0       driver  alloc  1500   1          8192    10         0
        1       driver  alloc  51500  2          8192    10         0
        0       driver  alloc  1600   1          9000    10         2
        1       driver  alloc  51600  1          9000    10         2
        0       tensor  alloc  1700   1          9999    10         0
        1       tensor  alloc  51700  1          9999    10         0
        """,
    )
    run(database, "clock", *CLOCK)
    assert_rows(
        database,
        "clock_anchors",
        """
        reference_file_id file_id method             reference_ns ts_ns
        0                 1       shared_allocations 1000         51000
        1                 0       shared_allocations 51000        1000
        0                 1       shared_allocations 1400         51405
        1                 0       shared_allocations 51405        1400
        """,
    )


def test_requests_tie_logs_to_ranges_and_to_tokens(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        capture_files="""
        file_id path format
        0       a    cupti
        1       b    request_log
        2       c    tokens_csv
        """,
        ranges="""
        file_id name       start_ns end_ns
        0       request:7  1000     2000
        0       req-8      3000     4000
        0       warm_|_up  100      200
        """,
        requests="""
        file_id request_id start_ns first_token_ns end_ns
        1       7          1010     1500           1990
        1       8          3010     3500           3990
        """,
        tokens="""
        file_id request_id token_index ts_ns process_id
        2       7          0           1520  -
        2       7          1           1600  -
        2       8          0           3520  -
        """,
    )
    run(database, "clock", *CLOCK)
    assert_rows(
        database,
        "clock_edges",
        """
        reference_file_id file_id method        anchor_count offset_ns
        0                 1       shared_ranges 2            -10
        1                 0       shared_ranges 2            10
        1                 2       shared_tokens 2            -20
        2                 1       shared_tokens 2            20
        """,
    )


def _two_clocks(tmp_path: Path, pairs: list[tuple[int, int]]) -> Database:
    """Files 0 and 1 see the same allocations at the times of each pair."""
    rows: list[Row] = [
        {
            "file_id": file,
            "event_index": i,
            "source": "cupti",
            "level": "driver",
            "action": "alloc",
            "ts_ns": pair[file],
            "process_id": 1,
            "address": 4096 * (i + 1),
            "size_bytes": 64,
        }
        for i, pair in enumerate(pairs)
        for file in (0, 1)
    ]
    files: list[Row] = [{"file_id": 0, "path": "a", "row_count": 1}, {"file_id": 1, "path": "b", "row_count": 1}]
    database = tables(tmp_path, memory_events=rows, capture_files=files)
    run(database, "clock", *CLOCK)
    return database


def _edge(database: Database) -> tuple[int, int, int, float, int, int]:
    return database.rows(  # type: ignore[return-value]
        "SELECT anchor_count, outlier_count, offset_ns, drift_ratio, origin_ns, residual_p99_ns FROM clock_edges"
        " WHERE reference_file_id = 0"
    )[0]


@pytest.mark.parametrize("ppm", [-80, 0, 35])
def test_a_drifting_clock_is_followed(ppm: int, tmp_path: Path) -> None:
    """An hour on a clock that runs `ppm` fast, 40 moments, each seen with up to 20 µs of delay."""
    source = random.Random(ppm)
    true_ns = [i * 90_000_000_000 for i in range(40)]
    pairs = [(10**18 + t, 7_000_000 + t + t * ppm // 1_000_000 + source.randrange(20_000)) for t in true_ns]
    anchors, outliers, offset, drift, origin, residual = _edge(_two_clocks(tmp_path, pairs))
    assert anchors + outliers == 40
    assert drift == pytest.approx(-ppm / 1e6, abs=5e-8)
    for reference, seen in pairs:
        assert abs(seen + offset + drift * (seen - origin) - reference) < 200_000
    assert residual < 200_000


def test_outliers_are_left_out_and_counted(tmp_path: Path) -> None:
    source = random.Random(3)
    true_ns = [i * 1_000_000_000 for i in range(40)]
    pairs = [(10**18 + t, 5_000 + t + source.randrange(2_000)) for t in true_ns]
    for late in (3, 11, 20, 33, 39):
        pairs[late] = (pairs[late][0], pairs[late][1] + source.randrange(10**8, 10**11))
    anchors, outliers, offset, drift, _, residual = _edge(_two_clocks(tmp_path, pairs))
    assert (anchors, outliers) == (35, 5)
    assert offset == pytest.approx(10**18 - 6_000, abs=1_000)
    assert drift == 0.0
    assert residual < 2_000


def test_few_anchors_give_an_offset_without_a_drift(tmp_path: Path) -> None:
    pairs = [(1_000_000 * i, 1_000_000 * i + 50 * i) for i in range(1, 8)]
    anchors, _, _, drift, _, _ = _edge(_two_clocks(tmp_path, pairs))
    assert (anchors, drift) == (7, 0.0)


def test_the_slow_first_calls_of_a_process_are_no_drift(tmp_path: Path) -> None:
    """Twenty calls within two seconds, the first ones seen up to 300 µs late."""
    pairs = [(10**9 + i * 10**8, 5 * 10**6 + i * 10**8 + 300_000 // (i + 1)) for i in range(20)]
    assert _edge(_two_clocks(tmp_path, pairs))[3] == 0.0


def test_one_anchor_is_enough_for_an_offset(tmp_path: Path) -> None:
    assert _edge(_two_clocks(tmp_path, [(5_000, 90_000)]))[:4] == (1, 0, -85_000, 0.0)


def test_later_dumps_take_over_from_earlier_ones(tmp_path: Path) -> None:
    """Files 0 and 1 are dumps of process 5, which overlap from 300 on; file 2 is another process's only dump."""
    database = tables(
        tmp_path,
        capture_files="""
        file_id path  format          process_id
        0       a/1   torch_snapshot  5
        1       a/2   torch_snapshot  5
        2       b/1   torch_snapshot  6
        """,
        memory_events="""
        file_id action ts_ns address size_bytes device_index process_id
        0       alloc  100   512     8          0            -
        0       alloc  300   1024    8          0            -
        1       alloc  300   1024    8          0            -
        1       alloc  400   2048    8          0            -
        2       alloc  350   512     8          0            -
        """,
    )
    run(database, "clock", *CLOCK)
    assert_rows(
        database,
        "dumps",
        """
        file_id device_index dump_index cutoff_ns
        0       0            1          300
        1       0            0          -
        2       0            0          -
        """,
    )


def test_which_process_a_file_speaks_of(tmp_path: Path) -> None:
    """Rank folders: each snapshot takes the process that allocated its segments, the logs that of their folder."""
    database = tables(
        tmp_path,
        capture_files="""
        file_id path            format          process_id
        0       rank0/cupti     cupti           -
        1       rank0/snapshot  torch_snapshot  -
        2       rank0/log       request_log     -
        3       rank1/cupti     cupti           -
        4       rank1/snapshot  torch_snapshot  -
        5       log             request_log     -
        6       rank2/snapshot  torch_snapshot  -
        7       rank2/log       request_log     -
        """,
        memory_events="""
        file_id level   action ts_ns process_id address size_bytes
        0       driver  alloc  10    71         4096    64
        1       segment alloc  11    -          4096    64
        3       driver  alloc  10    72         8192    64
        4       segment alloc  11    -          8192    64
        6       segment alloc  11    -          9999    64
        """,
        requests="""
        file_id request_id start_ns process_id
        2       1          10       -
        5       1          10       -
        7       1          10       -
        """,
    )
    run(database, "clock", *CLOCK)
    assert_rows(
        database,
        "file_processes",
        """
        file_id process_id
        0       71
        1       71
        2       71
        3       72
        4       72
        5       -
        6       -7
        7       -7
        """,
    )


def test_kernel_events_name_no_process_of_the_capture(tmp_path: Path) -> None:
    """A snapshot beside a slab trace is not the kernel's, and neither are the samples of that trace."""
    database = tables(
        tmp_path,
        capture_files="file_id path process_id\n0 slab.txt -\n1 snapshot.pickle -",
        memory_events="""
            file_id  level   action  ts_ns  process_id  address  size_bytes
            0        host    alloc   10     0           64       64
            1        tensor  alloc   10     -           512      512
        """,
    )
    run(database, "clock", "file_processes")
    assert database.rows("SELECT file_id, process_id FROM file_processes ORDER BY 1") == [(0, None), (1, -2)]
