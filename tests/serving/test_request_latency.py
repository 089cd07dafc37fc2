"""Percentiles of requests against numpy, those of histograms against Prometheus' own rule."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tests.serving.support import START, bucket, histogram_quantile, request, sample, serve


def test_percentiles_by_model_and_status(tmp_path: Path) -> None:
    chance = random.Random(5)
    rows = [
        request(number, number, chance.expovariate(2), model=chance.choice("ab"), status=chance.choice(("200", "500")))
        for number in range(300)
    ]
    database = serve(tmp_path, requests=rows)
    found = {
        (model, status): values
        for model, status, *values in database.rows(
            "SELECT model, status, request_count, p50_ns, p95_ns, p99_ns, max_ns, error_ratio FROM request_latency"
            " WHERE measure = 'latency'"
        )
    }
    assert len(found) == 1 + 2 + 4
    for (model, status), (count, *shares, highest, errors) in found.items():
        chosen = [r for r in rows if model in (None, r["model"]) and status in (None, r["status"])]
        times = [r["end_ns"] - r["arrival_ns"] for r in chosen]
        assert count == len(chosen)
        assert shares == pytest.approx(np.quantile(times, [0.5, 0.95, 0.99]), abs=1)
        assert highest == max(times)
        assert errors == pytest.approx(np.mean([r["status"] == "500" for r in chosen]))


def test_what_is_not_logged_is_not_known(tmp_path: Path) -> None:
    database = serve(tmp_path, requests=[{"source": "access_log", "end_ns": START}, request(2, 1, 3.0)])
    rows = database.rows(
        "SELECT source, measure, request_count, measured_count, p50_ns, error_ratio, truncation_ratio"
        " FROM request_latency WHERE model IS NULL ORDER BY ALL"
    )
    assert rows == [
        ("access_log", "latency", 1, 0, None, None, None),
        ("request_log", "latency", 1, 1, 3_000_000_000, None, None),
        ("request_log", "queue", 1, 1, 0, None, None),
    ]


def test_cut_and_failed_answers(tmp_path: Path) -> None:
    said = ["200", "404", "499", "504", "503", "error", "Cancelled", None]
    rows = [request(number, number, 1, status=status) for number, status in enumerate(said)]
    rows.append(request(9, 9, 1, status="200", attributes='{"finish_reason":"abort"}'))
    database = serve(tmp_path, requests=rows)
    found = database.rows("SELECT request_id FROM served_requests WHERE is_error ORDER BY 1")
    assert [said[int(row[0])] for row in found] == ["504", "503", "error"]
    assert database.rows("SELECT request_id FROM served_requests WHERE is_truncated ORDER BY 1") == [
        ("2",), ("3",), ("6",), ("9",),
    ]  # fmt: skip
    assert database.rows("SELECT count(*) FROM served_requests WHERE is_error IS NULL") == [(1,)]


BOUNDS = ("0.1", "0.5", "1", "5", "+Inf")
NAMES = {
    "vllm:e2e_request_latency_seconds": "latency",
    "sglang:e2e_request_latency_seconds": "latency",
    "tgi_request_duration": "latency",
    "vllm:time_to_first_token_seconds": "first_token",
    "vllm:request_queue_time_seconds": "queue",
    "sglang:queue_time_seconds": "queue",
    "tgi_request_queue_duration": "queue",
    "vllm:inter_token_latency_seconds": "token_interval",
    "vllm:request_time_per_output_token_seconds": "token_interval",
    "tgi_request_mean_time_per_token_duration": "token_interval",
    "vllm:request_prefill_time_seconds": None,
    "tgi_request_validation_duration": None,
}


def test_names_of_servers(tmp_path: Path) -> None:
    rows = [bucket(metric, 0, le, 4, model_name="m") for metric in NAMES for le in BOUNDS[1:]]
    found = serve(tmp_path, metrics=rows).rows("SELECT DISTINCT metric, measure, start_ns FROM request_latency")
    assert sorted(found) == sorted((metric, measure, None) for metric, measure in NAMES.items() if measure)


def test_histograms_that_rise_and_restart(tmp_path: Path) -> None:
    chance = random.Random(3)
    metric, rows, since, known = "vllm:e2e_request_latency_seconds", [], [0] * 5, [0] * 5
    for scrape in range(12):
        if scrape == 6:  # the server restarts
            since = [0] * 5
        fresh = [chance.randint(0, 9) for _ in BOUNDS]
        since = [a + b for a, b in zip(since, fresh, strict=True)]
        if scrape:
            known = [a + b for a, b in zip(known, fresh, strict=True)]
        sums = np.cumsum(since)
        rows += [bucket(metric, scrape, le, float(n), model_name="m") for le, n in zip(BOUNDS, sums, strict=True)]
    database = serve(tmp_path, metrics=rows)
    found = database.rows(
        "SELECT start_ns IS NULL, request_count, p50_ns, p95_ns, p99_ns FROM request_latency WHERE model = 'm'"
        " ORDER BY 1"
    )
    for (_, count, *shares), counts in zip(found, (known, since), strict=True):
        buckets = list(zip((0.1, 0.5, 1.0, 5.0, float("inf")), map(float, np.cumsum(counts)), strict=True))
        assert count == sum(counts)
        wanted = [histogram_quantile(share, buckets) * 1e9 for share in (0.5, 0.95, 0.99)]
        assert shares == pytest.approx(wanted, abs=1)


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        ((0, 0, 0, 0, 0), None),  # nothing was served
        ((0, 0, 0, 0, 9), 5.0),  # beyond the last bound: no further than it
        ((4, 4, 4, 4, 4), 0.05),  # inside the first bucket: from 0
        ((1, 0, 9, 9, 10), 0.75),  # damaged: a bucket may not fall below the one before
    ],
)
def test_edges_of_histograms(counts: tuple[float, ...], wanted: float | None, tmp_path: Path) -> None:
    rows = [bucket("tgi_request_duration", 0, le, n) for le, n in zip(BOUNDS, counts, strict=True)]
    found = serve(tmp_path, metrics=rows).rows("SELECT p50_ns / 1e9 FROM request_latency WHERE model IS NULL")
    assert found == [] if wanted is None else found[0][0] == pytest.approx(wanted)


def test_histograms_without_their_last_bucket_say_nothing(tmp_path: Path) -> None:
    rows = [bucket("tgi_request_duration", 0, "0.1", 4), sample("tgi_request_duration_count", 0, 4)]
    assert serve(tmp_path, metrics=rows).rows("SELECT * FROM request_latency") == []
