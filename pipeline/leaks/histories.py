"""Survivor groups as plain data: one history a call path, sizes kept apart where they differ in fate."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

import numpy as np

from pipeline.database import Database
from pipeline.leaks.older_frees import freed_like
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
    """Allocations of one requested size from one epoch that live at the end. `epoch` None: from before the window."""

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
        "SELECT process_id, device_index, level, memory_kind, path_key, size_key, epoch_index, retained_count,"
        " retained_bytes, coalesce(retained_requested_bytes, retained_bytes) FROM survivor_groups ORDER BY ALL"
    ):
        found[PathKey(*key)].append(Survivors(size, epoch, count, kept, requested))
    return dict(found)


class Change(NamedTuple):
    """What one epoch did to the allocations of one size of a call path. `size` None: sizes without survivors."""

    size: int | None
    epoch: int
    allocated_bytes: int
    freed_bytes: int
    evicted_count: int
    evicted_age: int | None
    lasting_count: int


def load_changes(database: Database) -> dict[PathKey, list[Change]]:
    """Rows of `path_epochs` by call path."""
    found: dict[PathKey, list[Change]] = defaultdict(list)
    for row in database.rows(
        "SELECT process_id, device_index, level, memory_kind, path_key, size_key, epoch_index, allocated_bytes,"
        " freed_bytes,"
        " evicted_count, evicted_age, lasting_count FROM path_epochs ORDER BY ALL"
    ):
        found[PathKey(*row[:5])].append(Change(*row[5:]))
    return dict(found)


def _is_extra(epoch: int, count: int, others: dict[int, int]) -> bool:
    """Whether survivors of one size and one epoch come on top of a path's regular ones.

    A size that only one epoch keeps may be the epoch's share of a leak whose sizes vary (a cache as long as its
    prompt), or something built once on the same path (a workspace). It is extra when the other sizes have survivors
    in that epoch as well, or when its count is far from what surviving epochs keep.
    """
    return epoch in others or count * 2 < median(others.values())


def split_sizes(survivors: Sequence[Survivors]) -> tuple[list[Survivors], list[list[Survivors]]]:
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


class PathGroups:
    """The survivors of one call path, taken apart by when they were allocated and by fate."""

    def __init__(
        self,
        key: PathKey,
        survivors: Sequence[Survivors],
        changes: Sequence[Change],
        epoch_count: int,
        older_frees: Mapping[int, int],
    ) -> None:
        self.key, self._changes, self._epoch_count, self._older_frees = key, changes, epoch_count, older_frees
        self._before_window = [s for s in survivors if s.epoch is None]
        self._before_epochs = [s for s in survivors if s.epoch == BEFORE_EPOCHS]
        self._in_flight = [s for s in survivors if s.epoch is not None and s.epoch >= epoch_count]
        judged = [s for s in survivors if s.epoch is not None and 0 <= s.epoch < epoch_count]
        self._regular, self._apart = split_sizes(judged)

    def _history(
        self, group: Sequence[Survivors], changes: Iterable[Change], excluded: Sequence[Survivors]
    ) -> PathHistory:
        history = build_history(group, changes, excluded, self._epoch_count)
        kept = Counter[int]()
        for s in self._regular:
            kept[s.size] += s.count
        history.older_freed_count = freed_like(
            self._older_frees, history.sizes, kept or history.sizes, len(history.survivors)
        )
        return history

    def set_apart(self) -> list[Group]:
        """Groups that need no trend: from before the window or the epochs, one-off sizes, still running."""
        found = [Group(self.key, rows) for rows in (self._before_epochs, self._in_flight) if rows]
        for rows in self._apart:
            own = (Change(s.size, s.epoch or 0, s.bytes, 0, 0, None, s.count) for s in rows)
            found.append(Group(self.key, rows, self._history(rows, own, [])))
        if self._before_window and not self._regular:
            found.append(Group(self.key, self._before_window))
        return found

    def regular(self) -> Group | None:
        """What is left: all sizes of the path together."""
        if not self._regular:
            return None
        excluded = [*self._before_epochs, *(s for rows in self._apart for s in rows)]
        history = self._history(self._regular, self._changes, excluded)
        return Group(self.key, self._regular, history, self._before_window)

    def never_evicted(self) -> list[Group]:
        """Sizes that several epochs keep and that were never given back late: each may grow on a path that does not."""
        found = []
        for size in sorted({s.size for s in self._regular}):
            rows = [s for s in self._regular if s.size == size]
            changes = [change for change in self._changes if change.size == size]
            if len(rows) >= 3 and not any(change.evicted_count for change in changes):
                own_before = [s for s in self._before_epochs if s.size == size]
                found.append(Group(self.key, rows, self._history(rows, changes, own_before)))
        return found

    def evicted(self) -> list[Group]:
        """Sizes that are given back late and whose survivors are no older than what was: a cache beside a leak."""
        found = []
        for size in sorted({s.size for s in self._regular}):
            rows = [s for s in self._regular if s.size == size]
            changes = [change for change in self._changes if change.size == size]
            oldest = max((change.evicted_age or 0 for change in changes), default=0)
            if oldest and all(self._epoch_count - 1 - (s.epoch or 0) <= oldest for s in rows):
                own_before = [s for s in self._before_epochs if s.size == size]
                found.append(Group(self.key, rows, self._history(rows, changes, own_before)))
        return found

    def split_epochs(self, group: Group, epochs: set[int]) -> tuple[Group, Group]:
        """A group less its survivors of some epochs, with a history of its survivors alone; and those survivors."""
        rows = [s for s in group.survivors if s.epoch not in epochs]
        own = (Change(s.size, s.epoch or 0, s.bytes, 0, 0, None, s.count) for s in rows)
        rest = Group(self.key, rows, self._history(rows, own, []), group.before_window)
        return rest, Group(self.key, [s for s in group.survivors if s.epoch in epochs])

    def without(self, taken: Sequence[Group]) -> Group | None:
        """The regular group less sizes that were judged apart."""
        sizes = {s.size for group in taken for s in group.survivors}
        rows = [s for s in self._regular if s.size not in sizes]
        if not rows:
            return None
        excluded = [
            s for s in (*self._before_epochs, *(s for apart in self._apart for s in apart)) if s.size not in sizes
        ]
        changes = [change for change in self._changes if change.size not in sizes]
        return Group(self.key, rows, self._history(rows, changes, excluded), self._before_window)
