"""Bytes lost to rounding, by call path, at the peak."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.hotspots import hotspot_findings
from schemas.config import HotspotSettings
from tests.hotspots.support import FLAGS, Row, hotspots, of_kind, paths
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
