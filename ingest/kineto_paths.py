"""Paths of calls as numbers: each is the path of its caller and a frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pyarrow as pa

from ingest.callpaths import Frame
from ingest.sink import Sink

NO_PATH = -1
MAX_KNOWN_NAMES = 200_000
MAX_DEPTH = 1000
"""Frames of a path."""

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
        self._chains: dict[int, tuple[int, ...]] = {NO_PATH: ()}
        """Numbers of frames of the paths with an id: the very tuples that `CallPaths` keeps."""

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
        while place not in self._chains:
            frames.append(self._frames[self._leaves[place]])
            place = self._parents[place]
        chain = self._chains[path] = (*self._chains[place], *frames[::-1])
        self._ids[path] = found = self._sink.call_paths.path(chain)
        return found
