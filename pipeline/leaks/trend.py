"""Does a series rise? Mann–Kendall and Theil–Sen (method 4), on at most a few hundred points."""

from __future__ import annotations

from itertools import permutations
from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 400
EXACT_POINTS = 8

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


def rise_p_value(values: Series) -> float:
    """One-sided Mann–Kendall p-value for a rise: exact up to EXACT_POINTS values, else with tie correction.

    Source: Mann 1945, Kendall 1975. A series without a rise gives 1.
    """
    values = thinned(np.asarray(values, dtype=np.float64))
    n = len(values)
    if n < 3:
        return 1.0
    observed = _score(values)
    if observed <= 0:
        return 1.0
    if n <= EXACT_POINTS:
        ranks = np.unique(values, return_inverse=True)[1]
        orders = np.array(list(permutations(ranks)), dtype=np.int8)
        scores = sum(np.sign(orders[:, j] - orders[:, i]).astype(int) for i in range(n) for j in range(i + 1, n))
        return float(np.mean(scores >= observed))
    ties = np.unique(values, return_counts=True)[1].astype(np.float64)
    variance = (n * (n - 1) * (2 * n + 5) - (ties * (ties - 1) * (2 * ties + 5)).sum()) / 18
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
