"""Idle time of devices: tiny rows, and random histories against a count of every nanosecond in plain Python."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.sql.support import assert_rows
from tests.stalls.support import stalls

_PARTS = "busy_ns, idle_ns, sync_idle_ns, launch_idle_ns, host_idle_ns, unknown_idle_ns"


def test_a_gap_is_split_by_what_the_host_did(tmp_path: Path) -> None:
    """Busy [100, 200) and [300, 400): the wait ends at 220, the launch begins at 290, 70 ns are the host's own."""
    database = stalls(
        tmp_path,
        api_calls="""
            name                   start_ns  end_ns  correlation_id
            cudaLaunchKernel       90        95      1
            cudaDeviceSynchronize  120       220     2
            cudaLaunchKernel       290       294     3
        """,
        gpu_ops="""
            start_ns  end_ns  correlation_id
            100       180     1
            150       200     1
            300       400     3
        """,
    )
    assert_rows(
        database,
        "device_activity",
        """
        start_ns  end_ns  busy_ns  idle_ns  sync_idle_ns  launch_idle_ns  host_idle_ns  op_count  gap_count
        100       400     200      100      20            10              70            3         1
        """,
    )
    assert_rows(
        database,
        "idle_gaps",
        """
        start_ns  end_ns  idle_ns  sync_idle_ns  launch_idle_ns  host_idle_ns  idle_cause  stall_id
        200       300     100      20            10              70            host        0
        """,
    )


def test_a_wait_of_a_thread_that_feeds_another_device_is_none_of_this_one(tmp_path: Path) -> None:
    database = stalls(
        tmp_path,
        api_calls="""
            name                   thread_id  start_ns  end_ns  correlation_id
            cudaLaunchKernel       1          0         5       1
            cudaLaunchKernel       2          0         5       2
            cudaStreamSynchronize  2          20        80      3
            cudaLaunchKernel       1          90        95      4
            cudaLaunchKernel       2          90        95      5
        """,
        gpu_ops="""
            device_index  start_ns  end_ns  correlation_id
            0             10        20      1
            1             10        20      2
            0             100       120     4
            1             100       120     5
        """,
    )
    assert_rows(
        database,
        "device_activity",
        """
        device_index  idle_ns  sync_idle_ns  launch_idle_ns  host_idle_ns
        0             80       0             10              70
        1             80       60            10              10
        """,
    )


def test_processes_that_share_a_device_are_one_device(tmp_path: Path) -> None:
    ops = "process_id start_ns end_ns\n1 0 10\n2 5 30\n1 50 60"
    names = "process_id device_index uuid\n1 0 GPU-a\n2 0 GPU-a"
    shared = stalls(tmp_path / "a", gpu_ops=ops, devices=names)
    assert_rows(shared, "device_activity", "process_id uuid busy_ns idle_ns\n- GPU-a 40 20")
    apart = stalls(tmp_path / "b", gpu_ops=ops)
    assert_rows(apart, "device_activity", "process_id busy_ns idle_ns\n1 20 40\n2 25 0")


def test_what_is_not_recorded_is_not_zero(tmp_path: Path) -> None:
    ops = "start_ns end_ns\n0 10\n30 40"
    database = stalls(tmp_path / "ops", gpu_ops=ops)
    [row] = database.rows(f"SELECT {_PARTS}, abstained_reason FROM device_activity")
    assert row[:6] == (20, 20, None, None, None, 20)
    assert "no CUDA calls" in row[6]
    assert database.rows("SELECT idle_cause, sync_idle_ns, host_idle_ns FROM idle_gaps") == [("unknown", None, None)]

    database = stalls(tmp_path / "calls", api_calls="name start_ns end_ns\ncudaMalloc 0 10")
    [row] = database.rows(f"SELECT {_PARTS}, process_id, abstained_reason FROM device_activity")
    assert row[:7] == (None,) * 6 + (1,)
    assert "no operations of a device" in row[7]

    database = stalls(tmp_path / "none")
    [row] = database.rows(f"SELECT {_PARTS}, abstained_reason FROM device_activity")
    assert row[:6] == (None,) * 6
    assert "neither" in row[6]


def test_beyond_the_first_and_last_call_nothing_is_known(tmp_path: Path) -> None:
    database = stalls(
        tmp_path,
        gpu_ops="start_ns end_ns\n0 10\n100 110\n200 210",
        api_calls="name start_ns end_ns\ncudaGetDevice 50 60\ncudaGetDevice 120 150",
    )
    assert database.rows(f"SELECT {_PARTS} FROM device_activity") == [(30, 180, 0, 0, 90, 90)]


def test_rows_without_a_clock_are_judged_against_themselves_only(tmp_path: Path) -> None:
    database = stalls(
        tmp_path,
        gpu_ops="file_id clock_aligned start_ns end_ns correlation_id\n0 true 0 10 -\n0 true 90 99 -\n"
        "1 false 5 6 1\n1 false 9 10 1",
        api_calls="file_id clock_aligned name start_ns end_ns correlation_id\n1 false cudaStreamSynchronize 6 8 3\n"
        "1 false cudaLaunchKernel 4 5 1",
    )
    assert_rows(
        database,
        "device_activity",
        "start_ns end_ns idle_ns sync_idle_ns launch_idle_ns host_idle_ns unknown_idle_ns\n"
        "0 99 80 - - - 80\n5 10 3 2 0 0 1",
    )


def _history(chance: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Calls and operations of two devices, that three threads feed or only wait for."""
    calls: list[dict[str, Any]] = []
    ops: list[dict[str, Any]] = []
    feeds = {1: 0, 2: chance.choice((0, 1)), 3: None}
    for thread, device in feeds.items():
        at = chance.randint(0, 60)
        while at < 900:
            end = at + chance.randint(0, 25)
            row = {"thread_id": thread, "start_ns": at, "end_ns": end, "correlation_id": len(calls) + 1}
            kind = chance.choice(("cudaLaunchKernel", "cudaStreamSynchronize", "cudaMemcpy", "cudaGetDevice"))
            calls.append(row | {"name": kind})
            if device is not None and kind in ("cudaLaunchKernel", "cudaMemcpy"):
                for _ in range(chance.randint(1, 2)):
                    start = at + chance.randint(0, 70)
                    ops.append(
                        {
                            "device_index": device,
                            "stream_id": thread,
                            "op": "kernel" if kind == "cudaLaunchKernel" else "memcpy",
                            "start_ns": start,
                            "end_ns": start + chance.randint(1, 40),
                            "correlation_id": len(calls),
                        }
                    )
            at = end + chance.randint(1, 50)
    return calls, ops


def _counted(calls: list[dict[str, Any]], ops: list[dict[str, Any]], device: int) -> tuple[list[int], set[int]]:
    """What `_PARTS` are, nanosecond by nanosecond, and the idle ones."""
    own = [op for op in ops if op["device_index"] == device]
    first, last = min(op["start_ns"] for op in own), max(op["end_ns"] for op in own)
    feeders = {thread for thread in (1, 2, 3) for op in own if op["stream_id"] == thread}
    idlers = {1, 2, 3} - {op["stream_id"] for op in ops}
    waits = [
        c for c in calls if c["name"] in ("cudaStreamSynchronize", "cudaMemcpy") and c["thread_id"] in feeders | idlers
    ]
    begun: dict[int, int] = {}
    for op in own:
        begun[op["correlation_id"]] = min(op["start_ns"], begun.get(op["correlation_id"], op["start_ns"]))
    launches = [
        (c["start_ns"], max(c["end_ns"], begun[c["correlation_id"]])) for c in calls if c["correlation_id"] in begun
    ]
    known = (
        min(c["start_ns"] for c in calls),
        max([c["end_ns"] for c in calls] + [end for _, end in launches]),
    )
    counts, idle = [0] * 6, set()
    for ns in range(first, last):
        if any(op["start_ns"] <= ns < op["end_ns"] for op in own):
            counts[0] += 1
            continue
        counts[1] += 1
        idle.add(ns)
        if any(c["start_ns"] <= ns < c["end_ns"] for c in waits):
            counts[2] += 1
        elif any(start <= ns < end for start, end in launches):
            counts[3] += 1
        elif known[0] <= ns < known[1]:
            counts[4] += 1
        else:
            counts[5] += 1
    return counts, idle


def test_random_histories_equal_a_count_of_every_nanosecond(tmp_path: Path) -> None:
    """A process a seed; devices of different processes have nothing to do with each other."""
    histories = {seed: _history(random.Random(seed)) for seed in range(1, 41)}
    database = stalls(
        tmp_path,
        api_calls=[{"process_id": seed, **call} for seed, (calls, _) in histories.items() for call in calls],
        gpu_ops=[{"process_id": seed, **op} for seed, (_, ops) in histories.items() for op in ops],
    )
    rows = database.rows(f"SELECT process_id, device_index, {_PARTS} FROM device_activity")
    assert len(rows) > 50
    for seed, device, *parts in rows:
        counts, idle = _counted(*histories[seed], device)
        assert parts == counts, f"seed {seed}, device {device}"
        assert parts[1] == sum(parts[2:])
        of_it = f"FROM idle_gaps WHERE process_id = {seed} AND device_index = {device}"
        gaps = database.rows(f"SELECT start_ns, end_ns {of_it}")
        assert sorted(ns for start, end in gaps for ns in range(start, end)) == sorted(idle)
        shares = "sum(sync_idle_ns), sum(launch_idle_ns), sum(host_idle_ns), sum(unknown_idle_ns)"
        [sums] = database.rows(f"SELECT {shares} {of_it}")
        assert [value or 0 for value in sums] == parts[2:]
