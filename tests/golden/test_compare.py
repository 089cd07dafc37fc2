"""Recorded captures compared, against truth.json, the request logs read as plain JSON, and numpy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.compare import Comparison, compare
from pipeline.compare_files import load_side
from pipeline.compare_reading import summarise_capture
from pipeline.compare_summary import Summary, encode
from pipeline.compare_verdicts import Compared
from schemas.config import Config
from tests.generate.judging import Verdicts
from tests.golden.captures import ROOT, planted

Judged = Callable[[str], Verdicts]
Summaries = Callable[[str], Summary]


@pytest.fixture(scope="module")
def summary(judged: Judged) -> Summaries:
    """A recorded capture's summary by its folder's name."""
    known: dict[str, Summary] = {}

    def read(name: str) -> Summary:
        if name not in known:
            known[name] = summarise_capture(judged(name).out, Config())
        return known[name]

    return read


def _measures(found: Comparison) -> dict[str, Compared]:
    return {row.quantity: row for row in found.measures}


def _logged(name: str) -> list[dict[str, int]]:
    return [json.loads(line) for line in (ROOT / name / "requests.jsonl").read_text().splitlines()]


def test_a_leak_that_the_baseline_has_not(summary: Summaries) -> None:
    """clean → kv_leak: the leak alone fails the gate, and what chance could have made is not called a change."""
    found = compare(summary("clean"), summary("kv_leak"), Config().compare)
    measures, leak = _measures(found), planted("kv_leak", "kv_cache")
    growth = measures["leak_growth"]
    assert (found.verdict, found.gate, found.exit_code) == ("regressed", "leak", 1)
    assert (growth.baseline, growth.verdict) == (0, "regressed")
    assert growth.candidate == pytest.approx(leak.bytes / 18, rel=0.001)  # blocks are multiples of 512 B
    assert growth.interval is not None and 0 < growth.interval.low < growth.candidate < growth.interval.high
    leaked = [row for row in found.paths if row.quantity == "leaked_bytes"]
    assert [(row.baseline, row.verdict) for row in leaked] == [(0, "regressed")]
    assert leaked[0].candidate == summary("kv_leak").leaks.retained_bytes
    assert leaked[0].path is not None and any("update" in frame for frame in leaked[0].path)
    assert {measures[name].verdict for name in ("latency_p50", "throughput")} == {"inconclusive"}


@pytest.mark.parametrize("name", ["clean", "kv_leak"])
def test_latency_and_throughput_are_those_of_the_log(summary: Summaries, name: str) -> None:
    measures = _measures(compare(summary(name), summary(name), Config().compare))
    log = _logged(name)
    latencies = [line["end_ns"] - line["arrival_ns"] for line in log]
    whole = [line for line in log if line["status"] == 200]
    seconds = (max(line["end_ns"] for line in log) - min(line["arrival_ns"] for line in log)) / 1e9
    assert measures["latency_p50"].baseline == pytest.approx(np.quantile(latencies, 0.5))
    assert measures["latency_p95"].baseline == pytest.approx(np.quantile(latencies, 0.95))
    assert measures["throughput"].baseline == pytest.approx(len(whole) / seconds)
    assert measures["token_throughput"].baseline == pytest.approx(sum(line["output_tokens"] for line in log) / seconds)


def test_the_fix_of_a_leak(summary: Summaries) -> None:
    """kv_leak → clean: the growth improves; clean keeps four sessions, and its peak is higher for it."""
    found = compare(summary("kv_leak"), summary("clean"), Config().compare)
    measures = _measures(found)
    assert measures["leak_growth"].verdict == "improved"
    assert measures["peak_bytes"].verdict == "regressed"
    assert (found.gate, found.exit_code) == ("regressed", 1)


@pytest.mark.parametrize(("name", "code"), [("clean", 0), ("kv_leak", 1)])
def test_a_capture_against_itself_and_its_own_summary(summary: Summaries, tmp_path: Path, name: str, code: int) -> None:
    file = tmp_path / "baseline.json"
    file.write_bytes(encode(summary(name)))
    assert file.stat().st_size < 100_000
    found = compare(summary(name), summary(name), Config().compare)
    assert {row.verdict for row in found.rows} <= {"unchanged", None}
    assert found.exit_code == code
    again = compare(load_side(file, Config()), summary(name), Config().compare)
    assert again == found


def test_another_number_of_requests_and_other_settings(summary: Summaries) -> None:
    """expandable has 10 requests, kv_leak 18: totals abstain with the reason; the settings' difference is told."""
    found = compare(summary("kv_leak"), summary("expandable"), Config().compare)
    settings = {row.quantity: (row.baseline_text, row.candidate_text) for row in found.settings}
    assert settings["expandable_segments"] == ("False", "True")
    assert not found.checks.is_comparable
    measures = _measures(found)
    assert measures["peak_bytes"].verdict == "inconclusive"
    assert "requests: 18 against 10" in (measures["peak_bytes"].reason or "")
    assert {row.verdict for row in found.paths} <= {"inconclusive", None}
    assert (found.gate, found.exit_code) == ("leak", 1)
