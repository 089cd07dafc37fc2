"""Which attribute tells leaking epochs apart: Fisher's exact test against enumeration and SciPy."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from scipy import stats

from pipeline.leaks.attributes import MAX_VALUES, associations, fisher_p_value, request_attributes


def _by_enumeration(leaking_with: int, with_count: int, leaking_without: int, without_count: int) -> float:
    """Of all ways to choose which epochs leak, the share with at least so many among those with the attribute."""
    total, leaking = with_count + without_count, leaking_with + leaking_without
    ways = [sum(epoch < with_count for epoch in chosen) for chosen in combinations(range(total), leaking)]
    return sum(inside >= leaking_with for inside in ways) / len(ways)


@pytest.mark.parametrize("seed", range(20))
def test_fisher_by_enumeration(seed: int) -> None:
    draw = random.Random(seed)
    with_count, without_count = draw.randint(1, 6), draw.randint(1, 6)
    table = (draw.randint(0, with_count), with_count, draw.randint(0, without_count), without_count)
    assert fisher_p_value(*table) == pytest.approx(_by_enumeration(*table))


@pytest.mark.parametrize("seed", range(20))
def test_fisher_by_scipy(seed: int) -> None:
    draw = random.Random(seed)
    with_count, without_count = draw.randint(1, 200), draw.randint(1, 400)
    a, c = draw.randint(0, with_count), draw.randint(0, without_count)
    expected = stats.fisher_exact([[a, with_count - a], [c, without_count - c]], alternative="greater").pvalue
    assert fisher_p_value(a, with_count, c, without_count) == pytest.approx(expected)


def test_three_cancelled_of_ten_are_enough() -> None:
    attributes = {epoch: {"status": "499" if epoch in (2, 5, 8) else "200"} for epoch in range(10)}
    best = associations(range(10), {2, 5, 8}, attributes)[0]
    assert best.attribute == "status=499"
    assert best.is_perfect
    assert best.p_value == pytest.approx(1 / 120)  # one choice of three epochs in ten


@pytest.mark.parametrize(
    ("leaking", "perfect"), [({2, 5, 8}, True), ({2, 5}, False), ({2, 5, 8, 9}, False), ({0, 1, 3}, False)]
)
def test_only_an_exact_split_is_perfect(leaking: set[int], perfect: bool) -> None:
    attributes = {epoch: {"status": "499" if epoch in (2, 5, 8) else "200"} for epoch in range(10)}
    found = [a for a in associations(range(10), leaking, attributes) if a.attribute == "status=499"]
    assert (bool(found) and found[0].is_perfect) is perfect


def test_the_most_telling_attribute_comes_first() -> None:
    attributes = {e: {"status": "499" if e % 3 == 2 else "200", "model": "a" if e < 9 else "b"} for e in range(18)}
    names = [a.attribute for a in associations(range(18), {2, 5, 8, 11, 14, 17}, attributes)]
    assert names[0] == "status=499"


def test_ids_and_constants_tell_nothing() -> None:
    attributes = {e: {"session": f"s{e}", "model": "one"} for e in range(MAX_VALUES + 4)}
    assert associations(range(MAX_VALUES + 4), {1, 2}, attributes) == []


def test_epochs_without_a_request_are_left_out() -> None:
    attributes = {e: {"status": "499" if e == 1 else "200"} for e in range(4)}
    best = associations(range(100), {1}, attributes)[0]
    assert (best.with_count, best.without_count) == (1, 3)


def test_nothing_leaks_nothing_is_associated() -> None:
    assert associations(range(4), set(), {e: {"status": str(e % 2)} for e in range(4)}) == []


def test_attributes_of_a_request() -> None:
    request = {
        "status": 499,
        "model": "m",
        "request_kind": None,
        "rank": 0,
        "prompt_tokens": 300,
        "output_tokens": 0,
        "attributes": '{"tier": "free", "stream": true, "tokens": [1], "status": "other"}',
    }
    assert request_attributes(request) == {
        "status": "499",
        "model": "m",
        "rank": "0",
        "prompt_tokens": "256–511",
        "output_tokens": "0",
        "tier": "free",
        "stream": "True",
    }


@pytest.mark.parametrize("text", [None, "", "not json", "[1, 2]", '"text"'])
def test_damaged_extra_attributes_are_none(text: str | None) -> None:
    assert request_attributes({"status": "200", "attributes": text}) == {"status": "200"}
