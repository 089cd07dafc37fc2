"""What is read as one suspect: a shared root and a shared fate."""

from __future__ import annotations

import pytest

from pipeline.leaks.merging import jaccard, merge
from tests.leaks.groups import judged


def _paths(*items: object) -> list[list[int]]:
    return [[g.key.path_key for g in suspect.groups] for suspect in merge(list(items))]  # type: ignore[arg-type]


def test_growing_paths_of_one_root_and_the_same_epochs_are_one() -> None:
    items = [judged("growing", path, range(10), size=100 * path) for path in (1, 2, 3)]
    assert _paths(*items) == [[3, 2, 1]]  # most bytes first


def test_merged_bytes_and_counts_are_sums() -> None:
    [suspect] = merge([judged("growing", 1, range(10), size=512), judged("growing", 2, range(10), size=100, count=3)])
    assert (suspect.total("count"), suspect.total("bytes")) == (40, 10 * 512 + 10 * 300)


@pytest.mark.parametrize(
    "other",
    [
        {"root": 8},
        {"process": 2},
        {"device": 1},
        {"level": "driver"},
        {"kind": "pinned"},
    ],
    ids=str,
)
def test_another_root_process_device_level_or_kind_is_another_suspect(other: dict[str, object]) -> None:
    assert len(merge([judged("growing", 1, range(10)), judged("growing", 2, range(10), **other)])) == 2  # type: ignore[arg-type]


def test_another_fate_is_another_suspect() -> None:
    assert len(merge([judged("growing", 1, range(0, 20, 2)), judged("growing", 2, range(1, 20, 2))])) == 2


def test_nearly_the_same_epochs_are_one() -> None:
    assert len(merge([judged("growing", 1, range(10)), judged("growing", 2, range(1, 10))])) == 1


def test_inconclusive_joins_what_it_survives_with() -> None:
    assert _paths(judged("growing", 1, range(10)), judged("inconclusive", 2, (3, 6))) == [[1, 2]]


@pytest.mark.parametrize("epochs", [(3,), (3, 30), ()], ids=["once", "elsewhere", "never"])
def test_inconclusive_elsewhere_stays_apart(epochs: tuple[int, ...]) -> None:
    assert len(merge([judged("growing", 1, range(10)), judged("inconclusive", 2, epochs or (None,))])) == 2


@pytest.mark.parametrize("verdict", ["bounded", "one_time"])
def test_what_was_let_go_joins_nothing(verdict: str) -> None:
    assert len(merge([judged("growing", 1, range(10)), judged(verdict, 2, range(10))])) == 2  # type: ignore[arg-type]


def test_order_does_not_matter() -> None:
    items = [judged("growing", path, range(10), size=100 * path) for path in (1, 2, 3)] + [judged("bounded", 4, (9,))]
    assert _paths(*items) == _paths(*reversed(items))


@pytest.mark.parametrize(
    ("one", "other", "share"), [(set(), set(), 0.0), ({1}, {1}, 1.0), ({1, 2, 3}, {2, 3, 4}, 0.5), ({1}, {2}, 0.0)]
)
def test_jaccard(one: set[int], other: set[int], share: float) -> None:
    assert jaccard(one, other) == share
