"""Verdicts on histories whose truth is in their making (method 4)."""

from __future__ import annotations

import pytest

from pipeline.leaks.attributes import Association
from pipeline.leaks.calibration import succession
from pipeline.leaks.verdicts import judge
from schemas.config import LeakSettings
from tests.leaks.histories import history

SETTINGS = LeakSettings()
EVERY = dict.fromkeys(range(20), 1)


def _perfect(count: int, total: int, p_value: float) -> Association:
    return Association("status=499", p_value, 5.0, count, count, 0, total - count, p_value)


def test_kept_by_every_epoch_grows() -> None:
    found = judge(history(20, EVERY), SETTINGS)
    assert found.verdict == "growing"
    assert "20 epochs of 20 keep some" in found.reason
    assert found.growth_bytes_per_epoch == pytest.approx(4096)
    assert found.confidence is not None
    assert 0.9 < found.confidence < 1


def test_before_the_epochs_is_one_time() -> None:
    found = judge(history(20, {}, sizes={4096: 3}), SETTINGS)
    assert (found.verdict, "before the first epoch" in found.reason) == ("one_time", True)


def test_one_early_epoch_is_one_time() -> None:
    found = judge(history(20, {0: 5}), SETTINGS)
    assert (found.verdict, found.reason) == ("one_time", "kept once, in epoch 0 of 20, and never again in 19 epochs")


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_youngest_alone_are_bounded(limit: int) -> None:
    assert judge(history(20, dict.fromkeys(range(20 - limit, 20), 2)), SETTINGS).verdict == "bounded"


@pytest.mark.parametrize("limit", range(4, 11))
def test_a_cache_up_to_half_the_epochs_is_bounded(limit: int) -> None:
    kept = dict.fromkeys(range(20 - limit, 20), 1)
    evicted = [(epoch, epoch + limit) for epoch in range(20 - limit)]
    found = judge(history(20, kept, evicted=evicted), SETTINGS)
    assert found.verdict == "bounded", found.reason


@pytest.mark.parametrize("last", [2, 5, 9])
def test_tables_of_the_first_epochs_are_bounded(last: int) -> None:
    found = judge(history(20, dict.fromkeys(range(last + 1), 1)), SETTINGS)
    assert (found.verdict, "levels off" in found.reason) == ("bounded", True)


def test_a_leak_beside_evictions_still_grows() -> None:
    """Each epoch evicts one block after three epochs and keeps another for good."""
    found = judge(history(20, EVERY, evicted=[(epoch, epoch + 3) for epoch in range(17)]), SETTINGS)
    assert found.verdict == "growing", found.reason


def test_few_epochs_abstain() -> None:
    found = judge(history(3, {0: 1, 1: 1, 2: 1}), SETTINGS)
    assert (found.verdict, found.reason) == ("inconclusive", "only 3 epochs, 4 are needed")


def test_three_epochs_of_ten_need_an_attribute() -> None:
    three = history(10, {2: 12, 5: 12, 8: 12})
    alone = judge(three, SETTINGS)
    assert (alone.verdict, alone.confidence) == ("inconclusive", None)
    assert "only 3 epochs keep any" in alone.reason
    told = judge(three, SETTINGS, attribute=_perfect(3, 10, 1 / 120))
    assert told.verdict == "growing"
    assert "status=499" in told.reason


@pytest.mark.parametrize(
    "attribute",
    [_perfect(3, 10, 0.02), Association("status=499", 0.001, 4.0, 3, 4, 0, 6, 0.001)],
    ids=["chance", "imperfect"],
)
def test_a_weak_attribute_does_not_carry_the_verdict(attribute: Association) -> None:
    assert judge(history(10, {2: 12, 5: 12, 8: 12}), SETTINGS, attribute=attribute).verdict == "inconclusive"


def test_growth_below_the_least_is_named() -> None:
    found = judge(history(20, EVERY, size=16), SETTINGS)
    assert (found.verdict, "min_growth_bytes" in found.reason) == ("inconclusive", True)


def test_a_drip_of_4_kib_is_growth_whatever_else_passes() -> None:
    assert judge(history(20, EVERY, size=4096), SETTINGS).verdict == "growing"


def test_one_block_of_each_power_of_two_is_a_pool() -> None:
    kept = {0: 1, 4: 1, 9: 1, 14: 1, 17: 1}
    found = judge(history(20, kept, sizes={2**n: 1 for n in range(9, 14)}), SETTINGS)
    assert (found.verdict, "a pool" in found.reason) == ("bounded", True)


def test_old_blocks_that_go_while_new_ones_stay_are_a_short_window() -> None:
    """A cache that was full before the window: what it evicts has no call path, what it takes in looks like growth."""
    found = judge(history(20, EVERY, older_freed=18), SETTINGS)
    assert (found.verdict, "too short to tell a cache from a leak" in found.reason) == ("inconclusive", True)
    assert judge(history(20, EVERY, older_freed=3), SETTINGS).verdict == "growing"


def test_windows_that_nothing_names_need_more() -> None:
    kept = dict.fromkeys((1, 5, 9, 13, 17), 3)
    assert judge(history(20, kept), SETTINGS).verdict == "growing"
    assert judge(history(20, kept), SETTINGS, is_named=False).verdict == "inconclusive"


def test_growth_that_stopped_is_bounded() -> None:
    kept = dict.fromkeys(range(26), 1)
    found = judge(history(40, kept), SETTINGS)
    assert (found.verdict, "levels off" in found.reason) == ("bounded", True)


@pytest.mark.parametrize(("hits", "trials", "chance"), [(0, 0, 1 / 2), (9, 9, 10 / 11), (0, 8, 1 / 10)])
def test_rule_of_succession(hits: int, trials: int, chance: float) -> None:
    assert succession(hits, trials) == pytest.approx(chance)
