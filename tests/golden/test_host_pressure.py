"""A recorded cgroup at its limit beside the latency of its program, against the raw files read by plain Python."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.steps import analyze, ingest
from reports.build import build_report
from schemas.config import Config
from tests.generate.judging import rows

DATA = Path(__file__).resolve().parents[1] / "data" / "host_pressure"
CGROUP = "/memory/lk_press"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pressure") / "out"
    ingest(sorted(DATA.iterdir()), DATA, folder)
    analyze(folder, Config())
    return folder


def _lines(name: str) -> list[str]:
    return gzip.decompress((DATA / name).read_bytes()).decode().splitlines(keepends=True)


def _failures() -> list[tuple[int, int, int]]:
    """(start, end, times the limit was hit) between samples."""
    found: list[tuple[int, int]] = []
    name = ""
    ts = 0
    for line in _lines("host.txt.gz"):
        if line.startswith("# sample"):
            ts = int(line.split()[2])
        elif line.startswith("# file"):
            name = line.strip().rsplit("/", 1)[1]
        elif name == "memory.failcnt":
            found.append((ts, int(line)))
    return [(a, b, hits - before) for (a, before), (b, hits) in itertools.pairwise(found)]


def _latencies() -> tuple[list[int], list[int]]:
    """Latencies of requests that ran while the limit was hit, and of the others; ns."""
    windows = _failures()
    pressed = [(start, end) for start, end, hits in windows if hits]
    under, others = [], []
    for line in _lines("requests.jsonl.gz"):
        request = json.loads(line)
        start, end = request["start_ns"], request["end_ns"]
        if end > windows[0][0] and start < windows[-1][1]:
            is_under = any(first < end and last > start for first, last in pressed)
            (under if is_under else others).append(end - start)
    return under, others


def _effect(out: Path) -> dict[str, Any]:
    [found] = rows(out, f"SELECT * FROM {{pressure_effects}} WHERE cgroup = '{CGROUP}'")
    return found


def test_events_and_latency_are_those_of_the_raw_files(out: Path) -> None:
    windows = rows(out, f"SELECT * FROM {{host_pressure}} WHERE cgroup = '{CGROUP}' ORDER BY start_ns")
    assert [(w["start_ns"], w["end_ns"], w["max_event_count"]) for w in windows] == _failures()
    assert {w["limit_bytes"] for w in windows} == {220 * 2**20}
    under, others = _latencies()
    effect = _effect(out)
    assert effect["max_event_count"] == sum(hits for *_, hits in _failures()) == 332_349
    assert (effect["pressed_request_count"], effect["calm_request_count"]) == (len(under), len(others)) == (20, 627)
    assert effect["pressed_p95_ns"] == round(float(np.percentile(under, 95)))
    assert effect["calm_p95_ns"] == round(float(np.percentile(others, 95)))


def test_it_is_told_in_one_sentence(out: Path) -> None:
    titles = [row["title"] for row in rows(out, "SELECT title FROM {findings} WHERE finding_kind = 'host_pressure'")]
    assert (
        "The cgroup /memory/lk_press hit memory.max 332,349 times while P95 latency rose from 370 µs to 920 ms"
        " (20 and 627 requests)"
    ) in titles
    assert rows(out, "SELECT name FROM {diagnostics} WHERE stage = 'analyze'") == []


def test_the_report_draws_it(out: Path) -> None:
    page = build_report(out).html.read_text("utf-8")
    assert f"Memory pressure of cgroup {CGROUP}" in page
    # as many shaded windows as there were, of the host and of the cgroup
    [pressed] = rows(out, "SELECT count(*) AS n FROM {host_pressure} WHERE is_pressed")
    assert page.count('class="pressed"') == pressed["n"]
    assert "limit events" in page
