"""Generated histories of known truth through the whole analysis: what was planted is found, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.generate.judging import Verdicts, run_pipeline
from tests.generate.scenarios import CLEAN, LEAKING, TRUNCATED
from tests.generate.scene import Kept, Scene

FEW = range(2)
MANY = range(2, 25)
_MARKED = [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MANY)]


def _judge(scene: Scene, folder: Path) -> Verdicts:
    return run_pipeline(scene.write(folder / "capture"), folder / "out")


def _check_leak(leak: Kept, found: Verdicts) -> None:
    [suspect] = [row for row in found.growing if found.evidence[row["suspect_id"]] & leak.addresses]
    assert found.evidence[suspect["suspect_id"]] == leak.addresses
    assert suspect["retained_count"] == len(leak.tensors)
    assert suspect["retained_bytes"] == leak.rounded
    assert suspect["retained_requested_bytes"] == leak.requested
    assert suspect["retained_bytes_low"] <= leak.rounded <= suspect["retained_bytes_high"]
    assert "keep some" in suspect["verdict_reason"]
    assert "Mann–Kendall" in suspect["verdict_reason"]
    assert suspect["growth_bytes_per_epoch"] > 0
    assert suspect["growth_bytes_per_hour"] > 0
    assert 0.5 < suspect["confidence"] < 1


@pytest.mark.parametrize("seed", _MARKED)
@pytest.mark.parametrize("name", CLEAN)
def test_nothing_grows_where_nothing_leaks(name: str, seed: int, tmp_path: Path) -> None:
    scene = CLEAN[name](seed)
    found = _judge(scene, tmp_path)
    assert [(row["leak_path"], row["verdict_reason"]) for row in found.growing] == []
    assert [row["title"] for row in found.findings if row["severity"] == "critical"] == []
    assert all(row["verdict_reason"] for row in found.suspects)


@pytest.mark.parametrize("seed", _MARKED)
@pytest.mark.parametrize("name", LEAKING)
def test_what_leaks_is_found_and_nothing_else(name: str, seed: int, tmp_path: Path) -> None:
    scene = LEAKING[name](seed)
    found = _judge(scene, tmp_path)
    assert len(found.growing) == len(scene.leaks)
    for leak in scene.leaks:
        _check_leak(leak, found)
    for kept in scene.benign:
        for address in kept.addresses:
            judged = found.of(address)
            assert judged is not None, f"{kept.name} is in no group"
            assert judged["verdict"] != "growing", kept.name
    critical = [row for row in found.findings if row["severity"] == "critical"]
    assert len(critical) == len(scene.leaks)
    assert found.findings[0] == critical[0]


@pytest.mark.parametrize("seed", _MARKED)
@pytest.mark.parametrize("name", ["cancelled_only", "cancelled_in_cache"])
def test_the_status_that_leaks_is_named(name: str, seed: int, tmp_path: Path) -> None:
    found = _judge(LEAKING[name](seed), tmp_path)
    [suspect] = found.growing
    assert suspect["attribute"] == "status=499"
    assert suspect["attribute_lift"] > 2
    assert suspect["attribute_p_value"] < 0.01


@pytest.mark.parametrize("seed", _MARKED)
@pytest.mark.parametrize("name", TRUNCATED)
def test_bounds_hold_the_truth_where_history_was_overwritten(name: str, seed: int, tmp_path: Path) -> None:
    scene = TRUNCATED[name](seed)
    [leak] = scene.leaks
    found = _judge(scene, tmp_path)
    for suspect in found.growing:
        assert found.evidence[suspect["suspect_id"]] <= leak.addresses
        assert suspect["retained_bytes_low"] <= leak.rounded <= suspect["retained_bytes_high"]
        assert suspect["retained_bytes_low"] > 0
    assert len(found.growing) == 1
    assert any(row["finding_kind"] == "data_loss" and "truncated" in row["title"] for row in found.findings)


def test_a_truncated_history_without_a_series_abstains_with_its_reason(tmp_path: Path) -> None:
    folder = TRUNCATED["nearly_all_lost_leak"](0).write(tmp_path / "capture")
    (folder / "tokens.csv").unlink()
    found = run_pipeline(folder, tmp_path / "out")
    assert found.growing == []
    reasons = [row["verdict_reason"] for row in found.suspects if row["verdict"] == "inconclusive"]
    assert any("was overwritten" in reason for reason in reasons)
    assert found.findings[0]["finding_kind"] == "abstained"
    assert "max_entries" in found.findings[0]["advice"]


def test_a_leak_of_a_few_requests_abstains(tmp_path: Path) -> None:
    scene = LEAKING["growing"](1)
    folder = scene.write(tmp_path / "capture")
    log = (folder / "requests.jsonl").read_text().splitlines(keepends=True)
    (folder / "requests.jsonl").write_text("".join(log[-3:]))
    found = run_pipeline(folder, tmp_path / "out")
    assert found.growing == []
    assert found.findings[0]["finding_kind"] == "abstained"
    assert "3 requests" in found.findings[0]["abstained_reason"]


def test_the_same_capture_gives_the_same_tables(tmp_path: Path) -> None:
    folder = LEAKING["cancelled_only"](3).write(tmp_path / "capture")
    one, other = (run_pipeline(folder, tmp_path / out) for out in ("one", "other"))
    assert (one.suspects, one.evidence, one.findings) == (other.suspects, other.evidence, other.findings)
