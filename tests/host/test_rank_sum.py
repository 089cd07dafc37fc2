"""The rank sum test against all permutations, and against itself."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from pipeline.rank_sum import higher_p_value


def _exact(values: list[float], others: list[float]) -> float:
    """Share of the ways to draw as many values from all of them whose rank sum is no lower (mean ranks of ties)."""
    every = np.array(values + others)
    ranks = [float((every < value).sum() + ((every == value).sum() + 1) / 2) for value in every]
    observed = sum(ranks[: len(values)])
    drawn = [sum(ranks[place] for place in places) for places in itertools.combinations(range(len(every)), len(values))]
    return sum(total >= observed - 1e-9 for total in drawn) / len(drawn)


@pytest.mark.parametrize("seed", range(12))
def test_near_the_exact_share_of_permutations(seed: int) -> None:
    rng = random.Random(seed)
    values = [rng.choice(range(12)) + rng.choice((0.0, 2.0)) for _ in range(8)]
    others = [float(rng.choice(range(12))) for _ in range(8)]
    found = higher_p_value(np.array(values), np.array(others))
    assert found == pytest.approx(_exact(values, others), abs=0.02)


def test_far_apart_equal_and_empty() -> None:
    low, high = np.arange(20.0), np.arange(20.0) + 100
    assert higher_p_value(high, low) < 1e-6
    assert higher_p_value(low, high) > 1 - 1e-6
    assert higher_p_value(np.ones(9), np.ones(9)) == 1.0
    assert higher_p_value(np.empty(0), low) == higher_p_value(low, np.empty(0)) == 1.0
