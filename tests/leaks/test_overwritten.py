"""Which call path explains lost growth: hand-made candidates."""

from __future__ import annotations

import pytest

from pipeline.leaks.histories import PathKey, Survivors
from pipeline.leaks.levels import Growth, Levels
from pipeline.leaks.merging import Judged
from pipeline.leaks.overwritten import Candidate, certain_bytes, explain, explain_overwritten
from schemas.config import LeakSettings
from tests.leaks.groups import MODES, group, judged

MIB = 1024 * 1024
GROWN = Growth(20, 8.0 * MIB, 0.5 * MIB, 0.4 * MIB, 1e-6, 1e-4, frozenset(range(2, 20, 3)), None)


def _path(number: int, mib: float, *, count: int = 12, root: int = 7) -> Candidate:
    rows = [Survivors(int(mib * MIB / count), None, count, int(mib * MIB), int(mib * MIB))]
    return Candidate(PathKey(1, 0, "tensor", "device", number), root, rows)


def _chosen(*candidates: Candidate) -> list[int]:
    return sorted(c.key.path_key for c in explain(GROWN, candidates))


def test_the_path_that_holds_the_growth_is_chosen() -> None:
    assert _chosen(_path(1, 8.2), _path(2, 1.0, count=4), _path(3, 64, count=3)) == [1]


def test_paths_kept_as_often_below_one_root_are_one() -> None:
    assert _chosen(_path(1, 3), _path(2, 3), _path(3, 2), _path(4, 0.5, root=9)) == [1, 2, 3]


@pytest.mark.parametrize("mib", [0.5, 3.9, 13, 40], ids=str)
def test_too_little_or_too_much_explains_nothing(mib: float) -> None:
    assert _chosen(_path(1, mib)) == []


def test_two_paths_that_could_both_be_it_are_not_guessed_between() -> None:
    assert _chosen(_path(1, 7, count=12), _path(2, 6, count=10)) == []


def test_no_candidate_explains_nothing() -> None:
    assert explain(GROWN, []) == []


def test_the_certain_part_leaves_room_for_noise_and_others() -> None:
    leak, other = _path(1, 8.2), _path(2, 1.0, count=4)
    assert certain_bytes(GROWN, [leak], [leak, other]) == int(6.5 * MIB)
    assert certain_bytes(GROWN, [leak], [leak, other, _path(3, 64)]) == 0


def _steps(kept: int) -> Levels:
    levels = [90 * MIB + kept * i for i in range(20)]
    return Levels(levels, [None] * 20, {}, [i * 10**9 for i in range(20)])


def _judge(items: list[Judged], taken: set[int], levels: Levels | None) -> tuple[dict[int, str], list[int]]:
    keys = {item.group.key for item in items if item.group.key.path_key in taken}
    rest, found = explain_overwritten(items, keys, {1: levels} if levels else {}, LeakSettings())
    return {i.group.key.path_key: i.judgement.verdict for i in rest}, [f.suspect.total("count") for f in found]


def test_old_survivors_of_a_path_that_allocates_no_more_are_left_alone() -> None:
    verdicts, found = _judge([judged("one_time", 1, (None,), count=40)], set(), _steps(1024 * 1024))
    assert (verdicts, found) == ({1: "one_time"}, [])


def test_without_a_series_they_are_inconclusive() -> None:
    verdicts, found = _judge([judged("one_time", 1, (None,), count=40)], {1}, None)
    assert (verdicts, found) == ({1: "inconclusive"}, [])


def test_level_series_leave_them_inconclusive() -> None:
    verdicts, found = _judge([judged("one_time", 1, (None,), count=40)], {1}, _steps(0))
    assert (verdicts, found) == ({1: "inconclusive"}, [])


def test_a_rising_series_makes_them_a_suspect_with_what_the_window_saw() -> None:
    old = judged("one_time", 1, (None,), count=19, size=MIB)
    young = judged("inconclusive", 1, (0, 1), size=MIB)
    verdicts, found = _judge([old, young, judged("one_time", 2, (None,), size=30 * MIB)], {1, 2}, _steps(MIB))
    assert (verdicts, found) == ({2: "one_time"}, [21])


def test_growth_that_a_recorded_suspect_explains_is_not_explained_twice() -> None:
    leak = group(1, range(10), size=MIB)
    leak.before_window = group(1, (None,), count=18, size=MIB).survivors
    items = [Judged(leak, MODES["growing"], 7), judged("one_time", 2, (None,), count=19, size=MIB)]
    verdicts, found = _judge(items, {1, 2}, _steps(MIB))
    assert (verdicts, found) == ({1: "growing", 2: "inconclusive"}, [])
