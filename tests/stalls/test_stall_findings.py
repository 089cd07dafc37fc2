"""Findings of stalls and gaps: what is said, how loudly, and that the evidence leads to rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.database import Database
from pipeline.stall_findings import stall_findings
from tests.stalls.support import USUAL, stalls

MS = 1_000_000


def _found(database: Database) -> list[dict[str, Any]]:
    found = stall_findings(database, USUAL)
    for finding in found:
        for part in json.loads(finding["evidence"]):
            assert database.rows(f"SELECT 1 FROM {part['table']} WHERE {part['where']} LIMIT 1"), finding["title"]
    return found


def _loop(call: str, cost_ns: int, busy_ns: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """40 rounds of 1 ms: a launch, an operation of `busy_ns`, and a call that takes `cost_ns` while it runs."""
    calls, ops = [], []
    for n in range(40):
        at = n * MS
        calls.append({"name": "cudaLaunchKernel", "start_ns": at, "end_ns": at + 1000, "correlation_id": n + 1})
        calls.append({"name": call, "start_ns": at + 2000, "end_ns": at + 2000 + cost_ns, "correlation_id": 100 + n})
        ops.append({"start_ns": at + 2000, "end_ns": at + 2000 + busy_ns, "correlation_id": n + 1})
    return calls, ops


def test_a_host_that_waits_for_a_busy_device_is_no_warning(tmp_path: Path) -> None:
    calls, ops = _loop("cudaDeviceSynchronize", 950_000, 950_000)
    [stall] = _found(stalls(tmp_path, api_calls=calls, gpu_ops=ops))
    assert (stall["finding_kind"], stall["severity"]) == ("stall", "info")
    assert stall["title"].startswith("Stalls: 36 waits for the device take 9")
    assert "cudaDeviceSynchronize" in stall["title"]


def test_waits_while_the_device_idles_are_one(tmp_path: Path) -> None:
    calls, ops = _loop("cudaDeviceSynchronize", 900_000, 100_000)
    stall, idle = _found(stalls(tmp_path, api_calls=calls, gpu_ops=ops))
    assert stall["severity"] == "warning"
    assert (idle["finding_kind"], idle["severity"]) == ("idle", "info")
    assert "Device 0 of process 1 was idle for 90 % of 39.1 ms: 80 % host waited for it, 10 % host did" in idle["title"]
    assert "Wait less often" in idle["advice"]


def test_allocations_in_the_loop_are_told_apart_from_those_before(tmp_path: Path) -> None:
    calls, ops = _loop("cudaMalloc", 300_000, 900_000)
    [stall] = _found(stalls(tmp_path / "hot", api_calls=calls, gpu_ops=ops))
    assert "36 driver allocations and frees take 30 % of the regular work" in stall["title"]
    assert stall["severity"] == "warning"
    early = [
        call | {"name": "cudaGetDevice"} if n > 3 and call["name"] == "cudaMalloc" else call
        for n, call in enumerate(calls)
    ]
    assert _found(stalls(tmp_path / "early", api_calls=early, gpu_ops=ops)) == []


def test_fallbacks_from_graphs_are_named(tmp_path: Path) -> None:
    ranges = [{"name": f"step {n}", "thread_id": 7, "start_ns": n * MS, "end_ns": n * MS + MS // 2} for n in range(9)]
    calls = [{"name": "cudaGraphLaunch", "start_ns": n * MS + 10, "end_ns": n * MS + 20} for n in range(9) if n != 5]
    calls += [{"name": "cudaLaunchKernel", "start_ns": 5 * MS + n, "end_ns": 5 * MS + n} for n in range(10, 60)]
    [fallback] = _found(stalls(tmp_path, ranges=ranges, api_calls=calls))
    assert fallback["severity"] == "warning"
    assert (
        "1 × step # launched 50 kernels one by one where others launch a CUDA graph, first step 5" in fallback["title"]
    )


def test_nothing_is_said_without_evidence(tmp_path: Path) -> None:
    assert _found(stalls(tmp_path / "none")) == []
    ops = [{"start_ns": n * MS, "end_ns": n * MS + 10_000} for n in range(50)]
    [idle] = _found(stalls(tmp_path / "ops", gpu_ops=ops))
    assert idle["title"].startswith("Device 0 of process 1 was idle for 99 % of 49 ms; 49 gaps")
    assert "no CUDA calls" in idle["abstained_reason"]
    assert idle["advice"] is None
