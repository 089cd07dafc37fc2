"""Collapsed (folded) stacks: a line is `root;caller;leaf count`, as the stackcollapse scripts and many profilers write.

Input of https://github.com/brendangregg/FlameGraph/blob/master/flamegraph.pl. Frames may hold spaces; a name of the
process in front, with or without its ids, is a frame like the others. A file in which nearly every line ends in two
counts is a differential one (difffolded.pl): its counts become the events `before` and `after`. What is counted
(samples, microseconds, bytes) no file says.
"""

from __future__ import annotations

import re
from pathlib import Path

from ingest.bpftrace_stacks import MAX_DEPTH, StackReader
from ingest.callpaths import Frame
from ingest.errors import BadInput
from ingest.numbers import INT64_MAX
from ingest.opening import read_head
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines

_ROW = ("event", "sample_count", "call_path_id")
_COUNT = re.compile(r"0x[0-9a-fA-F]{1,32}|\d{1,40}(?:\.\d{0,40})?", re.ASCII)
_NUMERIC = re.compile(r"[\d\s.,:/+TZ-]*", re.ASCII)
_COMMENTS = ("#", "//")
_SNIFFED_LINES = 500
_MIN_SHARE, _MIN_SHARE_OF_FEW, _FEW = 0.9, 0.75, 20


def sniff(head: bytes, path: Path) -> bool:
    """Nearly every line is a stack and a count, and some stacks have several frames without a space between them."""
    lines = _stack_lines(head)
    stacks = [parts[0] for line in lines if (parts := _parts(line, 1))]
    if not stacks or len(stacks) < len(lines) * (_MIN_SHARE_OF_FEW if len(lines) < _FEW else _MIN_SHARE):
        return False
    folded = [stack for stack in stacks if _is_folded(stack)]
    return bool(folded) and len(folded) >= sum(";" in stack for stack in stacks) * _MIN_SHARE


def _parts(line: str, counts: int) -> list[str] | None:
    """The stack and the texts of its counts; None when the line does not end in so many.

    One blank before a count separates; further ones belong to the last frame, which may be a blank itself.
    """
    found: list[str] = []
    for _ in range(counts):
        line = line.rstrip()
        cut = max(line.rfind(" "), line.rfind("\t"))
        if cut < 1 or not _COUNT.fullmatch(line, cut + 1):
            return None
        found.append(line[cut + 1 :])
        line = line[:cut]
    return None if line.isspace() else [line, *reversed(found)]


def _stack_lines(head: bytes) -> list[str]:
    """The first lines but comments, and but the last one of a long file, which the head may cut."""
    lines = [line for line in head_lines(head) if not line.startswith(_COMMENTS)]
    return lines[:_SNIFFED_LINES] if len(lines) < 2 else lines[: min(_SNIFFED_LINES, len(lines) - (len(head) >= 65536))]


def _is_folded(stack: str) -> bool:
    """Prose and logs have a space after a semicolon, tables numbers between them."""
    if ";" not in stack or "; " in stack or '"' in stack or not stack.isprintable() or "\ufffd" in stack:
        return False
    return not any(_NUMERIC.fullmatch(frame) for frame in stack.split(";", 2)[:2])


def _is_differential(head: bytes) -> bool:
    lines = [line for line in _stack_lines(head) if _parts(line, 1)]
    return bool(lines) and sum(_parts(line, 2) is not None for line in lines) >= len(lines) * _MIN_SHARE


class _Reader:
    def __init__(self, sink: Sink, *, is_differential: bool) -> None:
        self._sink = sink
        self._events = ("before", "after") if is_differential else ("samples",)
        self._stacks = StackReader(sink, Frame)
        self._batch = RowBatch(sink, "stack_samples", _ROW)
        self.rows = 0

    def read(self, lines: TextLines) -> None:
        for number, line in lines:
            if line and not line.isspace() and not line.startswith(_COMMENTS):
                self._line(line, number)
        self._batch.flush()

    def _line(self, line: str, number: int) -> None:
        parts = _parts(line, len(self._events))
        if parts is None:
            self._sink.count(
                "invalid_lines", severity="data_loss", detail=f"no count at its end, first at line {number}"
            )
            return
        counts = [self._count(text, number) for text in parts[1:]]
        if None in counts:
            return
        frames = parts[0].split(";")
        if len(frames) > MAX_DEPTH:
            detail = f"frames beyond {MAX_DEPTH}, first at line {number}"
            self._sink.count("deep_stacks", severity="data_loss", detail=detail)
            frames = frames[:MAX_DEPTH]
        known = [self._stacks.frame(frame) for frame in reversed(frames)]
        path = self._stacks.path([frame for frame in known if frame is not None])
        for event, count in zip(self._events, counts, strict=True):
            self._batch.add(event, count, path)
            self.rows += 1

    def _count(self, text: str, number: int) -> int | None:
        whole, _, fraction = text.partition(".")
        value = int(whole, 16) if whole.startswith("0x") else int(whole)
        if fraction.strip("0"):
            self._sink.count("fractional_counts", detail=f"rounded, first at line {number}")
            value += fraction[0] >= "5"
        if value > INT64_MAX:
            self._sink.count("numbers_beyond_64_bits", severity="data_loss", detail=f"count, first at line {number}")
            return None
        return value


def read(path: Path, sink: Sink) -> None:
    """Read `stack_samples`, one row a line (two of a differential file); lines without a count are counted.

    Raises BadInput when no line is a stack and a count.
    """
    reader = _Reader(sink, is_differential=_is_differential(read_head(path)))
    with open_lines(path, sink) as lines:
        reader.read(lines)
    if not reader.rows:
        raise BadInput("no line in it is a stack and a count", where=str(path), todo="collapse the stacks again")


IMPORTER = Importer(
    name="collapsed",
    priority=90,
    title="Collapsed (folded) stacks",
    source="collapsed",
    clock="unknown",
    versions="`root;caller;leaf count`, whole, decimal or hexadecimal counts, one or two of them",
    produced_by="stackcollapse-perf.pl and its siblings, inferno, async-profiler, py-spy, `leakpath folded`",
    recipe="perf script | stackcollapse-perf.pl > stacks.folded",
    left_out="comments; what the counts are of",
    reference="https://github.com/brendangregg/FlameGraph/blob/master/flamegraph.pl",
    tables=("stack_samples", "frames", "call_paths"),
    sniff=sniff,
    read=read,
)
