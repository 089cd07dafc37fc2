"""Objectives over windows: brute force on random requests, the rule of too few, periods, targets, the Pareto front."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.config import Config, SloSettings
from tests.serving.support import SECOND, START, bucket, request, sample, serve


def _period(name: str, start_s: float, end_s: float, kind: str = "degrade") -> dict[str, Any]:
    times = {"start_ns": START + round(start_s * SECOND), "end_ns": START + round(end_s * SECOND)}
    return {"fact": "period", "name": name, "text_value": kind} | times


def test_sliding_windows_by_brute_force(tmp_path: Path) -> None:
    chance = random.Random(11)
    slo = SloSettings(window_seconds=50, window_requests=100, min_requests=20)
    rows = []
    for number in range(450):
        status = chance.choices(("200", "500", "499"), (96, 2, 2))[0]
        more = {"prompt_tokens": chance.choice((32, 900)), "output_tokens": 20, "status": status}
        begin = START + round(chance.uniform(0, 333) * SECOND)
        rows.append(request(number, 0, chance.expovariate(1.5), **more))
        length = rows[-1]["end_ns"] - rows[-1]["arrival_ns"]
        rows[-1] |= {"arrival_ns": begin, "start_ns": begin, "end_ns": begin + length}
        rows[-1]["first_token_ns"] = begin + length // 3
    database = serve(tmp_path, Config(slo=slo), requests=rows)
    found: dict[tuple[str, int, str], tuple[Any, ...]] = {}
    for kind, start, end, objective, count, bad, value, verdict in database.rows(
        "SELECT window_kind, start_ns, end_ns, objective, request_count, bad_count, value, slo_verdict FROM slo"
    ):
        found[(kind, start, objective)] = (end, count, bad, value, verdict)
    rows.sort(key=lambda row: (row["arrival_ns"], row["request_id"]))
    first, last = rows[0]["arrival_ns"], rows[-1]["arrival_ns"]
    windows = [("time", first + k * 10 * SECOND, first + (k * 10 + 50) * SECOND) for k in range(30)]
    windows = [window for window in windows if window[1] + 40 * SECOND <= last]
    windows += [
        ("count", rows[k]["arrival_ns"], rows[k + 100]["arrival_ns"] if k + 100 < len(rows) else last + 1)
        for k in range(0, 361, 20)  # the last one is the first that reaches the end
    ]
    seen = set()
    for kind, start, end in windows:
        inside = [row for row in rows if start <= row["arrival_ns"] < end]
        short = [row for row in inside if row["prompt_tokens"] == 32]
        times = {row["request_id"]: (row["end_ns"] - row["arrival_ns"]) / 1e9 for row in inside}
        failed = sum(row["status"] == "500" for row in inside)
        cut = sum(row["status"] == "499" for row in inside)
        wanted = {
            "latency_p99": (len(inside), np.quantile(list(times.values()), 0.99), 1.8, 100),
            "short_latency_p95": (len(short), np.quantile([times[r["request_id"]] for r in short], 0.95), 0.2, 20),
            "first_token_p95": (len(inside), np.quantile(list(times.values()), 0.95) / 3, 0.45, 20),
            "error_ratio": (len(inside), failed / len(inside), 0.0002, 20),
            "truncation_ratio": (len(inside), cut / len(inside), 0.00005, 20),
        }
        for objective, (count, value, target, needed) in wanted.items():
            end_found, count_found, _, value_found, verdict = found[kind, start, objective]
            assert (end_found, count_found) == (end, count)
            assert value_found == pytest.approx(value, abs=1e-6)
            if count >= needed:
                assert verdict == ("met" if value <= target else "missed")
            seen.add((kind, verdict))
    assert len({key[:2] for key in found}) == len(windows)
    assert {("time", "met"), ("time", "missed"), ("time", "abstained"), ("count", "missed"), ("count", "met")} <= seen


@pytest.mark.parametrize(
    ("slow", "count", "verdict", "reason"),
    [
        (0, 99, "abstained", "99 requests in the window, 100 are needed"),
        (0, 100, "met", None),
        (1, 99, "abstained", "99 requests in the window, 100 are needed"),
        (2, 99, "missed", None),  # more than the one that 100 requests may have
        (2, 100, "missed", None),
    ],
)
def test_too_few_requests_can_still_miss(
    slow: int, count: int, verdict: str, reason: str | None, tmp_path: Path
) -> None:
    rows = [request(number, number, 9 if number < slow else 0.1) for number in range(count)]
    found = serve(tmp_path, requests=rows).rows(
        "SELECT slo_verdict, abstained_reason, bad_count FROM slo WHERE objective = 'latency_p99'"
    )
    assert found == [(verdict, reason, slow)]


def test_what_a_log_lacks_is_said(tmp_path: Path) -> None:
    rows = [{"source": "access_log", "end_ns": START + number} for number in range(50)]
    assert serve(tmp_path, requests=rows).rows(
        "SELECT objective, slo_verdict, abstained_reason FROM slo ORDER BY 1"
    ) == [
        ("error_ratio", "abstained", "no request has a status"),
        ("first_token_p95", "abstained", "no request has the time of its first token"),
        ("latency_p99", "abstained", "no request has a start and an end"),
        ("short_latency_p95", "abstained", "no request is known to be short"),
        ("truncation_ratio", "abstained", "no request has a status"),
    ]
    assert serve(tmp_path / "none").rows("SELECT * FROM slo") == []


def test_periods_before_during_and_after(tmp_path: Path) -> None:
    rows = [request(number, number, 5.0 if 300 <= number < 450 else 0.1, status="200") for number in range(900)]
    rows += [request(f"own{number}", number, 1.0, source="other", clock_aligned=False) for number in range(900)]
    notes = [_period("node lost", 300, 450, "fault_injection"), _period("night", 90_000, 90_100)]
    found = serve(tmp_path, requests=rows, capture_notes=notes).rows(
        "SELECT source, period, window_kind, request_count, value, slo_verdict FROM slo"
        " WHERE period IS NOT NULL AND objective = 'latency_p99' ORDER BY period, start_ns"
    )
    assert found == [
        ("request_log", "night", "before", 0, None, "abstained"),
        ("request_log", "night", "during", 0, None, "abstained"),
        ("request_log", "night", "after", 0, None, "abstained"),
        ("request_log", "node lost", "before", 300, 0.1, "met"),
        ("request_log", "node lost", "during", 150, 5.0, "missed"),
        ("request_log", "node lost", "after", 300, 0.1, "met"),
    ]


def test_targets_of_the_capture_go_first(tmp_path: Path) -> None:
    rows = [request(number, number / 100, 2.5) for number in range(200)]
    notes = [{"fact": "slo", "name": "latency_p99_seconds", "value": 3.0}]
    verdicts = "SELECT target, slo_verdict FROM slo WHERE objective = 'latency_p99'"
    assert serve(tmp_path / "a", requests=rows).rows(verdicts) == [(1.8, "missed")]
    assert serve(tmp_path / "b", requests=rows, capture_notes=notes).rows(verdicts) == [(3.0, "met")]


def test_a_servers_counters_and_histograms(tmp_path: Path) -> None:
    metric, rows = "vllm:e2e_request_latency_seconds", []
    for scrape in range(4):
        rows += [bucket(metric, scrape * 60, le, 200.0 * scrape) for le in ("1", "2", "+Inf")]
        for reason, count in (("stop", 190.0), ("abort", 10.0)):
            rows.append(sample("vllm:request_success_total", scrape * 60, count * scrape, finished_reason=reason))
        rows.append(sample("tgi_request_success", scrape * 60, 50.0 * scrape))
        rows.append(sample("tgi_request_failure", scrape * 60, 50.0 * scrape, err="overloaded"))
        rows.append(sample("sglang:num_requests_total", scrape * 60, 50.0 * scrape))
    found = serve(tmp_path, metrics=rows).rows(
        "SELECT metric, objective, request_count, value, slo_verdict FROM slo ORDER BY 1, 2"
    )
    assert found == [
        ("tgi_request", "error_ratio", 300, 0.5, "missed"),
        ("tgi_request", "truncation_ratio", 300, 0.0, "met"),
        (metric, "latency_p99", 600, pytest.approx(0.99), "met"),
        ("vllm:request", "error_ratio", 600, 0.0, "met"),
        ("vllm:request", "truncation_ratio", 600, 0.05, "missed"),
    ]


def test_one_scrape_without_a_time_tells_all_since_the_start(tmp_path: Path) -> None:
    rows = [
        bucket("vllm:e2e_request_latency_seconds", 0, le, n) for le, n in (("1", 150.0), ("2", 200.0), ("+Inf", 200.0))
    ]
    rows.append(sample("vllm:request_success_total", 0, 200.0, finished_reason="abort"))
    database = serve(tmp_path, metrics=[row | {"ts_ns": None} for row in rows])
    assert database.rows("SELECT start_ns, end_ns, p50_ns FROM request_latency WHERE model IS NULL") == [
        (None, None, 666_666_667)
    ]
    assert database.rows("SELECT window_kind, start_ns, objective, value, slo_verdict FROM slo ORDER BY objective") == [
        ("server", None, "error_ratio", 0.0, "met"),
        ("server", None, "latency_p99", pytest.approx(1.96), "missed"),
        ("server", None, "truncation_ratio", 1.0, "missed"),
    ]


def test_the_pareto_front(tmp_path: Path) -> None:
    def run(start: float, count: int, latency: float) -> list[dict[str, Any]]:
        return [request(f"{start}-{n}", start + n * 100 / count, latency, status="200") for n in range(count)]

    rows = [*run(0, 50, 0.2), *run(200, 90, 0.9), *run(400, 40, 0.9), *run(600, 5, 0.1), *run(800, 50, 9.0)]
    names = ("small batch", "large batch", "neither", "too few", "too slow", "unused")
    notes = [_period(name, 200 * n, 200 * n + 150, "configuration") for n, name in enumerate(names)]
    found = serve(tmp_path, requests=rows, capture_notes=notes).rows(
        "SELECT configuration, latency_score, throughput_score, is_on_front, abstained_reason FROM pareto"
        " ORDER BY start_ns"
    )
    spans = {
        "small batch": 50 / 98.2,
        "large batch": 90 / (89 * 100 / 90 + 0.9),
        "neither": 40 / 98.4,
        "too slow": 50 / 107,
    }
    assert [(name, front) for name, _, _, front, _ in found] == list(
        zip(names, (True, True, False, None, False, None), strict=True)
    )
    for name, latency, throughput, _, reason in found:
        if name in spans:
            assert throughput == pytest.approx(spans[name], rel=1e-6)
            assert latency == pytest.approx({"small batch": 8 / 9, "too slow": 0.0}.get(name, 0.5))
        else:
            assert reason == ("no request has a start and an end" if name == "unused" else "5 requests, 10 are needed")
            assert latency is None
