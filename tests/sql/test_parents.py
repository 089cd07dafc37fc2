"""What lies in what, and driver memory that belongs to nobody, one case a screen."""

from __future__ import annotations

from pathlib import Path

from tests.sql.correlated import correlated
from tests.sql.support import assert_rows


def test_tensor_in_segment_in_driver_allocation(tmp_path: Path) -> None:
    """An address range that is a segment twice; a tensor before, in each, between and after them."""
    database = correlated(
        tmp_path,
        memory_events="""
        source level   action ts_ns    address size_bytes correlation_id
        cupti  driver  alloc  10000000 4096    8192       21
        cupti  driver  free   20000000 4096    8192       22
        cupti  driver  alloc  30000000 4096    4096       23
        torch  segment alloc  10000500 4096    8192       -
        torch  segment free   19999500 4096    8192       -
        torch  segment alloc  30000500 4096    4096       -
        torch  tensor  alloc  10001000 8192    512        -
        torch  tensor  free   19000000 8192    512        -
        torch  tensor  alloc  30001000 4608    512        -
        torch  tensor  alloc  30001000 8704    512        -
        torch  tensor  alloc  31000000 20480   512        -
        """,
    )
    database.connection.execute(
        "CREATE TEMP TABLE family AS SELECT a.level, a.address, a.alloc_ts_ns, a.alloc_correlation_id,"
        " p.level AS parent_level, p.alloc_ts_ns AS parent_ts_ns"
        " FROM allocations_made AS a LEFT JOIN allocations_made AS p ON p.allocation_id = a.parent_allocation_id"
    )
    assert_rows(
        database,
        "family",
        """
        level   address alloc_ts_ns alloc_correlation_id parent_level parent_ts_ns
        tensor  8192    10001000    -                    segment      10000500
        tensor  4608    30001000    -                    segment      30000500
        tensor  8704    30001000    -                    -            -
        tensor  20480   31000000    -                    -            -
        segment 4096    10000500    21                   driver       10000000
        segment 4096    30000500    23                   driver       30000000
        driver  4096    10000000    21                   -            -
        driver  4096    30000000    23                   -            -
        """,
    )


def test_static_driver_memory_has_neither_range_nor_request(tmp_path: Path) -> None:
    database = correlated(
        tmp_path,
        memory_events="""
        source level  action ts_ns address size_bytes memory_kind
        cupti  driver alloc  30    4096    64         static
        cupti  driver alloc  30    8192    64         pinned
        """,
        ranges="""
        range_id name        start_ns end_ns thread_id file_id
        100      request:7   10       40     4         0
        """,
    )
    assert_rows(
        database,
        "allocations_made",
        """
        address range_id memory_kind
        4096    -        static
        8192    100      pinned
        """,
    )
