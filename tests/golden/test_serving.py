"""Requests and tokens of the recorded captures against numpy and prometheus_client on the files themselves."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ingest.capture import capture_files
from pipeline.steps import analyze, ingest
from schemas.config import Config
from tests.generate.judging import Verdicts, rows
from tests.golden.captures import ROOT
from tests.serving.support import histogram_quantile

Judged = Callable[[str], Verdicts]
CAPTURES = ["kv_leak", "clean", pytest.param("soak", marks=pytest.mark.slow)]
KV_BYTES = 2 * 6 * 8 * 64 * 2  # keys and values, layers, heads, head size, BF16 (workload/workload.py)


def _text(name: str, file: str) -> str:
    [path] = (ROOT / name).glob(f"{file}*")
    return (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()


@pytest.mark.parametrize("name", CAPTURES)
def test_percentiles_are_numpys(judged: Judged, name: str) -> None:
    log = [json.loads(line) for line in _text(name, "requests.jsonl").splitlines()] if (ROOT / name).is_dir() else []
    found = {
        row["measure"]: row
        for row in rows(
            judged(name).out,
            "SELECT * FROM {request_latency} WHERE source = 'request_log' AND model IS NULL AND status IS NULL",
        )
    }
    ends = {"latency": "end_ns", "first_token": "first_token_ns", "queue": "start_ns"}
    assert set(found) == set(ends)
    for measure, end in ends.items():
        times = [row[end] - row["arrival_ns"] for row in log if row.get(end)]
        shares = [found[measure][f"{share}_ns"] for share in ("p50", "p95", "p99")]
        assert shares == pytest.approx(np.quantile(times, [0.5, 0.95, 0.99]), abs=1)
        assert (found[measure]["max_ns"], found[measure]["measured_count"]) == (max(times), len(times))
    cut = np.mean([row["status"] in (499, 504) for row in log])
    assert found["latency"]["truncation_ratio"] == pytest.approx(cut)


@pytest.mark.parametrize("name", CAPTURES)
def test_a_token_takes_what_its_keys_and_values_take(judged: Judged, name: str) -> None:
    device, rss = rows(judged(name).out, "SELECT * FROM {token_memory} ORDER BY memory_side")
    last: dict[str, tuple[int, int, int]] = {}
    grown, steps, waits = [], [], []
    for row in csv.DictReader(_text(name, "tokens.csv").splitlines()):
        now = (int(row["cuda_allocated_bytes"]), int(row["rss_bytes"]), int(row["timestamp_ns"]))
        if (before := last.get(row["request_id"])) is not None:
            grown.append(now[0] - before[0])
            steps.append(now[1] - before[1])
            waits.append(now[2] - before[2])
        last[row["request_id"]] = now
    assert set(grown) == {KV_BYTES}
    assert (device["token_count"], device["request_count"]) == (len(grown), len(last))
    assert (device["bytes_per_token_mean"], device["bytes_per_token_deviation"]) == (KV_BYTES, 0)
    assert rss["bytes_per_token_mean"] == pytest.approx(np.mean(steps))
    assert rss["bytes_per_token_deviation"] == pytest.approx(np.std(steps, ddof=1))
    assert rss["bytes_per_token_p95"] == pytest.approx(np.quantile(steps, 0.95))
    assert [device["interval_p50_ns"], device["interval_p99_ns"]] == pytest.approx(
        np.quantile(waits, [0.5, 0.99]), abs=1
    )
    assert (device["interval_trend"], device["expected_bytes_per_token"]) == ("level", None)
    assert "capture.yaml" in device["abstained_reason"]


def _buckets(text: str) -> dict[str, dict[float, float]]:
    """Cumulative buckets of one scrape, by histogram."""
    found: dict[str, dict[float, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name.endswith("_bucket"):
                found[family.name][float(one.labels["le"])] = one.value
    return found


@pytest.mark.parametrize("name", CAPTURES)
def test_histograms_are_interpolated_as_prometheus_does(judged: Judged, name: str) -> None:
    found = rows(judged(name).out, "SELECT * FROM {request_latency} WHERE source = 'prometheus' AND model IS NULL")
    scrapes = [part.partition("\n")[2] for part in _text(name, "metrics.prom").split("# scrape ")[1:]]
    first, last = _buckets(scrapes[0]), _buckets(scrapes[-1])
    assert {row["metric"] for row in found} == set(last)
    assert len(found) == 2 * len(last)
    for row in found:
        base = defaultdict(float) if row["start_ns"] is None else first[row["metric"]]
        buckets = [(le, count - base[le]) for le, count in sorted(last[row["metric"]].items())]
        wanted = [histogram_quantile(share, buckets) * 1e9 for share in (0.5, 0.95, 0.99)]
        assert [row["p50_ns"], row["p95_ns"], row["p99_ns"]] == pytest.approx(wanted, abs=1)


@pytest.mark.parametrize(
    "path", sorted((ROOT.parent / "corpus" / "prom_vllm").rglob("*.prom")), ids=lambda path: path.stem[:8]
)
def test_one_scrape_of_vllm(path: Path, tmp_path: Path) -> None:
    ingest([path], path, tmp_path / "out")
    analyze(tmp_path / "out", Config())
    found = rows(tmp_path / "out", "SELECT * FROM {request_latency} WHERE model IS NULL")
    buckets = _buckets(path.read_text())
    assert {row["measure"] for row in found} == {"latency", "first_token", "queue", "token_interval"}
    for row in found:
        known = sorted(buckets[row["metric"]].items())
        wanted = [histogram_quantile(share, known) * 1e9 for share in (0.5, 0.95, 0.99)]
        assert row["request_count"] == known[-1][1] > 0
        assert [row["p50_ns"], row["p95_ns"], row["p99_ns"]] == pytest.approx(wanted, abs=1)


def test_no_symptom_is_seen_where_none_was_planted(judged: Judged) -> None:
    for name in ("clean", "kv_leak"):
        found = rows(judged(name).out, "SELECT finding_kind, severity FROM {findings}")
        assert not [row for row in found if row["finding_kind"] == "symptom"]
        assert all(row["severity"] == "info" for row in found if row["finding_kind"] == "slo")


def test_facts_and_targets_of_capture_yaml(tmp_path: Path) -> None:
    source = ROOT / "kv_leak"
    if not source.is_dir():
        pytest.skip("the recorded capture kv_leak is not beside the checkout")
    capture = tmp_path / "kv_leak"
    capture.mkdir()
    for name in ("requests.jsonl", "tokens.csv", "metrics.prom"):
        (capture / name).symlink_to(source / name)
    (capture / "capture.yaml").write_text(
        "model: tiny-llama\nconfiguration: plain\nslo: {latency_p99_seconds: 20}\n"
        "models: {tiny-llama: {num_layers: 6, num_kv_heads: 8, head_dim: 64, dtype_bytes: 2}}\n"
        "periods:\n- {name: middle, start: 1796036322, end: 2026-11-30T11:18:50Z}\n"
    )
    ingest(capture_files(capture), capture, tmp_path / "out")
    analyze(tmp_path / "out", Config())
    out = tmp_path / "out"
    [device] = rows(out, "SELECT * FROM {token_memory} WHERE memory_side = 'device'")
    assert (device["model"], device["expected_bytes_per_token"]) == ("tiny-llama", KV_BYTES)
    assert (device["actual_to_expected_ratio"], device["abstained_reason"]) == (1.0, None)
    [front] = rows(out, "SELECT * FROM {pareto}")
    log = [json.loads(line) for line in _text("kv_leak", "requests.jsonl").splitlines()]
    p99 = np.quantile([row["end_ns"] - row["arrival_ns"] for row in log], 0.99)
    good = [row for row in log if row["status"] == 200]
    span = (max(row["end_ns"] for row in log) - min(row["arrival_ns"] for row in log)) / 1e9
    wanted: dict[str, Any] = {
        "configuration": "plain",
        "latency_score": pytest.approx((20e9 - p99) / 20e9),
        "throughput_score": pytest.approx(len(good) / span),
        "is_on_front": True,
    }
    assert {key: front[key] for key in wanted} == wanted
    windows = rows(out, "SELECT DISTINCT window_kind, start_ns, end_ns FROM {slo} WHERE period = 'middle'")
    assert {row["window_kind"] for row in windows} == {"before", "during", "after"}
    during = {(row["start_ns"], row["end_ns"]) for row in windows if row["window_kind"] == "during"}
    assert during == {(1_796_036_322 * 10**9, 1_796_037_530 * 10**9)}
