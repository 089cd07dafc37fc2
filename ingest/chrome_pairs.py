"""Begin and end events of the Trace Event Format as ranges: `B` and `E` of a thread, `b` and `e` (`S`, `F`) of an id.

An end closes the last range begun with its name, or, nameless, the last one begun. Events need not be in the order of
time: what finds no partner in its block is looked at once more when the file has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from ingest.kineto_columns import NO_TIME
from ingest.sink import Sink

MAX_OPEN = 200_000
MAX_SEARCHED = 64
"""Open ranges of a thread that an end is compared with."""


class Half(NamedTuple):
    """One of the two events of a range; `order` is its place in the file."""

    key: Hashable
    ts_ns: int
    order: int
    is_begin: bool
    name: str | None
    thread: int
    domain: str | None
    text: str | None


class Pairs:
    """Pairs halves; `emit(begin, end_ns)` is called for each range, with NO_TIME for one that nothing closed."""

    def __init__(self, sink: Sink, emit: Callable[[Half, int], None]) -> None:
        self._sink, self._emit = sink, emit
        self._open: dict[Hashable, list[Half]] = {}
        self._count = 0
        self._ends: list[Half] = []

    def add(self, halves: list[Half]) -> None:
        """The halves of a block, in file order."""
        for half in sorted(halves, key=lambda half: half.ts_ns):
            opened = self._open.setdefault(half.key, [])
            if half.is_begin:
                opened.append(half)
                self._count += 1
            elif not self._close(opened, half):
                self._ends.append(half)
        if self._count > MAX_OPEN or len(self._ends) > MAX_OPEN:
            self._sink.count("open_ranges_given_up", detail=f"more than {MAX_OPEN} ranges wait for their other half")
            self.finish()

    def _close(self, opened: list[Half], end: Half) -> bool:
        for place in range(len(opened) - 1, max(-1, len(opened) - 1 - MAX_SEARCHED), -1):
            begin = opened[place]
            if (end.name is None or end.name == begin.name) and begin.ts_ns <= end.ts_ns:
                self._emit(begin, end.ts_ns)
                del opened[place]
                self._count -= 1
                return True
        return False

    def finish(self) -> None:
        """Pair what is left in the order of time, an end before a beginning of another name at the same time."""
        left = sorted([*self._ends, *(half for opened in self._open.values() for half in opened)], key=_in_time)
        self._open, self._ends, self._count = {}, [], 0
        unopened = 0
        for half in left:
            opened = self._open.setdefault(half.key, [])
            if half.is_begin:
                opened.append(half)
            elif not self._close(opened, half):
                unopened += 1
        unclosed = sorted((half for opened in self._open.values() for half in opened), key=lambda half: half.order)
        for half in unclosed:
            self._emit(half, NO_TIME)
        self._open = {}
        self._sink.count("ranges_not_ended", len(unclosed), detail="beginnings without an end")
        self._sink.count("ends_without_begin", unopened, detail="ends without a beginning")


def _in_time(half: Half) -> tuple[int, bool, int]:
    return (half.ts_ns, not half.is_begin, half.order)
