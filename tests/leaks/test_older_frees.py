"""Older blocks given back late: the same kind as what is kept, or not."""

from __future__ import annotations

import pytest

from pipeline.leaks.older_frees import at_most, freed_like

MANY_SIZES = dict.fromkeys(range(1000, 1020), 1)


@pytest.mark.parametrize(("hits", "trials", "share"), [(0, 5, 0.5), (2, 6, 0.25), (6, 6, 0.9), (0, 0, 0.3)])
def test_at_most_by_counting_outcomes(hits: int, trials: int, share: float) -> None:
    ways = sum(
        share ** bin(outcome).count("1") * (1 - share) ** (trials - bin(outcome).count("1"))
        for outcome in range(2**trials)
        if bin(outcome).count("1") <= hits
    )
    assert at_most(hits, trials, share) == pytest.approx(ways)


def test_frees_of_the_same_sizes_count() -> None:
    assert freed_like({512: 9, 4096: 3, 10**6: 7}, {512: 4, 4096: 1}, {512: 4, 4096: 1}, 5) == 12


def test_one_size_of_a_varying_cache_takes_the_frees_of_all() -> None:
    """Twenty sizes were evicted, this one not by chance: its four survivors are no proof of a leak."""
    freed = dict.fromkeys(range(1000, 1019), 1)
    assert freed_like(freed, {1019: 4}, MANY_SIZES | {1019: 4}, 4) == 19


def test_a_size_that_a_cache_would_not_have_spared_stands_alone() -> None:
    """Forty blocks of 512 KiB were evicted and none of the twenty of 20 KiB: these are another kind."""
    assert freed_like({512 * 1024: 40}, {20 * 1024: 20}, {20 * 1024: 20, 512 * 1024: 5}, 20) == 0


def test_few_frees_beside_many_kept_are_those_of_the_size_alone() -> None:
    assert freed_like({1005: 2}, {1000: 10}, MANY_SIZES | {1000: 10}, 10) == 0


def test_nothing_kept_or_freed_counts_nothing() -> None:
    assert freed_like({512: 3}, {}, {512: 1}, 0) == 0
    assert freed_like({}, {512: 3}, {512: 3}, 3) == 0


def test_pairs_go_together() -> None:
    """Eight of 32 kept, none of 28 freed: rare for single blocks, not for the fourteen pairs that they are."""
    others = dict.fromkeys(range(1000, 1012), 2)
    freed = dict.fromkeys(range(1000, 1007), 4)
    assert freed_like(freed | {1012: 0}, {1012: 8}, others | {1012: 8}, 4) == 28
