"""Which calls enclose a moment on a thread: spans of Python functions and operators, nested by time.

Spans of a thread nest: the innermost one that holds a moment is the last one begun before it, or one of those around
that one. They wait on disk and are nested window by window, each with those still open from the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.kineto_columns import NO_TIME, Int64s, distinct
from ingest.kineto_paths import MAX_DEPTH, NO_PATH, Paths
from ingest.kineto_spool import Spool

Int32s = npt.NDArray[np.int32]
Columns = list[Any]
"""Arrays of spans' threads, starts, ends, frames and bases."""

WINDOW_SPANS = 128 * 1024
"""Spans that are nested at once; a window may hold more when they are not spread over time."""
SAMPLED = 64
_COLUMNS = ("thread", "start", "end", "frame", "base")


class Lookup(NamedTuple):
    """Rows to find paths for: those of a spool, by `thread` and a column of times.

    With `inside` False spans that begin at the moment itself do not count, nor those that end at it.
    """

    spool: Spool
    time: str
    inside: bool


class Spans:
    """Spans of all threads of a file; `paths_of` once all are there."""

    def __init__(self, paths: Paths, folder: Path) -> None:
        self._paths, self._spool = paths, Spool(folder)
        self._sample: list[Int64s] = []

    @property
    def count(self) -> int:
        return self._spool.rows

    def add(self, threads: Int32s, starts: Int64s, ends: Int64s, frames: Int32s, bases: Int32s | None) -> None:
        """Spans as numbers of threads, times in ns and numbers of frames.

        `bases` are paths that spans lie below by their own word, NO_PATH where time tells. Of spans that begin and end
        together the first added is the outer one.
        """
        known = np.full(len(starts), NO_PATH, np.int32) if bases is None else bases
        timed = (starts != NO_TIME) & (ends != NO_TIME) & (ends >= starts)
        columns = [column[timed] for column in (threads, starts, ends, frames, known)]
        self._sample.append(columns[1][::SAMPLED].copy())
        self._spool.add(pa.table(columns, names=_COLUMNS))

    def paths_of(self, lookups: list[Lookup]) -> list[Int32s]:
        """For each lookup the paths of its rows: of the innermost span around each, NO_PATH where there is none."""
        found = [np.full(lookup.spool.rows, NO_PATH, np.int32) for lookup in lookups]
        still_open: Columns = []
        for low, high in self._windows():
            spans = self._between(low, high, still_open)
            nest = Nest(self._paths, *spans)
            for lookup, paths in zip(lookups, found, strict=True):
                place = 0
                for rows in lookup.spool:
                    moments = pc.fill_null(rows[lookup.time], NO_TIME).to_numpy()
                    here = (moments >= low) & (moments < high)
                    if here.any():
                        threads = rows["thread"].to_numpy()
                        part = paths[place : place + len(moments)]
                        part[here] = nest.paths_at(threads[here], moments[here], inside=lookup.inside)
                    place += len(moments)
            still_open = [column[spans[2] >= high] for column in spans]
        return found

    def _windows(self) -> Iterator[tuple[int, int]]:
        count = max(1, round(self.count / WINDOW_SPANS))
        sample = np.sort(np.concatenate(self._sample or [np.empty(0, np.int64)]))
        self._sample = []
        inner = {int(sample[len(sample) * place // count]) for place in range(1, count)} if len(sample) else set()
        limits = np.iinfo(np.int64)
        return pairwise([int(limits.min), *sorted(inner), int(limits.max)])

    def _between(self, low: int, high: int, still_open: Columns) -> Columns:
        """Columns of the spans that begin in a window, after those that are open from before."""
        parts = [still_open] if still_open else []
        for rows in self._spool:
            starts = rows["start"].to_numpy()
            here = (starts >= low) & (starts < high)
            if here.any():
                parts.append([rows[name].to_numpy()[here] for name in _COLUMNS])
        empty = [np.empty(0, np.int64 if name in ("start", "end") else np.int32) for name in _COLUMNS]
        return [np.concatenate(column) for column in zip(*(parts or [empty]), strict=True)]


class Nest:
    """Spans nested in one another."""

    def __init__(
        self, paths: Paths, threads: Int32s, starts: Int64s, ends: Int64s, frames: Int32s, bases: Int32s
    ) -> None:
        self._paths = paths
        order = np.lexsort((-ends, starts, threads))
        self._threads, self._starts, self._ends = threads[order], starts[order], ends[order]
        self._firsts = np.flatnonzero(np.diff(self._threads, prepend=-1))
        self._nest()
        self._name(frames[order], bases[order])

    def _nest(self) -> None:
        """Fill `_callers`: for each span the number of the one it lies in, or -1."""
        self._callers = np.full(len(self._starts), -1, np.int32)
        depths = np.zeros(len(self._starts), np.int32)
        bounds = [*self._firsts.tolist(), len(self._starts)]
        for first, end in pairwise(bounds):
            starts, ends = self._starts[first:end], self._ends[first:end]
            # A span without duration would have ended when it begins: its end counts half a tick later.
            closed = np.sort(np.where(ends > starts, ends * 2, ends * 2 + 1))
            depths[first:end] = np.arange(end - first) - np.searchsorted(closed, starts * 2, side="right")
        self._levels = _levels(depths)
        for outer, inner in zip(self._levels[:-1], self._levels[1:], strict=True):
            self._callers[inner] = outer[np.searchsorted(outer, inner) - 1]
        inside = self._callers >= 0
        callers = self._callers[inside]
        crossing = (self._ends[inside] > self._ends[callers]) | (self._threads[inside] != self._threads[callers])
        if crossing.any():
            self._nest_one_by_one()

    def _nest_one_by_one(self) -> None:
        """As `_nest`, for threads whose spans cross: one that outlives another is none of its callees."""
        depths = np.zeros(len(self._starts), np.int32)
        open_spans: list[tuple[int, int]] = []
        thread = -1
        rows = zip(self._threads.tolist(), self._starts.tolist(), self._ends.tolist(), strict=True)
        for place, (owner, start, end) in enumerate(rows):
            if owner != thread:
                thread, open_spans = owner, []
            while open_spans and (open_spans[-1][0] < end or open_spans[-1][0] <= start < end):
                open_spans.pop()
            self._callers[place] = open_spans[-1][1] if open_spans else -1
            depths[place] = len(open_spans)
            open_spans.append((end, place))
        self._levels = _levels(depths)

    def _name(self, frames: Int32s, bases: Int32s) -> None:
        """Fill `_own`: each span's path."""
        self._own = np.full(len(frames), NO_PATH, np.int32)
        for depth, level in enumerate(self._levels):
            callers = self._callers[level]
            parents = np.where(callers >= 0, self._own[callers], NO_PATH)
            parents = np.where(bases[level] != NO_PATH, bases[level], parents)
            if depth >= MAX_DEPTH:
                self._own[level] = parents
                continue
            keys = ((parents.astype(np.int64) + 1) << 32) | frames[level]
            codes = pa.array(keys).dictionary_encode()
            paths = [self._paths.below((key >> 32) - 1, key & 0xFFFFFFFF) for key in codes.dictionary.to_pylist()]
            self._own[level] = np.array(paths, np.int32)[codes.indices.to_numpy()]
        self._levels = []

    def paths_at(self, threads: Int32s, times: Int64s, *, inside: bool = True) -> Int32s:
        """Path of the innermost span at each moment, NO_PATH where there is none.

        With `inside` False spans that begin at the moment itself do not count, nor those that end at it.
        """
        found = np.full(len(times), NO_PATH, np.int32)
        if not len(self._starts):
            return found
        owners = self._threads[self._firsts]
        bounds = np.append(self._firsts, len(self._starts))
        for thread in distinct(threads):
            owner = int(np.searchsorted(owners, thread))
            if owner == len(owners) or owners[owner] != thread:
                continue
            first, end = int(bounds[owner]), int(bounds[owner + 1])
            mine = np.flatnonzero(threads == thread)
            moments = times[mine]
            side = "right" if inside else "left"
            places = np.searchsorted(self._starts[first:end], moments, side=side).astype(np.int64) + first - 1  # type: ignore[call-overload]
            places[places < first] = -1
            for _ in range(2 * MAX_DEPTH):
                climbing = np.flatnonzero(places >= 0)
                ends = self._ends[places[climbing]]
                over = climbing[ends < moments[climbing] if inside else ends <= moments[climbing]]
                if not len(over):
                    break
                places[over] = self._callers[places[over]]
            found[mine] = np.where(places >= 0, self._own[places], NO_PATH)
        return found


def _levels(depths: Int32s) -> list[npt.NDArray[np.int64]]:
    """Numbers of the spans at each depth, outermost first."""
    order = np.argsort(depths, kind="stable")
    counts = np.bincount(depths) if len(depths) else np.empty(0, np.int64)
    return np.split(order, np.cumsum(counts)[:-1]) if len(counts) else []
