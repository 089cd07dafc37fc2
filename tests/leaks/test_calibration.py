"""The confidence: its bins, and the reliability on generated histories that the fit never saw."""

from __future__ import annotations

import random

import pytest

from pipeline.leaks.calibration import EDGES, bin_of, calibrated, counts, succession
from tests.generate.lives import NEVER
from tests.generate.stories import CLEAN, LEAKING, OPEN
from tests.leaks.calibrating import (
    COUNTS,
    FAMILIES,
    FEW,
    FIT,
    HELD_OUT,
    PAGE,
    Outcome,
    all_outcomes,
    counts_text,
    fitted,
    made_page,
)
from tests.leaks.calibration_page import _reliability_table, brier, expected_error


@pytest.fixture(scope="module")
def few() -> list[Outcome]:
    return all_outcomes(FEW)


def test_the_page_says_what_the_first_seeds_give(few: list[Outcome]) -> None:
    section = PAGE.read_text().split("The quick tests repeat these.\n\n")[1]
    assert section.splitlines() == _reliability_table(few)[:-1]


@pytest.mark.slow
def test_the_page_is_what_the_generator_gives() -> None:
    assert PAGE.read_text() == made_page()


@pytest.mark.slow
def test_the_counts_are_those_of_the_fit() -> None:
    assert COUNTS.read_text() == counts_text(fitted(all_outcomes(FIT)))


def test_the_seeds_of_the_page_are_not_those_of_the_fit() -> None:
    assert not set(FIT) & set(HELD_OUT)
    assert set(FEW) <= set(HELD_OUT)


def test_hardly_any_clean_history_has_a_suspect(few: list[Outcome]) -> None:
    false = {(o.family, o.seed) for o in few if o.family in CLEAN and o.verdict == "growing"}
    assert len(false) <= 1  # of 100


def test_most_leaks_are_called(few: list[Outcome]) -> None:
    called = {(o.family, o.seed) for o in few if o.is_leak and o.verdict == "growing"}
    assert len(called) >= 0.85 * len(LEAKING) * len(FEW)


def test_confidence_is_near_the_share_right(few: list[Outcome]) -> None:
    assert brier(few) < 0.02
    assert expected_error(few) < 0.02
    growing = [o for o in few if o.verdict == "growing"]
    mean = sum(o.confidence or 0 for o in growing) / len(growing)
    share = sum(bool(o.is_right) for o in growing) / len(growing)
    assert abs(mean - share) < 3 * (share * (1 - share) / len(growing)) ** 0.5 + 0.01


def test_reliability_figures_of_hand_made_outcomes() -> None:
    def said(confidence: float, right: bool) -> Outcome:
        return Outcome("steady", 0, "growing", "steady", 9, confidence, right, right)

    found = [said(0.75, True), said(0.75, True), said(0.75, True), said(0.75, False)]
    assert expected_error(found) == pytest.approx(0.0)
    assert brier(found) == pytest.approx((3 * 0.25**2 + 0.75**2) / 4)
    assert expected_error([said(0.95, False)] * 2) == pytest.approx(0.95)


@pytest.mark.parametrize("family", FAMILIES)
def test_histories_are_seeded_and_of_their_family(family: str) -> None:
    one, same, other = FAMILIES[family](3), FAMILIES[family](3), FAMILIES[family](4)
    assert one.lives == same.lives
    assert one.lives != other.lives
    leaks = [life for life in one.lives if life.is_leak]
    assert bool(leaks) == (family in LEAKING)
    assert all(life.end == NEVER for life in leaks)


def test_more_evidence_is_never_less_sure() -> None:
    for rule in counts():
        steps = [calibrated(rule, evidence) for evidence in range(80)]
        assert steps == sorted(steps)
        assert 0 < steps[0] <= steps[-1] < 1


@pytest.mark.parametrize(("evidence", "place"), [(0, 0), (3, 0), (4, 1), (7, 1), (8, 2), (31, 3), (32, 4), (9000, 4)])
def test_bins(evidence: int, place: int) -> None:
    assert bin_of(evidence) == place == sum(evidence >= edge for edge in EDGES)


def test_a_rule_that_was_never_fitted_goes_by_succession() -> None:
    assert calibrated("young", 9) == succession(9, 9) == pytest.approx(10 / 11)


def test_every_group_of_families_is_counted() -> None:
    assert set(FAMILIES) == {*CLEAN, *OPEN, *LEAKING}
    total = sum(n for bins in counts().values() for _, n in bins)
    assert total > len(FAMILIES) * len(FIT)
    assert random.Random(FIT[0]).random() != random.Random(HELD_OUT[0]).random()
