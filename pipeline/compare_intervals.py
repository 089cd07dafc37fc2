"""Intervals of a change between two captures: the bootstrap over epochs, seeded.

Epochs (or requests) are drawn with replacement, `ROUNDS` times, and the change is computed anew each time (Efron 1979).
Where both captures have equally many units, unit i of one is drawn with unit i of the other: runs of one workload then
differ by what changed and not by what each epoch asks for. The interval's ends are percentiles, moved outwards for few
units (Hesterberg 2015, "expanded percentile"): plain percentiles are too narrow below some 30 units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROUNDS = 2000
SEED = 20261130
_BLOCK_CELLS = 4_000_000
_COLUMNS = 100

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
Kept = Sequence[tuple[int, int]]


class Interval(NamedTuple):
    """Ends of a two-sided interval of candidate - baseline."""

    low: float
    high: float


def student_quantile(share: float, freedom: int) -> float:
    """Quantile of Student's t by the expansion of Abramowitz & Stegun 26.7.5; good to 0.01 from 4 degrees on."""
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(float(term / freedom**power) for power, term in enumerate(terms, start=1))


def tail_share(units: int, confidence: float) -> float:
    """Share of the draws outside each end of the interval."""
    if units < 2:
        return 0.0
    quantile = student_quantile((1 + confidence) / 2, max(units - 1, 2))
    return NormalDist().cdf(-sqrt(units / (units - 1)) * quantile)


def _draws(generator: np.random.Generator, units: int, rounds: int) -> NDArray[np.intp]:
    return generator.integers(0, units, size=(rounds, units), dtype=np.intp)


def is_paired(baseline: Sized, candidate: Sized) -> bool:
    """Whether units are drawn in pairs."""
    return len(baseline) == len(candidate)


def change_interval(baseline: Floats, candidate: Floats, statistic: Statistic, confidence: float) -> Interval | None:
    """Interval of statistic(candidate) - statistic(baseline); None with fewer than two units on a side.

    The samples are (units,) or (units, columns). `statistic` takes draws of the shape (rounds, units[, columns]) and
    gives one value a round. Equal input gives equal output.
    """
    if min(len(baseline), len(candidate)) < 2:
        return None
    generator = np.random.default_rng(SEED)
    size = max(baseline.size, candidate.size)
    step = max(1, min(ROUNDS, _BLOCK_CELLS // size))
    changes = []
    for start in range(0, ROUNDS, step):
        rounds = min(step, ROUNDS - start)
        places = _draws(generator, len(baseline), rounds)
        others = places if is_paired(baseline, candidate) else _draws(generator, len(candidate), rounds)
        changes.append(statistic(candidate[others]) - statistic(baseline[places]))
    share = tail_share(min(len(baseline), len(candidate)), confidence)
    low, high = np.quantile(np.concatenate(changes), [share, 1 - share])
    return Interval(float(low), float(high))


class SumDraws:
    """How often each unit is drawn, kept for the sums of many call paths."""

    def __init__(self, baseline_units: int, candidate_units: int, confidence: float) -> None:
        self.units = (baseline_units, candidate_units)
        self.share = tail_share(min(self.units), confidence)
        generator = np.random.default_rng(SEED)
        self._baseline = self._counts(generator, baseline_units)
        is_same = baseline_units == candidate_units
        self._candidate = self._baseline if is_same else self._counts(generator, candidate_units)

    @staticmethod
    def _counts(generator: np.random.Generator, units: int) -> Floats:
        shares = np.full(max(units, 1), 1 / max(units, 1))
        return generator.multinomial(units, shares, size=ROUNDS).astype(np.float64)

    def intervals(self, kept: Sequence[tuple[Kept, Kept]]) -> list[Interval | None]:
        """Interval of the change of each sum of (unit, bytes), of the baseline and the candidate.

        None below two units, and where neither side has anything that varies.
        """
        if min(self.units) < 2:
            return [None] * len(kept)
        found: list[Interval | None] = []
        for start in range(0, len(kept), _COLUMNS):
            part = kept[start : start + _COLUMNS]
            changes = self._candidate @ _matrix([after for _, after in part], self.units[1])
            changes -= self._baseline @ _matrix([before for before, _ in part], self.units[0])
            ends = np.quantile(changes, [self.share, 1 - self.share], axis=0)
            found += [
                Interval(float(low), float(high)) if any(sides) else None
                for sides, low, high in zip(part, *ends, strict=True)
            ]
        return found


def _matrix(kept: Sequence[Kept], units: int) -> Floats:
    """(units, columns): bytes of each unit, one column a list."""
    found = np.zeros((units, len(kept)))
    for column, pairs in enumerate(kept):
        for unit, size in pairs:
            found[unit, column] += size
    return found


def mean(draws: Floats) -> Floats:
    """Mean of each round."""
    found: Floats = draws.mean(axis=1)
    return found


def quantile(share: float) -> Statistic:
    """A quantile of each round, between values as numpy does."""

    def of(draws: Floats) -> Floats:
        found: Floats = np.quantile(draws, share, axis=1)
        return found

    return of


def ratio(draws: Floats) -> Floats:
    """Sum of the first column over the sum of the second, of each round; 0 over 0 is 0."""
    sums = draws.sum(axis=1)
    found: Floats = np.divide(sums[:, 0], sums[:, 1], out=np.zeros(len(sums)), where=sums[:, 1] > 0)
    return found
