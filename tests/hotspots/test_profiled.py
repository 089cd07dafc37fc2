"""Profiled kernels: their figures, where a trace launched them, and the suspect they lie beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hotspots.support import Row, hotspots, of_kind

RAW = {
    "gpu__time_duration.sum": "ns",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "%",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "%",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "%",
}
DETAILS = {"Duration": "ns", "Compute (SM) Throughput": "%", "Memory Throughput": "%", "Achieved Occupancy": "%"}


def _metrics(
    launches: list[tuple[str, str, tuple[float, ...]]], names: dict[str, str] = RAW, file_id: int = 0
) -> list[Row]:
    return [
        {"source": "ncu", "launch_index": launch, "name": name, "grid": grid, "block": "32,1,1", "metric": metric}
        | {"value": value, "unit": unit, "file_id": file_id, "process_id": 9}
        for launch, (name, grid, values) in enumerate(launches)
        for (metric, unit), value in zip(names.items(), values, strict=True)
    ]


def test_figures_are_means_weighed_by_time_and_the_slowest_come_first(tmp_path: Path) -> None:
    launches = [
        ("void gemm<float>(int)", "4,1,1", (100, 10, 20, 30)),
        ("copy(int)", "1,1,1", (50, 1, 90, 5)),
        ("void gemm<float>(int)", "4,1,1", (300, 50, 20, 10)),
    ]
    _, rows = hotspots(tmp_path, kernel_metrics=_metrics(launches))
    gemm, copy = of_kind(rows, "profiled_kernel")
    assert (gemm["name"], gemm["call_count"], gemm["self_amount"]) == ("void gemm<float>(int)", 2, 400)
    assert gemm["compute_ratio"] == pytest.approx((100 * 0.1 + 300 * 0.5) / 400)
    assert gemm["memory_ratio"] == pytest.approx(0.2)
    assert gemm["occupancy_ratio"] == pytest.approx((100 * 0.3 + 300 * 0.1) / 400)
    assert (copy["self_amount"], copy["self_ratio"]) == (50, pytest.approx(50 / 450))
    assert gemm["call_path_id"] is None
    assert gemm["suspect_id"] is None


def test_raw_and_details_page_of_one_profile_are_one(tmp_path: Path) -> None:
    raw = _metrics([("gemm(int)", "4,1,1", (103, 10.04, 20.04, 30.04))])
    details = _metrics([("gemm(int)", "4,1,1", (100, 10, 20, 30))], DETAILS)
    other = [row | {"file_id": 1} for row in raw]
    _, rows = hotspots(tmp_path, kernel_metrics=[*details, *other])
    [row] = of_kind(rows, "profiled_kernel")
    assert (row["call_count"], row["self_amount"], row["compute_ratio"]) == (1, 103, pytest.approx(0.1004))


def test_what_was_not_measured_is_not_known(tmp_path: Path) -> None:
    _, rows = hotspots(tmp_path, kernel_metrics=_metrics([("k", "1,1,1", (7.0,))], {"some__metric.sum": "ns"}))
    [row] = of_kind(rows, "profiled_kernel")
    assert [row[name] for name in ("self_amount", "self_ratio", "compute_ratio", "occupancy_ratio")] == [None] * 4


def test_the_rest_beyond_the_bound_is_one_row(tmp_path: Path) -> None:
    launches = [(f"k{n}x", f"{n},1,1", (10.0 + n, 1.0, 1.0, 1.0)) for n in range(9)]
    _, rows = hotspots(tmp_path, rows=3, kernel_metrics=_metrics(launches))
    found = of_kind(rows, "profiled_kernel")
    assert [(row["self_amount"], row["is_other"]) for row in found] == [
        (18, False),
        (17, False),
        (16, False),
        (75, True),
    ]
    assert sum(row["self_ratio"] for row in found) == pytest.approx(1)


def _traced() -> dict[str, Any]:
    """A kernel of process 1 in the range decode, launched below `step` of serve.py."""
    return {
        "kernel_metrics": _metrics([("gemm(int)", "4,1,1", (100, 10, 20, 30))]),
        "kernel_links": [
            {"file_id": 0, "launch_index": 0, "gpu_op_file_id": 2, "gpu_op_event_index": 5, "link_method": "sequence"}
        ],
        "gpu_ops": [
            {"op": "kernel", "name": "gemm(int)", "start_ns": 500, "end_ns": 580, "correlation_id": 3, "file_id": 2}
            | {"event_index": 5}
        ],
        "api_calls": [
            {"api": "runtime", "name": "cudaLaunchKernel", "start_ns": 100, "end_ns": 110, "thread_id": 4, "file_id": 2}
            | {"correlation_id": 3, "call_path_id": 0}
        ],
        "ranges": [
            {"name": "decode 3", "range_kind": "push_pop", "start_ns": 50, "end_ns": 200, "thread_id": 4, "file_id": 2}
        ],
        "frames": [
            {"frame_id": 1, "function": "main", "file": "serve.py", "line": 1},
            {"frame_id": 2, "function": "step", "file": "serve.py", "line": 8},
            {"frame_id": 3, "function": "aten::mm"},
            {"frame_id": 4, "function": "step", "file": "/srv/app/serve.py", "line": 9},
            {"frame_id": 5, "function": "cat", "file": "/usr/lib/python3/site-packages/torch/x.py", "line": 2},
            {"frame_id": 6, "function": "other", "file": "/srv/app/serve.py", "line": 30},
        ],
        "call_paths": [
            {"call_path_id": 0, "frame_ids": [1, 2, 3], "depth_count": 3},
            {"call_path_id": 1, "frame_ids": [4, 5], "depth_count": 2},
            {"call_path_id": 2, "frame_ids": [6], "depth_count": 1},
        ],
    }


def _suspect(**more: Any) -> Row:
    return {"suspect_id": 4, "verdict": "growing", "process_id": 1, "call_path_id": 2, "range_path": None} | more


@pytest.mark.parametrize(
    ("suspect", "reason"),
    [
        (_suspect(call_path_id=1), "runs below step (serve.py), which keeps the memory"),
        (_suspect(range_path="decode #"), "runs in the range decode #, in which the memory is kept"),
        (_suspect(call_path_id=None), None),
        (_suspect(call_path_id=1, process_id=2), None),
        (_suspect(call_path_id=1, verdict="bounded"), None),
        (_suspect(), None),
    ],
)
def test_the_suspect_beside_it(tmp_path: Path, suspect: Row, reason: str | None) -> None:
    _, rows = hotspots(tmp_path, suspects=[suspect], **_traced())
    [row] = of_kind(rows, "profiled_kernel")
    assert (row["process_id"], row["call_path_id"], row["range_path"]) == (1, 0, "decode #")
    assert "80 ns in the trace (sequence)" in row["detail"]
    assert row["suspect_id"] == (4 if reason else None)
    if reason:
        assert reason in row["detail"]
