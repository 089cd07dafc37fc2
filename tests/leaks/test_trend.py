"""Mann–Kendall and Theil–Sen against exact enumeration and SciPy."""

from __future__ import annotations

import random
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy import stats

from pipeline.leaks.trend import MAX_POINTS, rise_p_value, theil_sen, thinned


def _rises(values: list[float]) -> int:
    """Pairs in rising order less pairs in falling order, one pair at a time."""
    return sum((later > earlier) - (later < earlier) for earlier, later in combinations(values, 2))


def _exact_p(values: list[float]) -> float:
    """Share of all orders of the values that rise at least as much."""
    scores = [_rises(list(order)) for order in permutations(values)]
    return sum(score >= _rises(values) for score in scores) / len(scores)


@pytest.mark.parametrize("seed", range(12))
def test_few_values_are_judged_exactly(seed: int) -> None:
    draw = random.Random(seed)
    values = [float(draw.randint(0, 4)) for _ in range(draw.randint(3, 6))]
    expected = _exact_p(values) if _rises(values) > 0 else 1.0
    assert rise_p_value(np.array(values)) == pytest.approx(expected)


def test_exact_p_of_a_strict_rise_is_one_order_in_all() -> None:
    assert rise_p_value(np.arange(5.0)) == pytest.approx(1 / 120)
    assert rise_p_value(np.arange(8.0)) == pytest.approx(1 / 40320)


@pytest.mark.parametrize("seed", range(6))
def test_many_values_agree_with_shuffling(seed: int) -> None:
    draw = random.Random(seed)
    values = [float(draw.randint(0, 9)) + 0.05 * i for i in range(30)]
    observed, shuffled = _rises(values), values[:]
    if observed <= 0:
        assert rise_p_value(np.array(values)) == 1.0
        return
    hits, trials = 0, 2000
    for _ in range(trials):
        draw.shuffle(shuffled)
        hits += _rises(shuffled) >= observed
    share = hits / trials
    assert rise_p_value(np.array(values)) == pytest.approx(share, abs=4 * (share * (1 - share) / trials) ** 0.5 + 0.004)


@pytest.mark.parametrize("seed", range(6))
def test_many_values_agree_with_scipy(seed: int) -> None:
    draw = random.Random(seed)
    values = [draw.randint(0, 20) + i // 3 for i in range(60)]
    expected = stats.kendalltau(range(60), values, alternative="greater", method="asymptotic").pvalue
    # SciPy leaves out the continuity correction, which takes one pair off the score.
    assert rise_p_value(np.array(values, dtype=float)) == pytest.approx(expected, rel=0.15, abs=1e-4)


@pytest.mark.parametrize("values", [[], [1], [1, 2], [3, 3, 3, 3], [5, 4, 3, 2, 1], [7.0] * 50, list(range(40, 0, -1))])
def test_what_does_not_rise_gives_one(values: list[float]) -> None:
    assert rise_p_value(np.array(values, dtype=float)) == 1.0


def test_false_alarms_of_level_noise_stay_at_the_threshold() -> None:
    draw = np.random.default_rng(3)
    alarms = sum(rise_p_value(draw.normal(size=20)) < 0.01 for _ in range(2000))
    assert alarms <= 2000 * 0.01 + 4 * (2000 * 0.01 * 0.99) ** 0.5


@pytest.mark.parametrize("seed", range(6))
def test_slope_is_the_median_of_all_pairs(seed: int) -> None:
    draw = random.Random(seed)
    values = [draw.uniform(0, 5) + 2 * i for i in range(25)]
    assert theil_sen(np.array(values)) == pytest.approx(stats.theilslopes(values).slope)


def test_slope_of_a_staircase_with_rare_steps_is_its_mean_rise() -> None:
    values = np.repeat([0.0, 100.0, 200.0], 30)
    assert theil_sen(values) == pytest.approx(200 / 60, rel=0.2)


def test_slope_of_a_long_series_is_a_step_of_the_series_not_of_the_thinned_one() -> None:
    assert theil_sen(np.arange(5 * MAX_POINTS) * 3.0) == pytest.approx(3.0, rel=1e-3)


@pytest.mark.parametrize(("values", "slope"), [([], 0.0), ([4.0], 0.0), ([1.0, 3.0], 2.0), ([2.0, 2.0, 2.0], 0.0)])
def test_slope_of_short_series(values: list[float], slope: float) -> None:
    assert theil_sen(np.array(values)) == slope


def test_thinning_keeps_the_ends_and_the_order() -> None:
    kept = thinned(np.arange(10_000.0))
    assert len(kept) <= MAX_POINTS
    assert (kept[0], kept[-1]) == (0.0, 9999.0)
    assert (np.diff(kept) > 0).all()
