"""Entries of bpftrace's maps, from the text of a key and a value to rows.

A key lists its parts with commas: scalars, and stacks, of which each frame is an indented line:
`\\n    vfs_read+1\\n    ksys_read+2\\n, \\n    __read+4\\n, bash, 12`.
https://github.com/bpftrace/bpftrace/blob/master/docs/language.md (maps, kstack, ustack)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from ingest.bpftrace_stacks import MAX_DEPTH, StackReader, parse_frame
from ingest.callpaths import clean_text
from ingest.numbers import INT64_MAX
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.units import unit_of

PID_MAX = 2**22
UNNAMED = "@"
MAX_TEXT = 256
_SAMPLE = ("event", "ts_ns", "process_id", "process_name", "sample_count", "weight", "unit", "call_path_id")
_METRIC = ("metric", "labels", "ts_ns", "value", "unit", "process_id")
_UNITS = {
    "bytes": "bytes", "size": "bytes", "ns": "ns", "nsecs": "ns", "us": "us", "usecs": "us", "ms": "ms",
    "msecs": "ms", "secs": "seconds", "kb": "KiB", "pages": "pages",
}  # fmt: skip
_USER_FRAME = re.compile(r" [(\[].*[)\]]$|^\s*0{0,4}[0-7][0-9a-f]{0,11} ")


class Key(NamedTuple):
    """Parts of a key in order: `stacks` as stack lines, leaf first, and `scalars` as texts."""

    stacks: tuple[tuple[str, ...], ...] = ()
    scalars: tuple[str, ...] = ()


def parse_key(text: str, separator: str = ", ") -> Key:
    """Key of the text between the brackets; `separator` is a comma alone in JSON."""
    stacks: list[tuple[str, ...]] = []
    scalars: list[str] = []
    frames: list[str] | None = None
    for number, line in enumerate(text.split("\n")):
        if number and line[:1] in (" ", "\t"):
            frames = frames if frames is not None else []
            frames.append(line)
            continue
        if number and not line.strip():
            frames = frames if frames is not None else []  # an empty stack
            continue
        if frames is not None:
            stacks.append(tuple(frames))
            frames = None
        scalars += [part for part in line.strip(", ").split(separator) if part]
    if frames is not None:
        stacks.append(tuple(frames))
    return Key(tuple(stacks), tuple(scalars))


def unit_of_map(name: str) -> str | None:
    """Unit that a map's name tells, None when it tells none."""
    return unit_of(name) or _UNITS.get(name.rpartition("_")[2].lower())


class MapRows:
    """Rows of a file's maps: `stack_samples` for keys with a stack, `metrics` for the others."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._stacks = StackReader(sink, parse_frame)
        self._samples = RowBatch(sink, "stack_samples", _SAMPLE)
        self._metrics = RowBatch(sink, "metrics", _METRIC)
        self.time_ns: int | None = None

    def flush(self) -> None:
        self._samples.flush()
        self._metrics.flush()

    def number(self, name: str, key: Key, value: int) -> None:
        """A count or a sum: what it is, only the map's name can tell. With a unit it is a sum of one occurrence."""
        if abs(value) > INT64_MAX:
            self._lost("numbers_beyond_64_bits", name)
            return
        unit = unit_of_map(name)
        if not key.stacks:
            self._metric(name, key, float(value), unit)
        elif unit is None or unit == "count":
            self._sample(name, key, value, None, "count")
        else:
            self._sample(name, key, 1, value, unit)

    def stats(self, name: str, key: Key, count: int, total: int) -> None:
        """What stats() and, in JSON, avg() give."""
        if max(abs(count), abs(total)) > INT64_MAX:
            self._lost("numbers_beyond_64_bits", name)
            return
        unit = unit_of_map(name)
        if key.stacks:
            self._sample(name, key, count, total, unit)
            return
        self._metric(f"{name}_count", key, float(count), "count")
        self._metric(f"{name}_sum", key, float(total), unit)

    def bucket(self, name: str, key: Key, bounds: tuple[str, str], count: int) -> None:
        """One bucket of a histogram, from the first bound up to the second."""
        if not 0 <= count <= INT64_MAX:
            self._lost("numbers_beyond_64_bits", name)
        elif key.stacks:
            if count:
                self._sample(f"{name} [{bounds[0]}, {bounds[1]})", key, count, None, "count")
        else:
            self._metric(f"{name}_bucket", key, float(count), "count", {"from": bounds[0], "to": bounds[1]})

    def stack(self, name: str, key: Key, frames: Sequence[str]) -> None:
        """A map whose value is a stack."""
        self._sample(name, key._replace(stacks=(*key.stacks, tuple(frames))), 1, None, "count")

    def _sample(self, name: str, key: Key, count: int, weight: int | None, unit: str | None) -> None:
        if count < 0:
            self._lost("negative_values", name)
            return
        process, comm, rest = _who(key.scalars)
        event = f"@{name}[{', '.join(rest)}]" if rest else f"@{name}"
        path = self._stacks.path(self._frames(key.stacks))
        self._samples.add(clean_text(event, MAX_TEXT), self.time_ns, process, comm, count, weight, unit, path)

    def _frames(self, stacks: Iterable[tuple[str, ...]]) -> list[int]:
        """Frame numbers leaf first: the kernel's part comes before the user's, however the key orders them."""
        ordered = sorted(stacks, key=lambda stack: any(_USER_FRAME.search(line[:MAX_TEXT]) for line in stack))
        frames: list[int] = []
        for line in (line for stack in ordered for line in stack):
            if len(frames) >= MAX_DEPTH:
                self._sink.count("deep_stacks", severity="data_loss", detail=f"frames beyond {MAX_DEPTH}")
            elif (frame := self._stacks.frame(line)) is not None:
                frames.append(frame)
        return frames

    def _metric(self, name: str, key: Key, value: float, unit: str | None, more: dict[str, str] | None = None) -> None:
        labels = {f"key{number}": clean_text(text, MAX_TEXT) for number, text in enumerate(key.scalars, 1)}
        text = orjson.dumps(labels | (more or {}), option=orjson.OPT_SORT_KEYS).decode() if labels or more else None
        self._metrics.add(clean_text(name or UNNAMED, MAX_TEXT), text, self.time_ns, value, unit, _who(key.scalars)[0])

    def _lost(self, name: str, map_name: str) -> None:
        self._sink.count(name, severity="data_loss", detail=f"in the map @{map_name[:80]}")


def _who(scalars: tuple[str, ...]) -> tuple[int | None, str | None, list[str]]:
    """Process id and name among a key's scalars, and the rest: the only small number, and the only name beside it.

    bpftrace prints no types: two numbers could be anything, so that none is taken for a process then.
    """
    numbers = [text for text in scalars if text.isascii() and text.isdecimal()]
    names = [text for text in scalars if text not in numbers]
    process = int(numbers[0]) if len(numbers) == 1 and len(numbers[0]) < 8 and int(numbers[0]) <= PID_MAX else None
    comm = names[0] if len(names) == 1 and len(names[0]) < 16 else None
    taken = [numbers[0]] if process is not None else []
    taken += [comm] if comm is not None else []
    return process, comm, [text for text in scalars if text not in taken]
