"""What a token costs: growth when requests take turns, expected bytes, levels, the interval against the position."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.serving import expected_bytes
from pipeline.token_intervals import seasonal_slope, trend_of
from schemas.config import SymptomSettings
from tests.serving.support import START, request, serve
from tests.sql.support import result

KV = 12_288
FACTS = {"num_layers": 6, "num_kv_heads": 8, "head_dim": 64, "dtype_bytes": 2}
MS = 1_000_000


def _facts(model: str, **facts: float) -> list[dict[str, Any]]:
    return [{"fact": "model", "name": name, "text_value": model, "value": value} for name, value in facts.items()]


def _token(request_id: str, index: int, at_ms: float, device: int | None, rss: int | None = None) -> dict[str, Any]:
    return {
        "source": "tokens",
        "request_id": request_id,
        "token_index": index,
        "ts_ns": START + round(at_ms * MS),
        "device_allocated_bytes": device,
        "rss_bytes": rss,
    }


def test_growth_of_requests_that_take_turns(tmp_path: Path) -> None:
    """Each token takes 100 bytes; prompts take 1,000 and an end gives back 5,000: intervals over those don't count."""
    tokens = """
        request_id  token_index  ts_ns  device_allocated_bytes
        a           0            10     1000
        a           1            20     1100
        b           0            30     2100
        a           2            40     2200
        b           1            50     2300
        a           3            60     2400
        b           2            70     2500
        a           4            80     2600
        b           3            90     -2300
        b           5            110    -2100
    """
    database = serve(tmp_path, tokens=tokens)
    found = result(database, "token_steps", ("request_id", "token_index", "interval_ns", "device_growth"))
    assert found == [
        ("a", 0, None, None),
        ("a", 1, 10, 100),
        ("a", 2, 20, None),  # b began meanwhile
        ("a", 3, 20, 100),
        ("a", 4, 20, 100),
        ("b", 0, None, None),
        ("b", 1, 20, 100),
        ("b", 2, 20, 100),
        ("b", 3, 20, None),  # a ended meanwhile
        ("b", 5, None, None),  # a token in between was not seen
    ]


def test_actual_against_expected_bytes(tmp_path: Path) -> None:
    tokens, requests, level = [], [], 10_000_000
    for number in range(12):
        model = "big" if number % 2 else "small"
        requests.append(request(number, number, 0.5, model=model, prompt_tokens=64))
        held = level
        for index in range(10):
            held += KV * (2 if model == "big" else 1) if index else 64 * KV
            tokens.append(_token(str(number), index, number * 1000 + index, held, 5_000 + 7 * (number * 10 + index)))
        level += 1_000  # what each request never gives back
    notes = _facts("small", **FACTS) + _facts("big", num_layers=6)
    rows = serve(tmp_path, requests=requests, tokens=tokens, capture_notes=notes).rows(
        "SELECT model, memory_side, request_count, token_count, bytes_per_token_mean, bytes_per_token_deviation,"
        " expected_bytes_per_token, actual_to_expected_ratio, kept_bytes_per_request, kept_p_value < 0.001,"
        " interval_trend"
        " FROM token_memory ORDER BY ALL"
    )
    assert rows == [
        ("big", "device", 6, 54, 2 * KV, 0, None, None, 1_000, True, "level"),
        ("big", "rss", 6, 54, 7, 0, None, None, 70, True, "level"),
        ("small", "device", 6, 54, KV, 0, KV, 1.0, 1_000, True, "level"),
        ("small", "rss", 6, 54, 7, 0, None, None, 70, True, "level"),
    ]


def test_missing_facts_and_levels_are_said(tmp_path: Path) -> None:
    tokens = [_token("1", index, index, None, 7 * index) for index in range(5)]
    rows = serve(tmp_path, tokens=tokens).rows(
        "SELECT memory_side, token_count, bytes_per_token_p50, first_level_bytes, kept_p_value, abstained_reason"
        " FROM token_memory ORDER BY 1"
    )
    interval = "interval against position: too few tokens or positions"
    assert rows == [
        ("device", 0, None, None, None, f"no token has the level of this memory; {interval}"),
        ("rss", 4, 7.0, 0, None, interval),
    ]


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        (FACTS, KV),
        (FACTS | {"tensor_parallel_size": 2}, KV // 2),
        (FACTS | {"tensor_parallel_size": 16}, KV // 8),  # a head is held whole by each process that needs it
        (FACTS | {"kv_bytes_per_token": 1_152}, 1_152),
        ({"num_layers": 6, "num_kv_heads": 8, "head_dim": 64}, None),
        ({}, None),
    ],
)
def test_expected_bytes(facts: dict[str, float], wanted: int | None) -> None:
    assert expected_bytes(facts) == wanted


def _requests(chance: np.random.Generator, cost: Any, count: int = 12, length: int = 60) -> list[tuple[Any, Any]]:
    """Positions and intervals (ns) of requests that are fast or slow as a whole, with noise and rare long waits."""
    found = []
    for _ in range(count):
        x = np.arange(1, length, dtype=np.float64)
        y = (
            20e6 * chance.uniform(0.5, 3)
            + cost(x)
            + chance.normal(0, 1e6, len(x))
            + 200e6 * (chance.random(len(x)) < 0.03)
        )
        found.append((x, y))
    return found


@pytest.mark.parametrize(
    ("cost", "name"),
    [
        (lambda x: 0 * x, "level"),
        (lambda x: 0.02e6 * x, "level"),  # grows, and by too little to matter
        (lambda x: 1e6 * x, "linear"),
        (lambda x: 0.05e6 * x**2, "superlinear"),
        (lambda x: -0.2e6 * x, "level"),
    ],
)
def test_trends(cost: Any, name: str) -> None:
    trend = trend_of(_requests(np.random.default_rng(4), cost), SymptomSettings())
    assert trend is not None
    assert trend.name == name
    assert trend.low_ns <= trend.slope_ns <= trend.high_ns


def test_the_interval_covers_the_true_slope_and_zero_is_found_level() -> None:
    covered = 0
    for seed in range(100):
        trend = trend_of(_requests(np.random.default_rng(seed), lambda x: 0.5e6 * x, 4, 25), SymptomSettings())
        assert trend is not None
        covered += trend.low_ns <= 0.5e6 <= trend.high_ns
    assert 90 <= covered <= 100  # 95 % intervals


def test_the_slope_by_brute_force() -> None:
    chance = random.Random(2)
    requests = [
        (np.array(sorted(chance.sample(range(50), 9)), dtype=float), np.array([chance.random() for _ in range(9)]))
        for _ in range(5)
    ]
    pairs = [(y[j] - y[i]) / (x[j] - x[i]) for x, y in requests for i in range(9) for j in range(i + 1, 9)]
    found = seasonal_slope(requests)
    assert found is not None
    assert found[0] == pytest.approx(np.median(pairs))
    assert seasonal_slope(requests[:1]) is not None
    assert seasonal_slope([(x[:3], y[:3]) for x, y in requests]) is None, "too few pairs"


def test_too_few_tokens_have_no_trend(tmp_path: Path) -> None:
    tokens = [_token(str(number), index, number * 100 + index * 5, 0) for number in range(20) for index in range(3)]
    assert serve(tmp_path, tokens=tokens).rows("SELECT DISTINCT interval_trend, interval_p50_ns FROM token_memory") == [
        (None, 5 * MS)
    ]
