"""Does a series rise? Mann–Kendall and Theil–Sen (method 4), on at most a few hundred points."""

from __future__ import annotations

from functools import lru_cache
from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 400
EXACT_POINTS = 24

Series = NDArray[np.float64]


def thinned(values: Series) -> Series:
    """At most MAX_POINTS of the values, evenly chosen, first and last kept."""
    if len(values) <= MAX_POINTS:
        return values
    places = np.unique(np.linspace(0, len(values) - 1, MAX_POINTS).round().astype(np.int64))
    chosen: Series = values[places]
    return chosen


def _score(values: Series) -> int:
    return int(np.sign(values[None, :] - values[:, None])[np.triu_indices(len(values), 1)].sum())


@lru_cache(maxsize=512)
def _orders(ties: tuple[int, ...]) -> NDArray[np.float64]:
    """Share of the orders of values tied in such groups with 0, 1, 2 … pairs out of order.

    The number of orders by inversions is a Gaussian multinomial, a product of (1 + q + … + q^(k-1)), k up to the
    number of values, over the same of each group of ties (MacMahon 1915); here as shares, so that none overflows.
    """
    ways = np.ones(1)
    place = 0
    for tied in ties:
        for own in range(1, tied + 1):
            place += 1
            ways = np.convolve(ways, np.full(place, 1.0 / place))
            # Division by 1 + q + … + q^(own-1), exact: what is left over is rounding.
            quotient = ways[: len(ways) - own + 1].copy()
            for i in range(1, len(quotient)):
                low = max(0, i - own + 1)
                quotient[i] -= quotient[low:i].sum()
            ways = quotient * own
    shares: NDArray[np.float64] = np.maximum(ways, 0.0)
    return shares


def rise_p_value(values: Series) -> float:
    """One-sided Mann–Kendall p-value for a rise: exact up to EXACT_POINTS values, else normal with tie correction.

    Source: Mann 1945, Kendall 1975. A series without a rise gives 1.
    """
    values = thinned(np.asarray(values, dtype=np.float64))
    n = len(values)
    if n < 3:
        return 1.0
    observed = _score(values)
    if observed <= 0:
        return 1.0
    ties = np.unique(values, return_counts=True)[1]
    if n <= EXACT_POINTS:
        pairs = (n * (n - 1) - int((ties * (ties - 1)).sum())) // 2
        return float(_orders(tuple(sorted(map(int, ties))))[: (pairs - observed) // 2 + 1].sum())
    tied = ties.astype(np.float64)
    variance = (n * (n - 1) * (2 * n + 5) - (tied * (tied - 1) * (2 * tied + 5)).sum()) / 18
    # The normal distribution's upper tail; scipy.stats has it too and takes most of a second to import.
    return 0.5 * erfc((observed - 1) / sqrt(2 * variance)) if variance > 0 else 1.0


def theil_sen(values: Series) -> float:
    """Median slope a step of the series; 0 with fewer than two values. Source: Theil 1950, Sen 1968.

    A staircase whose steps are rare has a median slope of 0 although it rises; then the slope between the means of
    the first and last third is given.
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2:
        return 0.0
    step = (len(values) - 1) / (len(thinned(values)) - 1)
    points = thinned(values)
    low, high = np.triu_indices(len(points), 1)
    slope = float(np.median((points[high] - points[low]) / ((high - low) * step)))
    if slope == 0.0 and points[-1] > points[0]:
        third = max(1, len(points) // 3)
        rise = float(points[-third:].mean() - points[:third].mean())
        slope = rise / ((len(points) - third) * step)
    return slope
