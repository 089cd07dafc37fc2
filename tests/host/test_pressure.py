"""Memory pressure of cgroups beside latency: events between samples, requests that ran meanwhile, and abstentions."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.host_pressure import pressure_findings
from tests.host.rows import SECOND, SETTINGS, Row, cgroup, pressure, request, sample


def _windows(database: Any, columns: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = database.rows(f"SELECT {columns} FROM host_pressure_made ORDER BY cgroup, start_ns")
    return found


def test_events_and_stalls_between_samples(tmp_path: Path) -> None:
    metrics = [
        *cgroup(0, max_hits=5, stalled=10.0, held=400),  # from before the recording
        *cgroup(1, max_hits=5, stalled=10.25, held=900),
        *cgroup(2, max_hits=17, stalled=10.25, held=1000),
        *cgroup(3, max_hits=17, stalled=10.26, held=500),
    ]
    database, [effect] = pressure(tmp_path, metrics)
    columns = "start_ns, max_event_count, round(some_stalled_ratio, 6), memory_bytes, limit_bytes, is_pressed"
    assert _windows(database, columns) == [
        (0 * SECOND, 0, 0.25, 900, 1000, True),
        (1 * SECOND, 12, 0.0, 1000, 1000, True),
        (2 * SECOND, 0, 0.01, 500, 1000, False),
    ]
    assert (effect["max_event_count"], effect["kill_count"]) == (12, 0)
    assert (effect["pressed_window_count"], effect["calm_window_count"]) == (2, 1)
    assert effect["highest_stalled_ratio"] == pytest.approx(0.25)


def test_what_is_not_counted_is_null_not_zero(tmp_path: Path) -> None:
    metrics = [sample(s * SECOND, "cgroup_memory_current_bytes", 10, cgroup="/a") for s in range(3)]
    database, [effect] = pressure(tmp_path, metrics)
    columns = "limit_bytes, high_event_count, max_event_count, some_stalled_ratio, full_stalled_ratio, is_pressed"
    assert _windows(database, columns) == [(None, None, None, None, None, False)] * 2
    assert effect["max_event_count"] is None
    assert effect["highest_stalled_ratio"] is None
    assert pressure_findings([effect], SETTINGS) == []


def test_a_counter_that_falls_has_restarted(tmp_path: Path) -> None:
    metrics = [*cgroup(0, max_hits=50), *cgroup(1, max_hits=2), *cgroup(2, max_hits=3)]
    database, [effect] = pressure(tmp_path, metrics)
    assert _windows(database, "max_event_count") == [(None,), (1,)]
    assert effect["max_event_count"] == 1


def test_one_sample_tells_nothing(tmp_path: Path) -> None:
    database, effects = pressure(tmp_path, cgroup(0, max_hits=9))
    assert effects == []
    assert _windows(database, "*") == []


def test_windows_are_bounded_and_lose_no_event(tmp_path: Path) -> None:
    rng = random.Random(1)
    hits, metrics = 0, []
    for second in range(500):
        hits += rng.choice((0, 0, 0, 3))
        metrics += cgroup(second, max_hits=hits)
    database, [effect] = pressure(tmp_path, metrics, settings=replace(SETTINGS, pressure_windows=37))
    ends = _windows(database, "start_ns, end_ns, max_event_count")
    assert len(ends) == 37
    assert [end for _, end, _ in ends[:-1]] == [start for start, _, _ in ends[1:]], "one after the other"
    assert (ends[0][0], ends[-1][1]) == (0, 499 * SECOND)
    assert sum(count for *_, count in ends) == effect["max_event_count"] == hits


def test_the_host_itself_is_what_is_not_available(tmp_path: Path) -> None:
    metrics = []
    for second, free, killed in ((0, 900, 3), (1, 100, 4)):
        ts = second * SECOND
        metrics += [sample(ts, "host_mem_total_bytes", 1000), sample(ts, "host_mem_available_bytes", free)]
        metrics.append(sample(ts, "host_vmstat_oom_kill", killed))
    database, [effect] = pressure(tmp_path, metrics)
    assert _windows(database, "cgroup, memory_bytes, limit_bytes, kill_count, is_pressed") == [("", 900, 1000, 1, True)]
    [found] = pressure_findings([effect], SETTINGS)
    assert found["title"].startswith("The host had 1 process killed for lack of memory")
    assert found["severity"] == "warning"


def _busy(slow: float, hits: int = 12) -> tuple[list[Row], list[Row]]:
    """Twenty seconds of which 8 to 12 hit the limit; four requests a second, slower meanwhile."""
    metrics, requests = [], []
    for second in range(21):
        seen = min(max(second - 8, 0), 4) * hits // 4
        metrics += cgroup(second, max_hits=seen)
    for number in range(76):
        start = 0.1 + number * 0.25
        took = 0.1 + 0.001 * (number % 7)
        requests.append(request(number, start, took * (slow if 8 <= start < 12 else 1.0)))
    return metrics, requests


def test_latency_rose_while_the_limit_was_hit(tmp_path: Path) -> None:
    metrics, requests = _busy(slow=3.0)
    database, [effect] = pressure(tmp_path, metrics, requests)
    # independent: which requests touch seconds 8 to 12, and numpy's own percentile
    touched = [r["latency_ns"] for r in requests if r["start_ns"] < 12 * SECOND and r["end_ns"] > 8 * SECOND]
    others = [r["latency_ns"] for r in requests if not (r["start_ns"] < 12 * SECOND and r["end_ns"] > 8 * SECOND)]
    assert (effect["pressed_request_count"], effect["calm_request_count"]) == (len(touched), len(others))
    assert effect["pressed_p95_ns"] == round(float(np.percentile(touched, 95)))
    assert effect["calm_p95_ns"] == round(float(np.percentile(others, 95)))
    assert effect["pressure_p_value"] < 1e-6
    [found] = pressure_findings([effect], SETTINGS)
    assert found["title"] == (
        "The cgroup /pod hit memory.max 12 times while P95 latency rose from 106 ms to 318 ms (16 and 60 requests)"
    )
    assert (found["severity"], found["abstained_reason"]) == ("warning", None)
    shown = database.rows("SELECT start_ns, request_count, p95_ns FROM host_pressure_made WHERE is_pressed ORDER BY 1")
    for start, count, p95 in shown:
        ended = [r["latency_ns"] for r in requests if start < r["end_ns"] <= start + SECOND]
        assert (count, p95) == (len(ended), round(float(np.percentile(ended, 95))))


def test_pressure_that_slows_nobody_says_so(tmp_path: Path) -> None:
    metrics, requests = _busy(slow=1.0)
    _, [effect] = pressure(tmp_path, metrics, requests)
    [found] = pressure_findings([effect], SETTINGS)
    assert "requests were not slower meanwhile: P95 106 ms against 106 ms" in found["title"]
    assert found["severity"] == "info"


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (slice(0, 0), "no requests were recorded meanwhile"),
        (slice(0, 30), "0 requests ran under pressure and 30 did not, 8 of each are needed"),
        (slice(30, 48), "16 requests ran under pressure and 2 did not"),
    ],
    ids=["none", "calm alone", "pressed alone"],
)
def test_one_side_alone_abstains(kept: slice, words: str, tmp_path: Path) -> None:
    metrics, requests = _busy(slow=3.0)
    _, [effect] = pressure(tmp_path, metrics, requests[kept])
    assert words in effect["abstained_reason"]
    assert "pressure_p_value" not in effect
    [found] = pressure_findings([effect], SETTINGS)
    assert "12 times; what requests saw of it is not known" in found["title"]
    assert words in found["abstained_reason"]


def test_requests_alone_are_no_finding(tmp_path: Path) -> None:
    _, effects = pressure(tmp_path, [], _busy(slow=3.0)[1])
    assert effects == []


def test_samples_on_another_clock_are_never_laid_beside_requests(tmp_path: Path) -> None:
    metrics, requests = _busy(slow=3.0)
    database, [effect] = pressure(tmp_path, [dict(row) | {"clock_aligned": False} for row in metrics], requests)
    assert effect["abstained_reason"] == "the samples could not be put on the capture's clock"
    assert (effect["pressed_window_count"], effect["max_event_count"]) == (4, 12)
    assert set(_windows(database, "request_count, p95_ns")) == {(None, None)}


def test_evidence_names_the_rows_even_of_a_hostile_cgroup(tmp_path: Path) -> None:
    name = "/it's; DROP TABLE"
    database, [effect] = pressure(tmp_path, [*cgroup(0, name=name), *cgroup(1, max_hits=1, name=name)])
    [found] = pressure_findings([effect], SETTINGS)
    part = json.loads(found["evidence"])[1]
    assert part["table"] == "host_pressure"
    assert database.rows(f"SELECT max_event_count FROM host_pressure_made WHERE {part['where']}") == [(1,)]
