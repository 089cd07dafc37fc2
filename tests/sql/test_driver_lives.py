"""Driver allocations as CUPTI and eBPF saw them, and the two put together."""

from __future__ import annotations

from pathlib import Path

from tests.sql.support import assert_rows, run, tables

DRIVER = ("driver_sightings", "seen_twice", "driver_lives")


def test_one_call_seen_by_both_is_one_allocation_with_ebpfs_stack(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        file_id source level  action ts_ns     address size_bytes correlation_id call_path_id device_index
        0       cupti  driver alloc  1000000   512     100        7              -            0
        1       ebpf   driver alloc  1000200   512     100        -              40           -
        0       cupti  driver free   5000000   512     100        9              -            0
        1       ebpf   driver free   5000200   512     0          -              41           -
        """,
    )
    run(database, "lifetimes", *DRIVER)
    assert_rows(
        database,
        "driver_lives",
        """
        source address allocated_bytes alloc_ts_ns free_ts_ns alloc_correlation_id free_correlation_id alloc_call_path_id free_call_path_id
        cupti  512     100             1000000     5000000    7                    9                   40                 41
        """,  # noqa: E501
    )
    assert_rows(
        database,
        "seen_twice",
        """
        alloc_call_path_id time_difference_ns
        40                 200
        """,
    )


def test_other_size_other_process_or_another_second_is_another_allocation(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        file_id source level  action ts_ns       process_id address size_bytes
        0       cupti  driver alloc  1000        1          512     100
        1       ebpf   driver alloc  1000        1          512     200
        1       ebpf   driver alloc  1000        2          512     100
        0       cupti  driver alloc  1000        1          4096    100
        1       ebpf   driver alloc  2000000000  1          4096    100
        """,
    )
    run(database, "lifetimes", *DRIVER)
    assert_rows(
        database,
        "driver_lives",
        """
        source process_id address allocated_bytes
        cupti  1          512     100
        ebpf   1          512     200
        ebpf   2          512     100
        cupti  1          4096    100
        ebpf   1          4096    100
        """,
    )


def test_an_address_allocated_again_is_matched_life_by_life(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        file_id source level  action ts_ns  address size_bytes call_path_id
        0       cupti  driver alloc  1000   512     100        -
        0       cupti  driver free   2000   512     100        -
        0       cupti  driver alloc  3000   512     100        -
        1       ebpf   driver alloc  1100   512     100        40
        1       ebpf   driver free   2100   512     0          41
        1       ebpf   driver alloc  3100   512     100        50
        """,
    )
    run(database, "lifetimes", *DRIVER)
    assert_rows(
        database,
        "driver_lives",
        """
        source alloc_ts_ns free_ts_ns alloc_call_path_id free_call_path_id
        cupti  1000        2000       40                 41
        cupti  3000        -          50                 -
        """,
    )


def test_files_on_unaligned_clocks_are_not_matched_by_time(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        file_id source level  action ts_ns address size_bytes clock_aligned
        0       cupti  driver alloc  1000  512     100        true
        1       ebpf   driver alloc  1000  512     100        false
        """,
    )
    run(database, "lifetimes", *DRIVER)
    assert_rows(
        database,
        "driver_lives",
        """
        source address
        cupti  512
        ebpf   512
        """,
    )


def test_failed_calls_hold_nothing_and_kinds_stay_apart(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        source level  action ts_ns address size_bytes return_code memory_kind
        ebpf   driver alloc  1000  512     100        2           device
        ebpf   driver alloc  1100  0       100        0           device
        cupti  driver alloc  1200  1024    100        0           static
        cupti  driver alloc  1300  2048    100        -           pinned
        cupti  driver alloc  1400  4096    100        -           -
        """,
    )
    run(database, "lifetimes", *DRIVER, "tensor_lives", "segment_lives", "host_files", "diagnostics_made")
    assert_rows(
        database,
        "driver_lives",
        """
        address memory_kind
        1024    static
        2048    pinned
        4096    unknown
        """,
    )
    assert_rows(
        database,
        "diagnostics_made",
        """
        name               occurrence_count severity
        driver_call_failed 1                info
        """,
    )


def test_a_call_without_a_device_takes_the_only_device_of_its_process(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        memory_events="""
        source level  action ts_ns address size_bytes process_id device_index
        ebpf   driver alloc  1000  512     100        1          -
        torch  tensor alloc  1100  513     100        1          3
        ebpf   driver alloc  1000  512     100        2          -
        torch  tensor alloc  1100  513     100        2          0
        torch  tensor alloc  1100  513     100        2          1
        """,
    )
    run(database, "lifetimes", *DRIVER)
    assert_rows(
        database,
        "driver_lives",
        """
        process_id device_index
        1          3
        2          -
        """,
    )
