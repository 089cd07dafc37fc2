"""Bytes lost to rounding, by call path, at the peak."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.hotspot_findings import hotspot_findings
from schemas.config import HotspotSettings
from tests.hotspots.support import FLAGS, Row, hotspots, of_kind, paths, reasons
from tests.sql.support import parse

MIB = 1024 * 1024


def _tensors(text: str) -> list[Row]:
    return [FLAGS | row for row in parse(text)]


def test_rounding_at_the_peak_by_call_path(tmp_path: Path) -> None:
    live = "ts_ns live_bytes live_count\n10 3000 2\n20 1000 1\n"
    tensors = """
        allocation_id  alloc_ts_ns  free_ts_ns  allocated_bytes  requested_bytes  alloc_call_path_id
        1              -            -           512              500              0
        2              5            15          1024             700              1
        3              5            15          512              512              1
        4              15           -           2048             1                1
        5              1            9           4096             1                0
    """
    database, rows = hotspots(tmp_path, allocations=_tensors(tensors), live_bytes=live, **paths((1,), (1, 2)))
    found = of_kind(rows, "rounding")
    assert [(r["call_path_id"], r["call_count"], r["self_amount"], r["total_amount"]) for r in found] == [
        (1, 2, 324, 1536),
        (0, 1, 12, 512),
    ]
    assert [row["total_ratio"] for row in found] == [pytest.approx(0.75), pytest.approx(0.25)]
    assert hotspot_findings(database, HotspotSettings()) == []


def test_rounding_that_costs_much_is_a_finding(tmp_path: Path) -> None:
    live = f"ts_ns live_bytes live_count\n10 {400 * MIB} 1\n"
    tensors = f"""
        allocation_id  alloc_ts_ns  allocated_bytes  requested_bytes
        1              5            {400 * MIB}      {300 * MIB}
    """
    database, _ = hotspots(tmp_path, allocations=_tensors(tensors), live_bytes=live)
    [finding] = hotspot_findings(database, HotspotSettings())
    assert (finding["bytes"], finding["severity"]) == (100 * MIB, "info")
    assert "Rounding takes 105 MB of 419 MB" in finding["title"]


def _operator(name: str, types: list[str], dims: list[list[int]], **more: object) -> Row:
    attributes = json.dumps({"External id": 3, "Input type": types, "Input Dims": dims})
    return {"name": name, "range_kind": "operator", "start_ns": 1, "end_ns": 2, "attributes": attributes} | more


def test_float_operands_of_a_half_precision_model(tmp_path: Path) -> None:
    """A product in bfloat16 (2 × 1,000 × 100 numbers), a power in float; the caller has the same operands once more."""
    ranges = [
        _operator("aten::matmul", ["c10::BFloat16", "c10::BFloat16"], [[1000, 100], [100, 1000]], call_path_id=1),
        _operator("aten::mm", ["c10::BFloat16", "c10::BFloat16"], [[1000, 100], [100, 1000]], call_path_id=0),
        _operator("aten::pow", ["float", "Scalar"], [[1000, 100], []], call_path_id=2),
        _operator("aten::cat", ["TensorList", ""], [[[2, 3], [4]], []], call_path_id=2),
        {"name": "aten::bad", "range_kind": "operator", "start_ns": 1, "attributes": '{"Input type": "Input Dims'},
    ]
    ops = [{"op": "kernel", "name": "k", "start_ns": n, "end_ns": n + 1, "correlation_id": n} for n in range(2)]
    calls = [
        {"api": "runtime", "name": "l", "start_ns": 0, "end_ns": 1, "correlation_id": n, "call_path_id": path}
        for n, path in enumerate((0, 2))
    ]
    database, rows = hotspots(tmp_path, ranges=ranges, gpu_ops=ops, api_calls=calls, **paths((1, 2), (1,), (1, 3)))
    assert [(row["name"], row["self_amount"], row["detail"]) for row in of_kind(rows, "operand_type")] == [
        ("c10::BFloat16", 400_000, "most of it read by aten::mm"),
        ("float", 400_000, "most of it read by aten::pow"),
    ]
    [finding] = hotspot_findings(database, HotspotSettings())
    assert finding["bytes"] == 200_000
    assert "The model is in BFloat16, but 50% of what operators read of process 1 is in float" in finding["title"]


def test_a_float_model_is_no_waste_and_no_types_are_not_known(tmp_path: Path) -> None:
    database, rows = hotspots(tmp_path, ranges=[_operator("aten::mm", ["float", "float"], [[10, 10], [10, 10]])])
    assert [(row["name"], row["self_ratio"]) for row in of_kind(rows, "operand_type")] == [("float", 1.0)]
    assert hotspot_findings(database, HotspotSettings()) == []
    _, rows = hotspots(tmp_path / "b")
    assert "no types of operands" in reasons(rows)["operand_type"]
