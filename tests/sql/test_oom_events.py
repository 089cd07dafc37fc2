"""Failed allocations: what several records tell of one failure is one row, and nothing is guessed."""

from __future__ import annotations

from pathlib import Path

from pipeline.database import Database
from tests.sql.correlated import correlated
from tests.sql.support import assert_rows, run


def failures(tmp_path: Path, **rows: str) -> Database:
    database = correlated(tmp_path, **rows)
    run(database, "allocator", "oom_events_made")
    return database


def test_calls_that_fail_for_lack_of_memory(tmp_path: Path) -> None:
    """The driver's call inside the runtime's is no second failure; other codes and the last error's are none at all."""
    database = failures(
        tmp_path,
        api_calls="""
        source api     name                start_ns end_ns thread_id correlation_id return_code call_path_id
        nsys   runtime cudaMalloc          100      200    5         7              2           -
        nsys   driver  cuMemAlloc_v2       110      190    5         8              2           -
        nsys   runtime cudaGetLastError    210      220    5         9              2           -
        nsys   runtime cudaMalloc          300      400    5         10             1           -
        nsys   driver  cuMemAlloc_v2       500      600    6         11             2           40
        nsys   driver  cuMemCreate         115      119    6         12             2           -
        nsys   osrt    open                700      800    5         -              2           -
        """,
    )
    assert_rows(
        database,
        "oom_events_made",
        """
        oom_event_id ts_ns source level  name          return_code requested_bytes correlation_id call_path_id detail
        0            100   nsys   driver cudaMalloc    2           -               7              -            calls:_|_cudaMalloc_|_>_|_cuMemAlloc_v2
        1            115   nsys   driver cuMemCreate   2           -               12             -            calls:_|_cuMemCreate
        2            500   nsys   driver cuMemAlloc_v2 2           -               11             40           calls:_|_cuMemAlloc_v2
        """,  # noqa: E501
    )


def test_a_call_that_the_file_has_twice_is_one(tmp_path: Path) -> None:
    database = failures(
        tmp_path,
        api_calls="""
        source api     name       start_ns end_ns thread_id correlation_id return_code call_path_id
        nsys   runtime cudaMalloc 100      200    5         7              2           -
        nsys   runtime cudaMalloc 90       210    5         7              2           40
        nsys   runtime cudaMalloc 300      400    5         8              2           -
        """,
    )
    assert_rows(
        database,
        "oom_events_made",
        """
        ts_ns correlation_id call_path_id
        90    7              40
        300   8              -
        """,
    )


def test_the_allocators_own_event_keeps_its_bytes_and_takes_the_calls_name(tmp_path: Path) -> None:
    """Torch's event, the profiler's copy, two calls and eBPF's record of one failure; another process has its own."""
    database = failures(
        tmp_path,
        memory_events="""
        file_id source level  action ts_ns    process_id device_index size_bytes device_free_bytes return_code call_path_id name
        0       torch  tensor oom    1000300  1          0            4096       512               -           30           -
        3       kineto tensor oom    1000400  1          0            4096       512               -           -            -
        2       ebpf   driver alloc  1000150  1          -            8192       -                 2           40           cuMemAlloc_v2
        2       ebpf   driver alloc  1000150  2          -            8192       -                 2           41           cuMemAlloc_v2
        2       ebpf   driver alloc  2000150  1          -            8192       -                 0           42           cuMemAlloc_v2
        """,  # noqa: E501
        api_calls="""
        file_id source api     name          start_ns end_ns  process_id thread_id correlation_id return_code
        1       cupti  runtime cudaMalloc    1000100  1000200 1          5         7              2
        1       cupti  driver  cuMemAlloc_v2 1000110  1000190 1          5         8              2
        """,
    )
    assert_rows(
        database,
        "oom_events_made",
        """
        ts_ns   process_id source level  name          return_code requested_bytes device_free_bytes correlation_id call_path_id
        1000150 2          ebpf   driver cuMemAlloc_v2 2           8192            -                 -              41
        1000300 1          torch  tensor cudaMalloc    2           4096            512               7              30
        """,  # noqa: E501
    )


def test_events_far_apart_or_on_other_clocks_are_not_put_together(tmp_path: Path) -> None:
    database = failures(
        tmp_path,
        memory_events="""
        file_id source level  action ts_ns    size_bytes clock_aligned
        0       torch  tensor oom    1000000  4096       true
        1       torch  tensor oom    -        512        false
        """,
        api_calls="""
        file_id source api     name       start_ns end_ns   return_code clock_aligned
        2       cupti  runtime cudaMalloc 90000000 90000100 2           true
        3       nsys   runtime cudaMalloc 1000100  1000200  2           false
        """,
    )
    assert_rows(
        database,
        "oom_events_made",
        """
        oom_event_id source ts_ns    requested_bytes
        0            torch  1000000  4096
        1            nsys   1000100  -
        2            cupti  90000000 -
        3            torch  -        512
        """,
    )


def test_the_range_and_the_request_of_the_failing_call(tmp_path: Path) -> None:
    """By its own thread though another thread's range is open as well; the request is the range's, or the only one."""
    database = failures(
        tmp_path,
        ranges="""
        range_id name      start_ns end_ns thread_id
        100      request:3 0        1000   5
        101      decode    50       900    5
        102      other     60       800    6
        """,
        api_calls="""
        source api     name       start_ns end_ns thread_id correlation_id return_code
        nsys   runtime cudaMalloc 100      200    5         7              2
        nsys   runtime cudaMalloc 2000     2100   5         8              2
        """,
        requests="""
        request_id start_ns end_ns arrival_ns
        9          1900     3000   1900
        """,
    )
    assert_rows(
        database,
        "oom_events_made",
        """
        ts_ns range_id request_id
        100   101      3
        2000  -        9
        """,
    )


def test_the_kernels_own_victims_are_of_level_host(tmp_path: Path) -> None:
    """Its size is all the memory there was: neither what was asked for nor what the victim held."""
    database = failures(
        tmp_path,
        memory_events="""
        source level action ts_ns   process_id device_index name   size_bytes
        ebpf   host  oom    1000000 77         -            python 8589934592
        """,
        api_calls="""
        file_id source api     name       start_ns end_ns  process_id return_code
        1       cupti  runtime cudaMalloc 1000000  1000100 77         2
        """,
    )
    assert_rows(
        database,
        "oom_events_made",
        """
        source level  process_id name       requested_bytes
        ebpf   host   77         python     -
        cupti  driver 77         cudaMalloc -
        """,
    )


def test_a_loop_of_failures_stays_linear(tmp_path: Path) -> None:
    """Forty thousand failing calls with the driver's calls in them: as many events, and no join of all with all."""
    database = correlated(tmp_path)
    database.connection.execute(
        "CREATE TEMP TABLE api_calls AS SELECT 0 AS file_id, i AS event_index, 'nsys' AS source,"
        " CASE i % 2 WHEN 0 THEN 'runtime' ELSE 'driver' END AS api, 'cudaMalloc' AS name,"
        " (i // 2 * 100 + i % 2 * 10)::BIGINT AS start_ns, (i // 2 * 100 + 90 - i % 2 * 10)::BIGINT AS end_ns,"
        " true AS clock_aligned,"
        " 1::BIGINT AS process_id, 5::BIGINT AS thread_id, i AS correlation_id, 2::BIGINT AS return_code,"
        " NULL::BIGINT AS call_path_id FROM range(80000) AS r(i)"
    )
    run(database, "allocator", "oom_events_made")
    assert database.rows("SELECT count(*), count(DISTINCT ts_ns) FROM oom_events_made") == [(40000, 40000)]
