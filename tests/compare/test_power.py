"""How often a gate is wrong: reruns of one load test whose noise is known, and slower ones."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pipeline import compare_intervals
from pipeline.compare import compare
from pipeline.compare_summary import Summary
from schemas.compare_settings import CompareSettings
from tests.compare.test_verdicts import summary

RUNS = 60


def run(rng: np.random.Generator, work: np.ndarray, factor: float) -> Summary:
    """A load test: each request takes what it asks for, `factor` times, and 5 % more or less by chance."""
    made = summary(epochs=len(work))
    taken = (1e8 * factor * work * rng.lognormal(0, 0.05, len(work))).astype(int).tolist()
    made.requests.latencies_ns, made.requests.gaps_ns = taken, taken
    return made


@pytest.mark.parametrize(
    ("requests", "factor", "is_same_work", "allowed"),
    [
        (40, 1.0, False, {"regressed": (0, 8)}),
        (40, 1.0, True, {"regressed": (0, 5)}),
        (1000, 1.0, True, {"regressed": (0, 2), "pass": (50, RUNS)}),
        (40, 1.1, True, {"regressed": (55, RUNS), "pass": (0, 0)}),
        (200, 1.3, False, {"regressed": (55, RUNS), "pass": (0, 0)}),
    ],
)
def test_wrong_answers_of_a_gate_are_few(
    monkeypatch: pytest.MonkeyPatch,
    requests: int,
    factor: float,
    is_same_work: bool,
    allowed: dict[str, tuple[int, int]],
) -> None:
    monkeypatch.setattr(compare_intervals, "ROUNDS", 200)
    rng = np.random.default_rng(11)
    found: Counter[str] = Counter()
    for _ in range(RUNS):
        work = rng.lognormal(0, 0.3, requests)
        other = work if is_same_work else rng.lognormal(0, 0.3, requests)
        found[compare(run(rng, work, 1.0), run(rng, other, factor), CompareSettings()).gate] += 1
    for gate, (low, high) in allowed.items():
        assert low <= found[gate] <= high, found
