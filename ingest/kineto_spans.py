"""Which calls enclose a moment on a thread: spans of Python functions and operators, nested by time.

A path is a number; `Paths` knows the frames it stands for. Spans of a thread nest: the innermost one that holds a
moment is the last one begun before it, or one of those around that one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.callpaths import Frame
from ingest.kineto_columns import NO_TIME, Int64s
from ingest.sink import Sink

Int32s = npt.NDArray[np.int32]

NO_PATH = -1
MAX_KNOWN_NAMES = 200_000
MAX_DEPTH = 1000
"""Frames of a path, and of twice as many spans the innermost that holds a moment is looked for."""

# `file.py(12): function`, as PyTorch names frames; objects differ in their address alone.
_PYTHON_NAME = re.compile(r"(.+)\((\d{1,9})\): (.+)", re.DOTALL)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class _Memo(dict[str, int]):
    """Numbers of texts, made on the first sight of each; forgotten when they are too many."""

    def __init__(self, make: Callable[[str], int]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> int:
        if len(self) >= MAX_KNOWN_NAMES:
            self.clear()
        number = self[text] = self._make(text)
        return number


class Paths:
    """Interns paths: a path is another one (its caller's) and a frame."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.frames = _Memo(self._frame)
        """Name of a span → number of the frame it stands for."""
        self._frames: list[int] = []
        self._codes: dict[int, int] = {}
        self._known: dict[int, int] = {}
        self._parents: list[int] = []
        self._leaves: list[int] = []
        self.stacks = _Memo(self._stack)
        """`Call stack` text → path: frames, innermost first, joined by semicolons."""
        self._ids: dict[int, int | None] = {NO_PATH: None}

    def _frame(self, name: str) -> int:
        match = _PYTHON_NAME.fullmatch(name[:4096])
        frame = Frame(match[3], match[1], int(match[2])) if match else Frame(_ADDRESS.sub("", name[:4096]))
        number = self._sink.call_paths.frame(frame)
        code = self._codes.setdefault(number, len(self._frames))
        if code == len(self._frames):
            self._frames.append(number)
        return code

    def below(self, parent: int, frame: int) -> int:
        """The path `parent` called `frame`."""
        key = ((parent + 1) << 32) | frame
        path = self._known.get(key)
        if path is None:
            path = self._known[key] = len(self._parents)
            self._parents.append(parent)
            self._leaves.append(frame)
        return path

    def _stack(self, text: str) -> int:
        path = NO_PATH
        for name in reversed(text.split(";")[:MAX_DEPTH]):
            if name:
                path = self.below(path, self.frames[name])
        return path

    def call_path_ids(self, paths: Iterable[int]) -> pa.Array:
        """`call_path_id` of paths, null for NO_PATH."""
        ids = self._ids
        return pa.array([ids[path] if path in ids else self._id(path) for path in paths], pa.int64())

    def _id(self, path: int) -> int | None:
        frames, place = [], path
        while place != NO_PATH:
            frames.append(self._frames[self._leaves[place]])
            place = self._parents[place]
        self._ids[path] = found = self._sink.call_paths.path(frames[::-1])
        return found


class Spans:
    """Spans of all threads, then, after `close`, the path at a moment."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._parts: list[tuple[Int32s, Int64s, Int64s, Int32s, Int32s]] = []
        self.count = 0

    def add(self, threads: Int32s, starts: Int64s, ends: Int64s, frames: Int32s, bases: Int32s | None) -> None:
        """Spans as numbers of threads, times in ns and numbers of frames.

        `bases` are paths that spans lie below by their own word, NO_PATH where time tells. Of spans that begin and end
        together the first added is the outer one.
        """
        timed = (starts != NO_TIME) & (ends != NO_TIME) & (ends >= starts)
        known = np.full(len(starts), NO_PATH, np.int32) if bases is None else bases
        part = (threads, starts, ends, frames, known)
        if not timed.all():
            part = (part[0][timed], part[1][timed], part[2][timed], part[3][timed], part[4][timed])
        self._parts.append(part)
        self.count += len(part[0])

    def close(self) -> None:
        """Nest the spans."""
        empty = (np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64))
        parts = self._parts or [(*empty, empty[0], empty[0])]
        threads, starts, ends, frames, bases = (np.concatenate(column) for column in zip(*parts, strict=True))
        self._parts = []
        order = np.lexsort((-ends, starts, threads))
        self._threads, self._starts, self._ends = threads[order], starts[order], ends[order]
        del threads, starts, ends
        self._firsts = np.flatnonzero(np.diff(self._threads, prepend=-1)) if len(order) else np.empty(0, np.int64)
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
            unique, places = np.unique(keys, return_inverse=True)
            paths = [self._paths.below((key >> 32) - 1, key & 0xFFFFFFFF) for key in unique.tolist()]
            self._own[level] = np.array(paths, np.int32)[places]
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
        for thread in np.unique(threads).tolist():
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
