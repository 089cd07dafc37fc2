"""Survivor groups as plain data, and the history of a call path that they come from."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

import numpy as np

from pipeline.database import Database
from pipeline.leaks.verdicts import PathHistory

BEFORE_EPOCHS = -1


class PathKey(NamedTuple):
    """What is judged apart: process, device, level, memory kind and call path (`path_key` < 0: no call path)."""

    process_id: int | None
    device_index: int | None
    level: str
    memory_kind: str
    path_key: int


@dataclass(frozen=True, slots=True)
class Survivors:
    """Allocations of one requested size from one epoch that live at the end. `epoch` None: from before the window.

    `range_key` stands for their range path; None where it is not known.
    """

    size: int
    epoch: int | None
    count: int
    bytes: int
    requested_bytes: int
    range_key: int | None = None


@dataclass(slots=True)
class Group:
    """Survivors that share a verdict; `history` is None for groups that need no judging by it."""

    key: PathKey
    survivors: list[Survivors]
    history: PathHistory | None = None
    before_window: list[Survivors] = field(default_factory=list)

    @property
    def epochs(self) -> set[int]:
        return {s.epoch for s in self.survivors if s.epoch is not None and s.epoch >= 0}

    def total(self, what: str) -> int:
        """Sum of `count`, `bytes` or `requested_bytes` over the survivors."""
        return sum(getattr(s, what) for s in self.survivors)


def load_survivors(database: Database) -> dict[PathKey, list[Survivors]]:
    """Survivors of every call path."""
    found: dict[PathKey, list[Survivors]] = defaultdict(list)
    for row in database.rows(
        "SELECT process_id, device_index, level, memory_kind, path_key, size_key, epoch_index, retained_count,"
        " retained_bytes, coalesce(retained_requested_bytes, retained_bytes), range_key FROM survivor_groups"
        " ORDER BY ALL"
    ):
        found[PathKey(*row[:5])].append(Survivors(*row[5:]))
    return dict(found)


class Change(NamedTuple):
    """What one epoch did to a call path's allocations of one size and range path; None: those without survivors."""

    size: int | None
    epoch: int
    allocated_bytes: int
    freed_bytes: int
    evicted_count: int
    evicted_age: int | None
    lasting_count: int
    range_key: int | None = None


def load_changes(database: Database) -> dict[PathKey, list[Change]]:
    """Rows of `path_epochs` by call path."""
    found: dict[PathKey, list[Change]] = defaultdict(list)
    for row in database.rows(
        "SELECT process_id, device_index, level, memory_kind, path_key, size_key, epoch_index, allocated_bytes,"
        " freed_bytes,"
        " evicted_count, evicted_age, lasting_count, range_key FROM path_epochs ORDER BY ALL"
    ):
        found[PathKey(*row[:5])].append(Change(*row[5:]))
    return dict(found)


def split_sizes(survivors: Sequence[Survivors]) -> tuple[list[Survivors], list[list[Survivors]]]:
    """Regular survivors of a call path's epochs, and sizes to be judged apart.

    A size that only one epoch keeps may be the epoch's share of a leak whose sizes vary (a cache as long as its
    prompt), or something built once on the same path (a workspace). It is extra when the other sizes have survivors
    in that epoch as well, or when its count is far from what surviving epochs keep.
    """
    by_size: dict[int, list[Survivors]] = defaultdict(list)
    totals = Counter[int]()
    for s in survivors:
        by_size[s.size].append(s)
        totals[s.epoch if s.epoch is not None else BEFORE_EPOCHS] += s.count
    ordered = sorted(totals.values())
    extra = set[int]()
    for size, rows in by_size.items():
        epoch = rows[0].epoch if rows[0].epoch is not None else BEFORE_EPOCHS
        if any(s.epoch != rows[0].epoch for s in rows):
            continue
        own = sum(s.count for s in rows)
        shared = totals[epoch] > own
        if len(totals) - (not shared) < 3:
            continue
        if not shared:
            place = bisect_left(ordered, own)
            shared = own * 2 < median(ordered[:place] + ordered[place + 1 :])
        if shared:
            extra.add(size)
    return [s for s in survivors if s.size not in extra], [by_size[size] for size in by_size if size in extra]


def build_history(
    group: Sequence[Survivors], changes: Iterable[Change], excluded: Sequence[Survivors], epoch_count: int
) -> PathHistory:
    """History of the regular survivors of one call path: all its allocations less what `excluded` survivors hold."""
    allocated, freed, evicted, lasting = (np.zeros(epoch_count, dtype=np.int64) for _ in range(4))
    before, oldest = 0, 0
    for change in changes:
        oldest = max(oldest, change.evicted_age or 0)
        if change.epoch < 0:
            before += change.allocated_bytes - change.freed_bytes
        elif change.epoch < epoch_count:
            allocated[change.epoch] += change.allocated_bytes
            freed[change.epoch] += change.freed_bytes
            evicted[change.epoch] += change.evicted_count
            lasting[change.epoch] += change.lasting_count
    for s in excluded:
        if s.epoch == BEFORE_EPOCHS:
            before -= s.bytes
        elif s.epoch is not None and s.epoch < epoch_count:
            allocated[s.epoch] -= s.bytes
            lasting[s.epoch] -= s.count
    kept, sizes = Counter[int](), Counter[int]()
    for s in group:
        sizes[s.size] += s.count
        if s.epoch is not None and 0 <= s.epoch < epoch_count:
            kept[s.epoch] += s.count
    return PathHistory(epoch_count, allocated, freed, evicted, lasting, oldest, before, dict(kept), sizes)
