"""Intervals against known truth, scipy and a plain loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from pipeline import compare_intervals
from pipeline.compare_intervals import SumDraws, change_interval, mean, quantile, ratio, student_quantile, tail_share

Draw = Callable[[np.random.Generator, int], np.ndarray]

_NORMAL: Draw = lambda rng, n: rng.normal(10, 1, n)  # noqa: E731
_SKEWED: Draw = lambda rng, n: rng.lognormal(0, 0.5, n)  # noqa: E731
_COUNTED: Draw = lambda rng, n: np.column_stack((rng.integers(0, 2, n), rng.exponential(1, n)))  # noqa: E731


@pytest.mark.parametrize("freedom", [4, 7, 17, 99, 400])
@pytest.mark.parametrize("share", [0.9, 0.975, 0.995])
def test_students_quantile(freedom: int, share: float) -> None:
    assert student_quantile(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), abs=0.02)


@pytest.mark.parametrize(
    ("draw", "statistic", "counts", "factor", "truth"),
    [
        (_NORMAL, mean, (6, 6), 1.0, 0.0),
        (_NORMAL, mean, (8, 12), 1.2, 2.0),
        (_SKEWED, mean, (18, 18), 1.0, 0.0),
        (_SKEWED, mean, (30, 40), 2.0, float(np.exp(0.125))),
        (_COUNTED, ratio, (24, 24), 1.0, 0.0),
        (_COUNTED, ratio, (60, 90), np.array([1.0, 2.0]), -0.25),
        (_SKEWED, quantile(0.5), (20, 25), 1.5, 0.5),
        (_SKEWED, quantile(0.95), (60, 80), 1.0, 0.0),
        (_SKEWED, quantile(0.95), (200, 150), 1.5, 0.5 * float(np.exp(0.5 * stats.norm.ppf(0.95)))),
    ],
)
def test_the_truth_is_inside_as_often_as_promised(
    monkeypatch: pytest.MonkeyPatch,
    draw: Draw,
    statistic: compare_intervals.Statistic,
    counts: tuple[int, int],
    factor: float | np.ndarray,
    truth: float,
) -> None:
    """300 pairs of captures whose true change is known: 95 % intervals hold it in about 95 of 100."""
    monkeypatch.setattr(compare_intervals, "ROUNDS", 500)
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(300):
        found = change_interval(draw(rng, counts[0]), factor * draw(rng, counts[1]), statistic, 0.95)
        assert found is not None
        held += found.low <= truth <= found.high
    assert 0.90 <= held / 300 <= 0.995


def test_pairs_are_drawn_together() -> None:
    """Epochs that differ tenfold among themselves hide a change of a tenth, unless they are drawn in pairs."""
    rng = np.random.default_rng(3)
    before = rng.lognormal(0, 1, 40)
    after = before * rng.normal(1.1, 0.01, 40)
    paired = change_interval(before, after, mean, 0.95)
    apart = change_interval(before, np.append(after, after.mean()), mean, 0.95)
    assert paired is not None and apart is not None
    assert 0 < paired.low < 0.1 * before.mean() < paired.high
    assert apart.low < 0 < apart.high


def test_an_interval_of_means_is_about_students() -> None:
    rng = np.random.default_rng(5)
    before, after = rng.normal(10, 2, 12), rng.normal(11, 2, 12)
    found = change_interval(before, np.append(after, 11.0), mean, 0.95)
    expected = stats.ttest_ind(np.append(after, 11.0), before, equal_var=False).confidence_interval(0.95)
    assert found is not None
    assert found.high - found.low == pytest.approx(expected.high - expected.low, rel=0.15)


def test_equal_input_gives_equal_output_and_no_change_is_none() -> None:
    values = np.random.default_rng(1).normal(size=50)
    assert change_interval(values, values, quantile(0.95), 0.95) == (0.0, 0.0)
    other = values[:-1] + 1
    assert change_interval(values, other, mean, 0.95) == change_interval(values, other, mean, 0.95)
    assert change_interval(values[:1], other, mean, 0.95) is None


def test_sums_of_call_paths_are_those_of_all_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as an array with a value for every unit, zeros as well; however many are drawn at once."""
    kept = [(2, 100), (5, 300), (11, 50)]
    dense = np.zeros(18)
    for unit, size in kept:
        dense[unit] = size
    same, nothing = SumDraws(18, 18, 0.95).intervals([(kept, kept), ([], [])])
    assert (same, nothing) == ((0.0, 0.0), None)
    cases = [(kept, []), ([], kept), (kept, kept[:1])]
    spread = SumDraws(18, 17, 0.95).intervals(cases)
    monkeypatch.setattr(compare_intervals, "_COLUMNS", 2)
    assert SumDraws(18, 17, 0.95).intervals(cases) == spread
    expected = change_interval(dense * 18, np.zeros(17), mean, 0.95)
    assert spread[0] is not None and spread[1] is not None and expected is not None
    assert spread[0].low == pytest.approx(expected.low, rel=0.15)
    assert spread[0].high == 0.0
    assert spread[1].low == 0.0 < spread[1].high
    assert SumDraws(1, 18, 0.95).intervals(cases) == [None] * 3


def test_a_ratio_is_of_sums_and_few_units_widen_the_tails() -> None:
    draws = np.array([[[1.0, 2.0], [3.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]])
    assert ratio(draws).tolist() == [1.0, 0.0]
    assert tail_share(6, 0.95) < tail_share(30, 0.95) < 0.025
    assert tail_share(100_000, 0.95) == pytest.approx(0.025, abs=1e-4)
