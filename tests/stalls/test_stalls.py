"""Calls that hold the host up: which they are, counted once, where they happened and what they cost."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.sql.support import assert_rows
from tests.stalls.support import USUAL, stalls

_KINDS = {
    "cudaDeviceSynchronize": "synchronize",
    "cudaStreamSynchronize_ptsz_v7000": "synchronize",
    "cudaEventSynchronize": "synchronize",
    "cuCtxSynchronize": "synchronize",
    "cuStreamSynchronize_ptsz": "synchronize",
    "hipDeviceSynchronize": "synchronize",
    "cudaMemcpy": "synchronous_copy",
    "cudaMemcpy2DToArray": "synchronous_copy",
    "cudaMemcpyToSymbol_v3020": "synchronous_copy",
    "cuMemcpyDtoH_v2": "synchronous_copy",
    "hipMemcpyWithStream": "synchronous_copy",
    "cudaMalloc": "allocation",
    "cudaMallocManaged": "allocation",
    "cudaHostAlloc": "allocation",
    "cudaFree": "allocation",
    "cuMemAlloc_v2": "allocation",
    "cuMemAddressReserve": "allocation",
    "cuMemMap": "allocation",
    "cudaGraphInstantiateWithFlags": "graph",
    "cuGraphInstantiateWithParams_ptsz": "graph",
    "cuDevicePrimaryCtxRetain": "context",
    "cuCtxCreate_v4": "context",
    "cuModuleLoadDataEx": "module",
    "cuLibraryLoadData": "module",
    "cudaLaunchKernel": None,
    "cudaMemcpyAsync": None,
    "cudaMallocAsync": None,
    "cudaFreeAsync": None,
    "cuMemcpyDtoHAsync_v2": None,
    "cudaStreamWaitEvent": None,
    "cudaEventQuery": None,
    "cudaGraphLaunch": None,
    "cudaGraphAddMemcpyNode": None,
    "cuMemGetInfo_v2": None,
    "cuModuleGetLoadingMode": None,
    "cuCtxGetCurrent": None,
    "cudaMemGetInfo": None,
}


def test_which_calls_hold_the_host_up(tmp_path: Path) -> None:
    calls = [{"name": name, "start_ns": 10 * n, "end_ns": 10 * n + 4} for n, name in enumerate(_KINDS)]
    found = stalls(tmp_path, api_calls=calls).rows(
        "SELECT name, stall_kind, duration_ns FROM sync_stalls ORDER BY stall_id"
    )
    assert found == [(name, kind, 4) for name, kind in _KINDS.items() if kind]


def test_a_driver_call_inside_a_runtime_call_is_the_same_stall(tmp_path: Path) -> None:
    database = stalls(
        tmp_path,
        api_calls="""
            api      name                   thread_id  start_ns  end_ns  correlation_id  call_path_id
            runtime  cudaDeviceSynchronize  7          100       200     1               -
            driver   cuCtxSynchronize       7          110       190     2               -
            driver   cuCtxSynchronize       8          110       190     3               -
            driver   cuCtxSynchronize       7          210       220     4               -
            runtime  cudaLaunchKernel       7          300       400     5               -
            driver   cuModuleLoadData       7          310       390     6               -
            runtime  cudaMalloc             7          500       600     7               -
            runtime  cudaMalloc             7          501       599     7               33
        """,
    )
    assert_rows(
        database,
        "sync_stalls",
        """
        name                   thread_id  start_ns  duration_ns  call_path_id
        cudaDeviceSynchronize  7          100       100          -
        cuCtxSynchronize       8          110       80           -
        cuCtxSynchronize       7          210       10           -
        cuModuleLoadData       7          310       80           -
        cudaMalloc             7          500       100          33
        """,
    )


def test_of_two_recorders_at_once_the_one_that_saw_more_counts(tmp_path: Path) -> None:
    calls = """
        file_id  name                   start_ns  end_ns
        0        cudaDeviceSynchronize  100       200
        1        cudaDeviceSynchronize  100       200
        1        cudaGetDevice          300       310
        2        cudaDeviceSynchronize  900       950
    """
    database = stalls(tmp_path, api_calls=calls)
    assert_rows(database, "sync_stalls", "file_id  duration_ns\n1 100\n2 50")


def test_a_copy_of_pageable_memory_waits(tmp_path: Path) -> None:
    database = stalls(
        tmp_path,
        api_calls="""
            name                 start_ns  end_ns  correlation_id
            cudaMemcpyAsync      0         50      1
            cudaMemcpyAsync      60        65      2
            cudaMemcpy           70        99      3
            cudaMemcpyAsync      110       120     4
        """,
        gpu_ops="""
            op      start_ns  end_ns  correlation_id  size_bytes  copy_kind  src_kind  dst_kind
            memcpy  10        20      1               1000        htod       pageable  device
            memcpy  20        30      1               24          htod       pageable  device
            memcpy  62        70      2               500         htod       pinned    device
            memcpy  80        90      3               7           dtoh       device    pageable
        """,
    )
    assert_rows(
        database,
        "sync_stalls",
        """
        stall_kind        duration_ns  size_bytes  detail
        pageable_copy     50           1024        htod,_|_pageable
        synchronous_copy  29           7           dtoh,_|_pageable
        """,
    )


def test_records_of_waits_count_where_their_call_is_missing(tmp_path: Path) -> None:
    waits = """
        sync_kind    start_ns  end_ns  correlation_id  stream_id
        stream       10        20      1               13
        event        30        40      2               -
        context      50        60      3               -
        stream_wait  70        80      4               14
    """
    calls = "name start_ns end_ns correlation_id\ncudaStreamSynchronize 9 21 1\ncudaEventQuery 29 41 2"
    database = stalls(tmp_path, api_calls=calls, sync_events=waits)
    assert_rows(
        database,
        "sync_stalls",
        "name duration_ns stream_id\ncudaStreamSynchronize 12 13\ncontext_|_synchronize 10 -",
    )


def test_the_regular_work_is_all_epochs_but_the_first(tmp_path: Path) -> None:
    database = stalls(
        tmp_path,
        epochs="""
            epoch_index  epoch_kind  start_ns  end_ns
            0            request     100       200
            1            request     200       300
            2            request     300       400
        """,
        api_calls="name start_ns end_ns\ncudaMalloc 150 160\ncudaMalloc 250 260\ncudaMalloc 390 450\ncudaFree 500 510",
    )
    assert_rows(database, "sync_stalls", "start_ns is_hot\n150 false\n250 true\n390 true\n500 false")
    assert_rows(
        database,
        "(SELECT * FROM stall_costs WHERE is_total)",
        "stall_count total_ns union_ns window_ns hot_by hot_count hot_ns hot_window_ns hot_max_ns\n"
        "4 90 90 360 request 2 20 200 60",
    )


def test_ranges_that_repeat_or_launches_tell_the_regular_work_else(tmp_path: Path) -> None:
    steps = [{"name": f"step {n}", "start_ns": 100 * n, "end_ns": 100 * n + 90, "thread_id": 7} for n in range(5)]
    calls = "name start_ns end_ns\ncudaMalloc 50 55\ncudaMalloc 250 260"
    database = stalls(tmp_path / "steps", ranges=steps, api_calls=calls)
    assert database.rows("SELECT hot_by, hot_count, hot_window_ns FROM stall_costs WHERE is_total") == [
        ("step", 1, 390)
    ]

    launches: list[dict[str, Any]] = [
        {"name": "cudaLaunchKernel", "start_ns": 10 * n, "end_ns": 10 * n + 1, "correlation_id": n}
        for n in range(1, 31)
    ]
    ops = [{"start_ns": 10 * n + 2, "end_ns": 10 * n + 5, "correlation_id": n} for n in range(1, 31)]
    mallocs = [{"name": "cudaMalloc", "start_ns": at, "end_ns": at + 2} for at in (15, 105, 400)]
    database = stalls(tmp_path / "launches", api_calls=launches + mallocs, gpu_ops=ops)
    assert database.rows("SELECT is_hot FROM sync_stalls ORDER BY start_ns") == [(False,), (True,), (False,)]

    database = stalls(tmp_path / "few", api_calls=launches[:5] + mallocs, gpu_ops=ops[:5])
    assert database.rows("SELECT DISTINCT is_hot FROM sync_stalls") == [(None,)]
    assert database.rows("SELECT hot_by, hot_count, hot_ns FROM stall_costs WHERE is_total") == [(None, None, None)]


def test_a_slow_first_call_made_the_context(tmp_path: Path) -> None:
    calls = "name start_ns end_ns correlation_id\ncudaGetDevice 0 3 9\ncudaGetDeviceCount 5 905 10\n"
    calls += "cudaLaunchKernel 910 911 1"
    settings = USUAL.__class__(gap_min_seconds=0, context_min_seconds=500e-9)
    ops = "start_ns end_ns correlation_id\n912 913 1"
    database = stalls(tmp_path, settings, api_calls=calls, gpu_ops=ops)
    assert_rows(database, "sync_stalls", "stall_kind name duration_ns\ncontext cudaGetDeviceCount 900")


def test_where_a_stall_happened(tmp_path: Path) -> None:
    database = stalls(
        tmp_path,
        ranges="""
            name       thread_id  start_ns  end_ns  process_id
            request:5  7          0         100     1
            decode     7          20        80      1
            other      8          0         100     1
        """,
        api_calls="name thread_id start_ns end_ns\ncudaStreamSynchronize 7 30 40\ncudaStreamSynchronize 9 50 60",
    )
    assert_rows(
        database,
        "sync_stalls",
        "thread_id range_path request_id\n7 request:#_|_>_|_decode 5\n9 - 5",
    )


def test_bytes_that_wait_for_a_stream_meanwhile(tmp_path: Path) -> None:
    given = """
        allocation_id  level   allocated_bytes  alloc_ts_ns  free_requested_ts_ns  free_ts_ns
        1              tensor  1000             0            10                    60
        2              tensor  200              0            40                    70
        3              tensor  30               0            20                    20
        4              driver  9999             0            10                    60
    """
    calls = (
        "name start_ns end_ns\ncudaDeviceSynchronize 30 50\ncudaDeviceSynchronize 61 62\ncudaDeviceSynchronize 80 90"
    )
    database = stalls(tmp_path / "known", allocations=given, api_calls=calls)
    assert_rows(database, "sync_stalls", "start_ns pending_free_bytes\n30 1200\n61 200\n80 0")
    database = stalls(tmp_path / "unknown", api_calls=calls)
    assert database.rows("SELECT DISTINCT pending_free_bytes FROM sync_stalls") == [(None,)]


def test_costs_equal_a_union_in_plain_python(tmp_path: Path) -> None:
    """Threads that stall at the same time: no sum of theirs passes the time that there was. A process a seed."""
    calls: list[dict[str, Any]] = []
    for seed in range(1, 9):
        chance = random.Random(seed)
        for thread in (1, 2, 3):
            at = chance.randint(0, 20)
            while at < 400:
                end = at + chance.randint(1, 40)
                name = chance.choice(("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaMalloc"))
                who = {"process_id": seed, "thread_id": thread, "call_path_id": thread % 2}
                calls.append(who | {"name": name, "start_ns": at, "end_ns": end})
                at = end + chance.randint(0, 15)
    epochs = [
        {"process_id": seed, "epoch_index": n, "epoch_kind": "step", "start_ns": 100 * n, "end_ns": 100 * n + 100}
        for n in range(4)
        for seed in range(1, 9)
    ]
    rows = stalls(tmp_path, api_calls=calls, epochs=epochs).rows(
        "SELECT process_id, stall_kind, name, call_path_id, stall_count, total_ns, union_ns, hot_ns, window_ns,"
        " hot_window_ns FROM stall_costs"
    )
    assert len(rows) == 2 * 8 + len({(c["process_id"], c["name"], c["call_path_id"]) for c in calls})
    for process, kind, name, path, count, total, union, hot, window, hot_window in rows:
        own = [
            c for c in calls
            if c["process_id"] == process and (c["name"] == "cudaMalloc") == (kind == "allocation")
            and (name is None or (c["name"], c["call_path_id"]) == (name, path))
        ]  # fmt: skip
        covered = {ns for c in own for ns in range(c["start_ns"], c["end_ns"])}
        assert (count, total) == (len(own), sum(c["end_ns"] - c["start_ns"] for c in own))
        assert (union, hot) == (len(covered), len(covered & set(range(100, 400))))
        assert union <= window
        assert hot <= hot_window == 300


def test_a_step_that_launches_kernels_where_others_launch_a_graph(tmp_path: Path) -> None:
    ranges, calls = [], []
    for step in range(10):
        ranges.append({"name": f"step {step}", "thread_id": 7, "start_ns": 1000 * step, "end_ns": 1000 * step + 900})
        ranges.append({"name": "forward", "thread_id": 7, "start_ns": 1000 * step + 10, "end_ns": 1000 * step + 800})
        is_eager = step == 6
        for n in range(40 if is_eager else 1):
            name = "cudaLaunchKernel" if is_eager else "cudaGraphLaunch"
            calls.append({"name": name, "start_ns": 1000 * step + 20 + 10 * n, "end_ns": 1000 * step + 25 + 10 * n})
    database = stalls(tmp_path / "one", ranges=ranges, api_calls=calls)
    assert_rows(
        database,
        "sync_stalls",
        "stall_kind name range_path launch_count duration_ns is_hot\neager_fallback step_|_6 step_|_# 40 900 true",
    )
    graphless = [call | {"name": "cudaLaunchKernel"} for call in calls]
    assert stalls(tmp_path / "none", ranges=ranges, api_calls=graphless).rows("FROM sync_stalls") == []


def test_streams_that_start_and_stop_together(tmp_path: Path) -> None:
    """Streams 1 and 2 work in one wave, stream 3 on its own; a burst is two operations without a pause."""
    ops = []
    for wave in range(20):
        at = 1_000_000 * wave
        for stream, start, length in ((1, at, 100_000), (2, at + 2_000, 97_000), (3, at + 400_000, 90_000)):
            half = length // 2
            ops.append({"stream_id": stream, "start_ns": start, "end_ns": start + half})
            ops.append({"stream_id": stream, "start_ns": start + half + 5_000, "end_ns": start + length})
    database = stalls(tmp_path, gpu_ops=ops)
    assert_rows(
        database,
        "stream_pairs",
        """
        stream_id  other_stream_id  burst_count  other_burst_count  matched_count  is_lockstep
        1          2                20           20                 20             true
        1          3                20           20                 0              false
        2          3                20           20                 0              false
        """,
    )
