"""Real captures whose history is a ring buffer that has overwritten most of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingest.capture import capture_files
from pipeline.steps import analyze, ingest
from schemas.config import Config

CAPTURES = Path(__file__).parents[1] / "data" / "captures"


def tables(name: str, out: Path) -> dict[str, pl.DataFrame]:
    root = CAPTURES / name
    ingest(capture_files(root), root, out)
    analyze(out, Config())
    return {path.stem: pl.read_parquet(path) for path in (out / "tables").glob("*.parquet")}


@pytest.fixture(scope="module")
def leaking(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    return tables("ring_leak", tmp_path_factory.mktemp("leak"))


@pytest.fixture(scope="module")
def planted() -> dict[str, Any]:
    [found] = json.loads((CAPTURES / "ring_leak_truth.json").read_text())["planted"]
    return dict(found)


def test_growth_that_the_window_lost_is_named(leaking: dict[str, pl.DataFrame], planted: dict[str, Any]) -> None:
    [suspect] = leaking["leak_suspects"].filter(pl.col("verdict") == "growing").to_dicts()
    assert suspect["root_cause"] == "kv_cache"
    assert suspect["attribute"] == "status=499"
    assert suspect["retained_bytes_low"] <= planted["bytes"] <= suspect["retained_bytes_high"]


def test_its_survivors_are_the_planted_ones(leaking: dict[str, pl.DataFrame], planted: dict[str, Any]) -> None:
    growing = leaking["leak_suspects"].filter(pl.col("verdict") == "growing").select("suspect_id")
    kept = leaking["leak_evidence"].join(growing, on="suspect_id").join(leaking["allocations"], on="allocation_id")
    assert set(kept["address"]) == {address for address, _ in planted["storages"]}


def test_that_the_window_is_truncated_is_a_finding(leaking: dict[str, pl.DataFrame]) -> None:
    found = leaking["findings"].filter(pl.col("finding_kind") == "data_loss")
    assert any("truncated" in title for title in found["title"])


def test_a_bounded_cache_behind_a_truncated_window_is_no_suspect(tmp_path: Path) -> None:
    found = tables("ring_clean", tmp_path)
    assert "growing" not in set(found["leak_suspects"]["verdict"])
    assert found["findings"]["finding_kind"][0] in ("no_leak", "abstained")
