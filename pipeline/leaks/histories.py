"""Survivor groups of the database as plain data: one history a call path, sizes kept apart where they differ in fate."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

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


class Survivors(NamedTuple):
    """Allocations of one size from one epoch that live at the end. `epoch` None: from before the window."""

    size: int
    epoch: int | None
    count: int
    bytes: int
    requested_bytes: int


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
    for *key, size, epoch, count, kept, requested in database.rows(
        "SELECT process_id, device_index, level, memory_kind, path_key, allocated_bytes, epoch_index, retained_count,"
        " retained_bytes, coalesce(retained_requested_bytes, retained_bytes) FROM survivor_groups ORDER BY ALL"
    ):
        found[PathKey(*key)].append(Survivors(size, epoch, count, kept, requested))
    return dict(found)


def load_changes(database: Database) -> dict[PathKey, list[tuple[Any, ...]]]:
    """Rows of `path_epochs` a call path: epoch, allocated, freed, evicted, oldest eviction, lasting."""
    found: dict[PathKey, list[tuple[Any, ...]]] = defaultdict(list)
    for row in database.rows(
        "SELECT process_id, device_index, level, memory_kind, path_key, epoch_index, allocated_bytes, freed_bytes,"
        " evicted_count, evicted_age, lasting_count FROM path_epochs ORDER BY ALL"
    ):
        found[PathKey(*row[:5])].append(row[5:])
    return dict(found)


def _is_extra(epoch: int, count: int, others: dict[int, int]) -> bool:
    """Whether survivors of one size and one epoch come on top of a path's regular ones.

    A size that only one epoch keeps may be the epoch's share of a leak whose sizes vary (a cache as long as its
    prompt), or something built once on the same path (a workspace). It is extra when the other sizes have survivors
    in that epoch as well, or when its count is far from what surviving epochs keep.
    """
    return epoch in others or count * 2 < median(others.values())


def split_sizes(survivors: list[Survivors]) -> tuple[list[Survivors], list[list[Survivors]]]:
    """Regular survivors of a call path's epochs, and sizes to be judged apart."""
    by_size: dict[int, dict[int, list[Survivors]]] = defaultdict(lambda: defaultdict(list))
    for s in survivors:
        by_size[s.size][s.epoch if s.epoch is not None else BEFORE_EPOCHS].append(s)
    regular, apart = list(survivors), []
    for size, by_epoch in by_size.items():
        if len(by_epoch) != 1:
            continue
        [(epoch, rows)] = by_epoch.items()
        others: dict[int, int] = defaultdict(int)
        for s in survivors:
            if s.size != size and s.epoch is not None:
                others[s.epoch] += s.count
        if len(others) >= 3 and _is_extra(epoch, sum(s.count for s in rows), others):
            apart.append(rows)
            regular = [s for s in regular if s.size != size]
    return regular, apart


def build_history(
    group: list[Survivors], changes: list[tuple[Any, ...]], excluded: list[Survivors], epoch_count: int
) -> PathHistory:
    """History of the regular survivors of one call path: all its allocations less what `excluded` survivors hold."""
    allocated, freed, evicted, lasting = (np.zeros(epoch_count, dtype=np.int64) for _ in range(4))
    before, oldest = 0, 0
    for epoch, allocated_bytes, freed_bytes, evicted_count, evicted_age, lasting_count in changes:
        oldest = max(oldest, evicted_age or 0)
        if epoch < 0:
            before += allocated_bytes - freed_bytes
        elif epoch < epoch_count:
            allocated[epoch] += allocated_bytes
            freed[epoch] += freed_bytes
            evicted[epoch] += evicted_count
            lasting[epoch] += lasting_count
    for s in excluded:
        if s.epoch == BEFORE_EPOCHS:
            before -= s.bytes
        elif s.epoch is not None and s.epoch < epoch_count:
            allocated[s.epoch] -= s.bytes
            lasting[s.epoch] -= s.count
    kept: dict[int, int] = defaultdict(int)
    for s in group:
        if s.epoch is not None and 0 <= s.epoch < epoch_count:
            kept[s.epoch] += s.count
    return PathHistory(epoch_count, allocated, freed, evicted, lasting, oldest, before, dict(kept))


def groups_of(
    key: PathKey, survivors: list[Survivors], changes: list[tuple[Any, ...]], epoch_count: int
) -> list[Group]:
    """The groups of one call path: kept since before the window, before the epochs, one-off sizes, in flight, regular."""
    before_window = [s for s in survivors if s.epoch is None]
    before_epochs = [s for s in survivors if s.epoch == BEFORE_EPOCHS]
    in_flight = [s for s in survivors if s.epoch is not None and s.epoch >= epoch_count]
    judged = [s for s in survivors if s.epoch is not None and 0 <= s.epoch < epoch_count]
    regular, apart = split_sizes(judged)
    found = [Group(key, rows) for rows in (before_epochs,) if rows]
    for rows in apart:
        found.append(
            Group(key, rows, build_history(rows, [(s.epoch, s.bytes, 0, 0, 0, s.count) for s in rows], [], epoch_count))
        )
    if regular:
        excluded = [*before_epochs, *(s for rows in apart for s in rows)]
        found.append(Group(key, regular, build_history(regular, changes, excluded, epoch_count), before_window))
        before_window = []
    if in_flight:
        found.append(Group(key, in_flight))
    if before_window:
        found.append(Group(key, before_window))
    return found
