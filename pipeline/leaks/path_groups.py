"""The survivors of one call path taken apart: by when they were allocated, by size and by range path."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pipeline.leaks.histories import (
    BEFORE_EPOCHS,
    Change,
    Group,
    PathKey,
    Survivors,
    build_history,
    split_sizes,
)
from pipeline.leaks.older_frees import freed_like
from pipeline.leaks.verdicts import PathHistory

Part = Literal["size", "range_key"]
"""What a call path may be taken apart by."""


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

    def _parts(self, by: Part) -> Iterator[tuple[list[Survivors], list[Change]]]:
        """Regular survivors of one size (or range path) each with what the epochs did to such allocations."""
        rows: dict[int | None, list[Survivors]] = defaultdict(list)
        changes: dict[int | None, list[Change]] = defaultdict(list)
        for s in self._regular:
            rows[getattr(s, by)].append(s)
        for change in self._changes:
            changes[getattr(change, by)].append(change)
        if by == "range_key" and len(rows) < 2:
            return
        for value in sorted(value for value in rows if value is not None):
            yield rows[value], changes[value]

    def _part_group(self, rows: list[Survivors], changes: list[Change], by: Part) -> Group:
        value = getattr(rows[0], by)
        held = [*self._before_epochs, *(s for apart in self._apart for s in apart if by != "size")]
        return Group(self.key, rows, self._history(rows, changes, [s for s in held if getattr(s, by) == value]))

    def never_evicted(self, by: Part = "size") -> list[Group]:
        """Sizes (or range paths) that several epochs keep and that were never given back late: each may grow alone."""
        return [
            self._part_group(rows, changes, by)
            for rows, changes in self._parts(by)
            if len({s.epoch for s in rows}) >= 3 and not any(change.evicted_count for change in changes)
        ]

    def evicted(self, by: Part = "size") -> list[Group]:
        """Sizes (or range paths) given back late whose survivors are no older than what was: a cache beside a leak."""
        found = []
        for rows, changes in self._parts(by):
            oldest = max((change.evicted_age or 0 for change in changes), default=0)
            if oldest and all(self._epoch_count - 1 - (s.epoch or 0) <= oldest for s in rows):
                found.append(self._part_group(rows, changes, by))
        return found

    def split_epochs(self, group: Group, epochs: set[int]) -> tuple[Group, Group]:
        """A group less its survivors of some epochs, with a history of its survivors alone; and those survivors."""
        rows = [s for s in group.survivors if s.epoch not in epochs]
        own = (Change(s.size, s.epoch or 0, s.bytes, 0, 0, None, s.count) for s in rows)
        rest = Group(self.key, rows, self._history(rows, own, []), group.before_window)
        return rest, Group(self.key, [s for s in group.survivors if s.epoch in epochs])

    def without(self, taken: Sequence[Group], by: Part = "size") -> Group | None:
        """The regular group less sizes (or range paths) that were judged apart."""
        values = {getattr(s, by) for group in taken for s in group.survivors}
        rows = [s for s in self._regular if getattr(s, by) not in values]
        if not rows:
            return None
        held = [*self._before_epochs, *(s for apart in self._apart for s in apart)]
        excluded = [s for s in held if getattr(s, by) not in values]
        changes = [change for change in self._changes if getattr(change, by) not in values]
        return Group(self.key, rows, self._history(rows, changes, excluded), self._before_window)
