"""Ranges and requests of allocations, one case a screen."""

from __future__ import annotations

from pathlib import Path

from tests.sql.correlated import correlated
from tests.sql.support import assert_rows, run

TENSORS = """
    action  ts_ns  address  size_bytes
    alloc   5      512      1
    alloc   15     1024     1
    alloc   25     1536     1
    alloc   35     2048     1
    alloc   45     2560     1
"""


def test_nested_ranges_of_one_thread_give_the_innermost(tmp_path: Path) -> None:
    """0 ─request:7 [10, 50)─ 1 ─decode [20, 40)─ 2 ─layer 3 [30, 38)─."""
    database = correlated(
        tmp_path,
        memory_events=TENSORS,
        ranges="""
        range_id name        start_ns end_ns thread_id file_id
        100      request:7   10       50     4         1
        101      decode      20       40     4         1
        102      layer_|_3   30       38     4         1
        """,
    )
    assert_rows(
        database,
        "range_nesting",
        """
        range_id parent_range_id depth request_id range_path
        100      -               0     7          request:#
        101      100             1     7          request:#_|_>_|_decode
        102      101             2     7          request:#_|_>_|_decode_|_>_|_layer_|_#
        """,
    )
    assert_rows(
        database,
        "allocations_made",
        """
        address range_id request_id
        512     -        -
        1024    100      7
        1536    101      7
        2048    102      7
        2560    100      7
        """,
    )
    assert_rows(
        database,
        "allocation_links_made",
        """
        allocation_id link    link_method linked_id
        2             range   time_alone  100
        3             range   time_alone  101
        4             range   time_alone  102
        5             range   time_alone  100
        2             request containment 7
        3             request containment 7
        4             request containment 7
        5             request containment 7
        """,
    )


def test_overlapping_ranges_of_several_threads_are_ambiguous(tmp_path: Path) -> None:
    """Thread 4 holds request:7 in [10, 40), thread 5 request:8 in [20, 50): only outside the overlap is it known."""
    database = correlated(
        tmp_path,
        memory_events=TENSORS,
        ranges="""
        range_id name        start_ns end_ns thread_id file_id
        100      request:7   10       40     4         1
        101      request:8   20       50     5         1
        """,
    )
    assert_rows(
        database,
        "allocations_made",
        """
        address range_id request_id
        512     -        -
        1024    100      7
        1536    -        -
        2048    -        -
        2560    101      8
        """,
    )


def test_overlapping_ranges_without_threads_are_ambiguous_too(tmp_path: Path) -> None:
    """PyTorch annotations name no thread: two that overlap without nesting come from two threads."""
    database = correlated(
        tmp_path,
        memory_events=TENSORS,
        ranges="""
        range_id name        start_ns end_ns thread_id file_id
        100      request:7   10       40     -         0
        101      request:8   20       50     -         0
        """,
    )
    assert_rows(
        database,
        "allocations_made",
        """
        address range_id request_id
        512     -        -
        1024    100      7
        1536    -        -
        2048    -        -
        2560    101      8
        """,
    )


def test_the_calling_thread_tells_overlapping_ranges_apart(tmp_path: Path) -> None:
    """Driver allocations whose API call is known belong to the range that is open on its thread."""
    database = correlated(
        tmp_path,
        memory_events="""
        source level  action ts_ns address size_bytes correlation_id
        cupti  driver alloc  30    4096    64         1
        cupti  driver alloc  31    8192    64         2
        cupti  driver alloc  32    9216    64         3
        """,
        api_calls="""
        name        start_ns end_ns thread_id correlation_id source file_id process_id
        cudaMalloc  29       30     4         1              cupti  0       1
        cudaMalloc  30       31     5         2              cupti  0       1
        cudaMalloc  31       32     6         3              cupti  0       1
        cudaMalloc  31       32     4         3              cupti  0       2
        """,
        ranges="""
        range_id name        start_ns end_ns thread_id file_id
        100      request:7   10       40     4         0
        101      request:8   20       50     5         0
        """,
    )
    assert_rows(
        database,
        "allocations_made",
        """
        address range_id request_id alloc_correlation_id
        4096    100      7          1
        8192    101      8          2
        9216    -        -          3
        """,
    )
    database.connection.execute(
        "CREATE TEMP TABLE calls AS FROM allocation_links_made WHERE link IN ('api_call', 'range')"
    )
    assert_rows(
        database,
        "calls",
        """
        allocation_id link     link_method     linked_id
        1             api_call correlation_id  1
        2             api_call correlation_id  2
        3             api_call correlation_id  3
        1             range    thread_and_time 100
        2             range    thread_and_time 101
        """,
    )


def test_another_process_s_ranges_and_requests_are_none_of_its_business(tmp_path: Path) -> None:
    database = correlated(
        tmp_path,
        memory_events=TENSORS,
        ranges="""
        range_id name        start_ns end_ns file_id process_id
        100      request:7   0        60     1       2
        """,
        requests="""
        request_id start_ns end_ns process_id file_id
        9          10       20     2          2
        """,
    )
    assert_rows(database, "allocation_links_made", "allocation_id link")


def test_unaligned_ranges_are_not_joined_by_time(tmp_path: Path) -> None:
    database = correlated(
        tmp_path,
        memory_events=TENSORS,
        ranges="""
        range_id name        start_ns end_ns file_id clock_aligned
        100      request:7   0        60     1       false
        """,
    )
    assert_rows(database, "allocation_links_made", "allocation_id link")


def test_the_log_alone_gives_requests_where_one_is_open(tmp_path: Path) -> None:
    """Requests 7 [10, 30), 8 [20, 40) and 9 [44, –): 25 lies in two of them."""
    database = correlated(
        tmp_path,
        memory_events=TENSORS,
        requests="""
        request_id arrival_ns start_ns end_ns file_id status
        7          9          10       30     1       200
        8          20         -        40     1       499
        9          -          44       -      1       -
        """,
    )
    assert_rows(
        database,
        "request_spans_made",
        """
        request_id start_ns end_ns queue_ns latency_ns status
        7          10       30     1        21         200
        8          20       40     -        20         499
        9          44       -      -        -          -
        """,
    )
    assert_rows(
        database,
        "allocations_made",
        """
        address request_id
        512     -
        1024    7
        1536    -
        2048    8
        2560    9
        """,
    )


ACCESS = """
    source      request_id arrival_ns end_ns file_id event_index
    request_log 7          10         30     1       0
    access_log  -          9          31     2       4
    access_log  -          44         60     2       5
"""


def test_a_row_without_an_id_is_a_request_of_its_own(tmp_path: Path) -> None:
    """Where a log names requests as well, the proxy's rows are those requests once more: they take no allocation."""
    files = "file_id path\n1 requests.jsonl\n2 access.log"
    database = correlated(tmp_path / "both", memory_events=TENSORS, requests=ACCESS, capture_files=files)
    assert_rows(
        database,
        "request_spans_made",
        """
        request_id   start_ns end_ns is_request_id_inferred
        7            10       30     false
        access.log#4 9        31     true
        access.log#5 44       60     true
        """,
    )
    taken = "SELECT DISTINCT request_id FROM allocations_made WHERE request_id IS NOT NULL ORDER BY 1"
    assert database.rows(taken) == [("7",)]
    alone = "\n".join(line for line in ACCESS.splitlines() if "request_log" not in line)
    database = correlated(tmp_path / "alone", memory_events=TENSORS, requests=alone, capture_files=files)
    assert database.rows(taken) == [("access.log#4",), ("access.log#5",)]


def test_what_ended_at_an_unknown_time_does_not_pass_for_live(tmp_path: Path) -> None:
    """PyTorch 2.0 wrote events without times: what they give back is left out, what they leave live stays."""
    database = correlated(
        tmp_path,
        memory_events="""
        level    action  ts_ns  address  size_bytes
        segment  alloc   -      4096     1024
        segment  free    -      4096     1024
        segment  alloc   -      8192     1024
        tensor   alloc   -      4096     512
        tensor   free    -      4096     512
        tensor   alloc   -      8192     512
        tensor   alloc   -      8192     1024
        """,
    )
    assert_rows(
        database,
        "allocations_made",
        """
        level   address allocated_bytes free_ts_ns
        segment 8192    1024            -
        tensor  8192    1024            -
        """,
    )
    run(database, "lifetimes", "diagnostics_made")
    assert_rows(
        database,
        "diagnostics_made",
        """
        name                          occurrence_count severity
        ended_at_unknown_time         2                data_loss
        segment_ended_at_unknown_time 1                data_loss
        """,
    )


def test_a_request_that_log_and_range_write_differently_is_one_when_number_and_time_agree(tmp_path: Path) -> None:
    """request:7 is req-007; request:8 is at another time than r8; request:5 may be a5 or b5; 9f is no number."""
    database = correlated(
        tmp_path,
        memory_events=TENSORS,
        ranges="""
        range_id name          start_ns end_ns file_id
        100      request:7     12       28     1
        101      request:8     70       90     1
        102      request:5     20       22     1
        103      request:9f    20       22     1
        104      request:0     41       42     1
        """,
        requests="""
        request_id start_ns end_ns file_id status
        req-007    10       30     1       200
        r8         20       40     1       200
        a5         19       23     1       200
        b5         20       24     1       200
        8a9f       20       22     1       200
        cmpl-00    40       43     1       200
        none       40       43     1       200
        """,
    )
    assert_rows(
        database,
        "request_spans_made",
        """
        request_id start_ns end_ns range_id status
        5          20       22     102      -
        8          70       90     101      -
        8a9f       20       22     -        200
        9f         20       22     103      -
        a5         19       23     -        200
        b5         20       24     -        200
        cmpl-00    40       43     104      200
        none       40       43     -        200
        r8         20       40     -        200
        req-007    10       30     100      200
        """,
    )
