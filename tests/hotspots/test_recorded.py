"""Recorded files against answers that others give: nsys stats, a trace's own JSON, stackcollapse-perf."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.steps import analyze, ingest
from schemas.config import config_from
from tests.generate.judging import rows
from tests.ingest.support import SHARED

CORPUS = SHARED / "corpus"
GOLDEN = CORPUS / "golden" / "nsys_stats"
FLAMEGRAPH = "brendangregg+FlameGraph/test"
TRACES = (
    "AMD-AGI+TraceLens/tests/traces/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "AMD-AGI+TraceLens/tests/traces/inference/sglang_decode/sglang_Qwen3-8B_decode.json.gz",
    "pytorch+kineto/tb_plugin/samples/resnet50_num_workers_4/worker0.pt.trace.json@29dba67d.gz",
)
EXPORTS = (
    "SamuelAmsih+CUDA/report2.sqlite",
    "GindaChen+nsys-ai/tests/fixtures/h100_2gpu_1s@3dc0af94.sqlite",
    "hpcgroup+pipit/pipit/tests/data/cloverleaf-nsys/perlmutter-cloverleaf-cuda.sqlite",
)
MANY = config_from({"hotspots": {"rows": 1_000_000}})


def analyzed(path: Path, out: Path) -> Path:
    """The capture of one file, with a row for every path, function and kernel."""
    if not path.exists():
        pytest.skip("the corpus is not beside the checkout")
    ingest([path], path.parent, out)
    analyze(out, MANY)
    return out


def by_kernel(out: Path, op: str) -> dict[str, tuple[int, int]]:
    """Launches and nanoseconds by name, all devices together."""
    found = rows(
        out,
        "SELECT name, sum(call_count)::BIGINT AS n, sum(self_amount)::BIGINT AS ns FROM {hotspots}"
        f" WHERE hotspot_kind = 'gpu_kernel' AND hotspot_event = '{op}' GROUP BY name",
    )
    return {row["name"]: (row["n"], row["ns"]) for row in found}


def check_shares(out: Path) -> None:
    """Shares of every group sum to 1, none is above it, and all ways to cut the device's time sum to the same."""
    groups = rows(
        out,
        "SELECT hotspot_kind, process_id, device_index, sum(self_ratio) AS whole, max(self_ratio) AS most,"
        " max(total_ratio) AS deepest, sum(self_amount)::BIGINT AS ns FROM {hotspots} WHERE abstained_reason IS NULL"
        " GROUP BY hotspot_kind, process_id, device_index, CASE WHEN hotspot_kind LIKE 'cpu%' THEN hotspot_event END",
    )
    sums: dict[tuple[Any, Any], set[int]] = {}
    for group in groups:
        assert group["whole"] == pytest.approx(1), group
        assert group["most"] <= 1 + 1e-12
        assert group["deepest"] is None or group["deepest"] <= 1 + 1e-12
        if group["hotspot_kind"] in ("gpu_path", "gpu_function", "gpu_kernel", "gpu_share", "gpu_range"):
            sums.setdefault((group["process_id"], group["device_index"]), set()).add(group["ns"])
    assert all(len(found) == 1 for found in sums.values()), sums
    if not sums:
        return
    wall = rows(
        out,
        "SELECT process_id, device_index, count(DISTINCT coalesce(stream_id, -1)) * (max(end_ns) - min(start_ns)) AS ns"
        " FROM {gpu_ops} WHERE op IN ('kernel', 'memcpy', 'memset', 'graph') GROUP BY process_id, device_index",
    )
    for row in wall:  # operations of one stream follow each other
        assert max(sums[row["process_id"], row["device_index"]]) <= row["ns"], row


@pytest.mark.parametrize("name", EXPORTS, ids=lambda name: Path(name).name)
def test_kernels_are_those_of_nsys_stats(name: str, tmp_path: Path) -> None:
    out = analyzed(CORPUS / "nsys_sqlite" / name, tmp_path / "out")
    with (GOLDEN / name / "cuda_gpu_kern_sum.csv").open(encoding="utf-8", newline="") as stream:
        lines = [line for line in csv.reader(stream) if line]
    first = 0 if lines[0][0].startswith("Total") else 1
    said: Counter[str] = Counter()
    for line in lines[1:]:
        said[line[-1]] += int(line[first])
    ours = by_kernel(out, "kernel")
    assert {name: ns for name, (_, ns) in ours.items()} == dict(said)
    assert said
    check_shares(out)


@pytest.mark.parametrize("name", TRACES, ids=lambda name: Path(name).name[:30])
def test_kernels_are_those_of_the_traces_own_json(name: str, tmp_path: Path) -> None:
    out = analyzed(CORPUS / "kineto" / name, tmp_path / "out")
    events = json.loads(gzip.decompress((CORPUS / "kineto" / name).read_bytes()), strict=False)["traceEvents"]
    launches: Counter[str] = Counter()
    durations: Counter[str] = Counter()
    for event in events:
        if str(event.get("cat", "")).lower() == "kernel" and "dur" in event:
            launches[event["name"][:1000]] += 1
            durations[event["name"][:1000]] += round(event["dur"] * 1000)
    ours = by_kernel(out, "kernel")
    found: Counter[str] = Counter()
    for kernel, (_, ns) in ours.items():
        found[kernel[:1000]] += ns
    assert sum(n for n, _ in ours.values()) == launches.total() > 50
    assert set(found) == set(durations)
    for kernel, ns in found.items():  # times are of a microsecond's thousandth at best: a nanosecond a launch
        assert abs(ns - durations[kernel]) <= launches[kernel], kernel
    check_shares(out)


@pytest.mark.parametrize("name", ["perf-java-stacks-01", "perf-iperf-stacks-pidtid-01", "perf-java-faults-01"])
def test_samples_are_those_of_stackcollapse(name: str, tmp_path: Path) -> None:
    """Its tool shows one event, and tracepoints by their number; frames differ in their marks, totals do not."""
    out = analyzed(CORPUS / "perf_script" / FLAMEGRAPH / f"{name}.txt", tmp_path / "out")
    [answer] = sorted((CORPUS / "collapsed" / FLAMEGRAPH / "results").glob(f"{name}-collapsed-pid.txt"))
    said = [line.rsplit(" ", 1) for line in answer.read_text().splitlines()]
    found = rows(
        out,
        "SELECT hotspot_event, sum(self_amount)::BIGINT AS n FROM {hotspots} WHERE hotspot_kind = 'cpu_path'"
        " GROUP BY ALL",
    )
    assert [row["n"] for row in found] == [sum(int(count) for _, count in said)]
    leaves: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for stack, count in said:
        frames = stack.split(";")[1:]
        if frames:
            leaves[frames[-1]] += int(count)
        for frame in set(frames):
            totals[frame] += int(count)
    ours = rows(
        out,
        "SELECT name, self_amount, total_amount FROM {hotspots} WHERE hotspot_kind = 'cpu_function' AND NOT is_other",
    )
    alike = [row for row in ours if re.fullmatch(r"\w+", row["name"]) and row["name"] in totals]
    assert len(alike) > 10
    names = Counter(row["name"] for row in ours)
    for row in alike:
        if names[row["name"]] == 1:
            assert (row["self_amount"], row["total_amount"]) == (leaves[row["name"]], totals[row["name"]]), row["name"]
    check_shares(out)


def test_rotary_embedding_of_a_recorded_model(tmp_path: Path) -> None:
    """Plain kernels that a rotary embedding launches, counted in the trace by its own Python frames."""
    path = SHARED / "captures" / "kv_leak_kineto" / "kineto.json.gz"
    out = analyzed(path, tmp_path / "out")
    check_shares(out)
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    kernels = {e["args"]["correlation"]: e for e in events if e.get("cat") == "kernel"}
    spans = sorted(
        (e["tid"], e["ts"], e["ts"] + e["dur"])
        for e in events
        if e.get("cat") == "python_function"
        and re.search(r"rotary|[^a-z]rope[^a-z]", e["name"].rpartition(": ")[2], re.I)
    )
    named = 0
    launches = sorted(
        (e["tid"], e["ts"], e["args"]["correlation"])
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and e["args"].get("correlation") in kernels
    )
    place, open_until = 0, (None, 0.0)
    for thread, start, correlation in launches:
        while place < len(spans) and spans[place][:2] <= (thread, start):
            tid, _, end = spans[place]
            open_until = (tid, max(end, open_until[1] if open_until[0] == tid else end))
            place += 1
        if open_until[0] == thread and start < open_until[1]:
            named += round(kernels[correlation]["dur"] * 1000)
    [found] = rows(out, "SELECT self_amount FROM {hotspots} WHERE hotspot_kind = 'gpu_share' AND name = 'rotary'")
    assert found["self_amount"] == pytest.approx(named, rel=1e-6)
    assert named > 5_000_000
