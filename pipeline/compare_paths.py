"""Call paths of two captures side by side: bytes at the end and at the peak, leaked bytes, counts and lifetimes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pipeline.compare_checks import Checks
from pipeline.compare_intervals import Interval, SumDraws
from pipeline.compare_summary import PathRow, PathSums, Summary
from pipeline.compare_verdicts import Compared, judge
from schemas.compare_settings import CompareSettings

OTHER = ("[other call paths]",)
NO_PATH = ("[no call path]",)
_MIN_FRAMES = 3
_SAMPLED = {"kept": "end_bytes", "leaked": "leaked_bytes"}
_PLAIN = (
    ("peak_bytes", "bytes"),
    ("end_count", "count"),
    ("allocated_bytes", "bytes"),
    ("allocated_count", "count"),
    ("lifetime_p50_ns", "ns"),
    ("lifetime_p95_ns", "ns"),
)


class PathKey(NamedTuple):
    """What two captures' call paths are matched by: neither lines nor processes nor devices."""

    level: str
    memory_kind: str | None
    rank: int | None
    frames: tuple[str, ...]


class Pair(NamedTuple):
    """The two sides of a call path; None where one has no row for it."""

    key: PathKey
    baseline: PathSums | None
    candidate: PathSums | None
    is_renamed: bool

    @property
    def sides(self) -> tuple[PathSums | None, PathSums | None]:
        return self.baseline, self.candidate

    @property
    def change(self) -> int:
        """Of the bytes at the end, or of those that leak where that is more."""
        ends = [side.end_bytes if side else 0 for side in self.sides]
        leaks = [side.leaked_bytes if side else 0 for side in self.sides]
        return max((ends[1] - ends[0], leaks[1] - leaks[0]), key=abs)

    @property
    def size(self) -> int:
        return max(side.peak_bytes if side else 0 for side in self.sides)


def _keyed(side: Summary) -> dict[PathKey, PathSums]:
    rows: dict[PathKey, PathSums] = {
        PathKey(row.level, row.memory_kind, row.rank, tuple(side.frames[i] for i in row.frames) or NO_PATH): row
        for row in side.paths
    }
    return rows | {PathKey(row.level, row.memory_kind, row.rank, OTHER): row for row in side.others}


def _without_one(key: PathKey) -> Iterator[tuple[Any, ...]]:
    """The path as it is, and without each of its frames in turn."""
    start, frames = key[:3], key.frames
    yield (*start, frames)
    for i in range(len(frames)):
        yield (*start, frames[:i] + frames[i + 1 :])


def nearly_equal(before: Iterable[PathKey], after: Iterable[PathKey]) -> dict[PathKey, PathKey]:
    """Call paths of `after` with the one of `before` that differs from it by one frame: renamed, added or taken out.

    Only where no other path on either side comes as near, and three frames are left. One step a frame: not quadratic.
    """
    known: dict[tuple[Any, ...], set[PathKey]] = {}
    for key in before:
        for form in _without_one(key):
            known.setdefault(form, set()).add(key)
    near = {key: {old for form in _without_one(key) for old in known.get(form, ())} for key in after}
    uses = Counter(old for found in near.values() for old in found)
    return {
        key: old
        for key, found in near.items()
        if len(found) == 1
        and uses[old := next(iter(found))] == 1
        and min(len(key.frames), len(old.frames)) > _MIN_FRAMES
    }


class Paths:
    """Call paths of both captures, matched."""

    def __init__(self, baseline: Summary, candidate: Summary) -> None:
        self._sides = (_keyed(baseline), _keyed(candidate))
        self._levels = tuple({key.level for key in side} for side in self._sides)

    def pairs(self) -> list[Pair]:
        """Every call path of either, those whose bytes at the end changed most first."""
        before, after = self._sides
        renamed = nearly_equal(before.keys() - after.keys(), after.keys() - before.keys())
        gone = set(renamed.values())
        found = [Pair(key, before.get(renamed.get(key, key)), side, key in renamed) for key, side in after.items()]
        found += [Pair(key, side, None, False) for key, side in before.items() if key not in after and key not in gone]
        return sorted(found, key=lambda pair: (-abs(pair.change), -pair.size, str(pair.key)))

    def absent(self, key: PathKey, side: int) -> str | None:
        """Why a side without a row for the path does not say that there was none; None when it does say so."""
        if key.level not in self._levels[side]:
            return f"no {key.level} allocations were recorded in the {('baseline', 'candidate')[side]}"
        other = self._sides[side].get(key._replace(frames=OTHER))
        if other is not None and key.frames != OTHER:
            return f"among the smaller call paths of the {('baseline', 'candidate')[side]}, which are only summed up"
        return None


def path_rows(baseline: Summary, candidate: Summary, checks: Checks, settings: CompareSettings) -> list[Compared]:
    """Rows of every call path, one a quantity. Bytes at the end and leaked bytes are judged, the rest is told."""
    paths = Paths(baseline, candidate)
    units = len(baseline.epochs.sizes), len(candidate.epochs.sizes)
    draws = SumDraws(*units, settings.confidence)
    pairs = paths.pairs()
    intervals = zip(*(draws.intervals([_varying(pair, name) for pair in pairs]) for name in _SAMPLED), strict=True)
    rows: list[Compared] = []
    for pair, varying in zip(pairs, intervals, strict=True):
        reasons = [paths.absent(pair.key, i) if side is None else None for i, side in enumerate(pair.sides)]
        absent = next(filter(None, reasons), None)
        blocked = f"not comparable: {checks.blocked['totals']}" if "totals" in checks.blocked else None
        rows += _rows(pair, varying, absent, blocked, settings, min(units))
    return rows


def _varying(pair: Pair, name: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Bytes by unit of both sides, as far as they vary by epoch."""
    before, after = (getattr(side, name) if isinstance(side, PathRow) else [] for side in pair.sides)
    return before, after


def _value(side: PathSums | None, name: str, is_unknown: bool) -> float | None:
    if side is None:
        return None if is_unknown or name.startswith("lifetime") else 0.0
    value = getattr(side, name, None)
    return None if value is None else float(value)


def _rows(
    pair: Pair,
    varying: Sequence[Interval | None],
    absent: str | None,
    blocked: str | None,
    settings: CompareSettings,
    units: int,
) -> Iterator[Compared]:
    """Rows of one path. `absent` says why a side without it is not known; `blocked` why nothing is judged."""
    key = pair.key

    def row(name: str, unit: str) -> Compared:
        before, after = (_value(side, name, bool(absent)) for side in pair.sides)
        made = Compared("call_path", name, unit, before, after)
        return replace(made, level=key.level, memory_kind=key.memory_kind, rank=key.rank, path=key.frames)

    for name, interval in zip(_SAMPLED, varying, strict=True):
        made = row(_SAMPLED[name], "bytes")
        if name == "kept" or made.baseline or made.candidate:
            if absent or blocked:
                yield replace(made, verdict="inconclusive", reason=absent or blocked)
            else:
                yield _judged(made, pair, name, interval, settings, units)
    yield from (made for name, unit in _PLAIN if (made := row(name, unit)).baseline or made.candidate)


def _judged(
    row: Compared, pair: Pair, name: str, interval: Interval | None, settings: CompareSettings, units: int
) -> Compared:
    assert row.change is not None and row.baseline is not None
    before, after = _varying(pair, name)
    margin = max(settings.min_path_bytes, settings.min_change_ratio * row.baseline)
    if (before or after) and units < settings.min_epochs:
        few = f"{units} epochs in one of the captures, {settings.min_epochs} are needed"
        return replace(row, verdict="inconclusive", reason=few)
    if interval is not None:
        counted = row.change - sum(size for _, size in after) + sum(size for _, size in before)
        interval = Interval(interval.low + counted, interval.high + counted)
    verdict, reason = judge(row.change, interval, margin, is_more_better=False)
    if pair.is_renamed:
        reason = "; ".join(filter(None, (reason, "matched although one frame differs")))
    return replace(row, interval=interval, verdict=verdict, reason=reason)
