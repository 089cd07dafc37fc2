"""A history whose first 60 % the ring buffer overwrote: the leak, with bounds that hold the truth, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.generate.judging import run_pipeline
from tests.generate.leaking import cancelled_only, growing
from tests.generate.others import one_device_leaks
from tests.generate.scene import Scenario

SHARE = 0.6


@pytest.mark.parametrize("scenario", [growing, cancelled_only, one_device_leaks])
@pytest.mark.parametrize("seed", [0, pytest.param(5, marks=pytest.mark.slow)])
def test_the_leak_with_bounds_that_hold_the_truth(scenario: Scenario, seed: int, tmp_path: Path) -> None:
    scene = replace(scenario(seed), lost=SHARE)
    found = run_pipeline(scene.write(tmp_path / "capture"), tmp_path / "out")
    [suspect] = found.growing
    leak = next(leak for leak in scene.leaks if found.evidence[suspect["suspect_id"]] & leak.addresses)
    assert found.evidence[suspect["suspect_id"]] <= leak.addresses
    assert 0 < suspect["retained_bytes_low"] < suspect["retained_bytes_high"]
    assert suspect["retained_bytes_low"] <= leak.rounded <= suspect["retained_bytes_high"]
    assert "older than the recorded window" in suspect["verdict_reason"]
    [lost] = [row for row in found.findings if row["finding_kind"] == "data_loss" and "truncated" in row["title"]]
    assert lost["advice"]
    if scenario is one_device_leaks:
        assert suspect["device_index"] == leak.tensors[0].device
