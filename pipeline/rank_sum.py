"""Are the values of one group higher than those of another? Mann–Whitney's rank sum test."""

from __future__ import annotations

from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def higher_p_value(values: Values, others: Values) -> float:
    """One-sided p-value that `values` are higher: normal approximation with ties and continuity correction.

    Source: Mann and Whitney 1947. Fit from about 8 values a side; 1 where a side is empty or all are equal.
    """
    own, rest = len(values), len(others)
    if not own or not rest:
        return 1.0
    every = np.concatenate([values, others])
    _, place, counts = np.unique(every, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2)[place]  # the mean rank of what is tied
    above = float(ranks[:own].sum()) - own * (own + 1) / 2
    total = own + rest
    tied = float((counts.astype(np.float64) ** 3 - counts).sum())
    variance = own * rest / 12 * (total + 1 - tied / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    return 0.5 * erfc((above - own * rest / 2 - 0.5) / sqrt(2 * variance))
