"""Counts of events by stack, as printed by bcc's stackcount.

`Tracing 1 functions for "submit_bio"... Hit Ctrl-C to end.`, then for each stack its frames, leaf first and kernel
before user (`-d` puts `--` between them), the process (`    tar [15069]`, which old releases print first) and the
count. `-T` adds times of day, `-s` offsets, `-v` addresses; `-f` prints folded lines without a header (see the importer
of collapsed stacks), which are read here too where they stand among other output.
https://github.com/iovisor/bcc/blob/master/tools/stackcount.py
"""

from __future__ import annotations

import re
from pathlib import Path

from ingest.bcc_frames import parse_bcc_frame
from ingest.bpftrace_stacks import MAX_DEPTH, StackReader
from ingest.daytime import DayTimes
from ingest.numbers import INT64_MAX
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines

_ROW = ("event", "ts_ns", "process_id", "process_name", "sample_count", "call_path_id")
_BEGIN = re.compile(r"Tracing \d{1,9} functions for \"(.{0,512})\"\.\.\. Hit Ctrl-C to end\.")
_FUNCCOUNT = re.compile(r"FUNC +COUNT")
_COMMAND = re.compile(r"[#$]? ?\S{0,256}stackcount(?:-bpfcc|\.py)? (?:.{0,512} )?([^-\s]\S{0,512})\s*")
_TIME = re.compile(r"\d\d:\d\d:\d\d")
_COUNT = re.compile(r" {3,8}(\d{1,40})\s*|(\d{1,40})", re.ASCII)
_PROCESS = re.compile(r" {3,8}(.{0,64}) \[(\d{1,10})\]\s*", re.ASCII)
_FOLDED = re.compile(r"(?:\^C)?(\S[^;]{0,64};.+) (\d{1,19})", re.ASCII)
_BYTES = re.compile(r"b'(.*)'")
UNNAMED_EVENT = "stackcount"


def sniff(head: bytes, path: Path) -> bool:
    """The line it starts with, which funccount shares: that one prints a table."""
    lines = head_lines(head)
    return any(map(_BEGIN.fullmatch, lines)) and not any(map(_FUNCCOUNT.match, lines))


def _text(text: str) -> str:
    """Without the b'' that some releases print around bytes."""
    match = _BYTES.fullmatch(text)
    return match[1] if match else text


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._times = DayTimes(sink)
        self._stacks = StackReader(sink, parse_bcc_frame)
        self._batch = RowBatch(sink, "stack_samples", _ROW, unit="count")
        self._event = UNNAMED_EVENT
        self._time: int | None = None
        self._is_tracing = False
        self._frames: list[int] = []
        self._lines = 0
        self._is_damaged = False
        self._process: tuple[str, int] | None = None

    def read(self, lines: TextLines) -> None:
        for number, line in lines:
            text = line.strip()
            if not text or text == "^C":
                self._drop(number)
            elif lines.is_cut and text != "Detaching...":
                self._lost("cut_last_line", number)
            else:
                self._line(line, text, number)
        self._drop(0)
        self._batch.flush()

    def _line(self, line: str, text: str, number: int) -> None:
        if match := _BEGIN.fullmatch(text):
            self._event, self._is_tracing, self._time = _text(match[1]) or UNNAMED_EVENT, True, None
        elif text == "Detaching...":
            self._drop(number)
            self._is_tracing = False
        elif _TIME.fullmatch(text):
            self._time = self._times.ns(text)
        elif line[0] not in " \t" and (match := _COMMAND.fullmatch(line)):
            self._event, self._is_tracing, self._time = match[1].strip("'\"") or UNNAMED_EVENT, True, None
        elif line.startswith(("# ", "$ ")):
            self._is_tracing = False
        elif self._lines and (match := _COUNT.fullmatch(line)):
            self._finish(match[1] or match[2], number)
        elif match := _FOLDED.fullmatch(line):
            self._folded(match[1], match[2], number)
        elif not self._is_tracing:
            self._sink.count("other_lines", detail=f"first at line {number}")
        elif text == "--":
            pass
        elif match := _PROCESS.fullmatch(line):
            self._process = (_text(match[1]), int(match[2]))
        elif line[0] in " \t":
            self._frame(line, number)
        elif self._lines:
            # Within a stack it is a damaged frame: what follows must not pass for a whole stack.
            self._is_damaged = True
        else:
            self._sink.count("other_lines", detail=f"first at line {number}")

    def _frame(self, line: str, number: int) -> None:
        self._lines += 1
        if len(self._frames) >= MAX_DEPTH:
            self._lost("deep_stacks", number, f"frames beyond {MAX_DEPTH}")
        elif (frame := self._stacks.frame(line)) is not None:
            self._frames.append(frame)

    def _finish(self, count: str, number: int) -> None:
        name, pid = self._process or (None, None)
        if self._is_damaged:
            self._lost("damaged_stacks", number)
        else:
            self._add(name, pid, count, self._frames, number)
        self._clear()

    def _clear(self) -> None:
        self._frames, self._lines, self._process, self._is_damaged = [], 0, None, False

    def _folded(self, stack: str, count: str, number: int) -> None:
        name, *functions = stack.split(";")
        frames = [self._stacks.frame(function) for function in functions if function != "-"]
        if len(frames) > MAX_DEPTH:
            self._lost("deep_stacks", number, f"frames beyond {MAX_DEPTH}")
        leaf_first = [frame for frame in frames[::-1] if frame is not None][:MAX_DEPTH]
        self._add(name, None, count, leaf_first, number)

    def _add(self, name: str | None, pid: int | None, count: str, frames: list[int], number: int) -> None:
        if int(count) > INT64_MAX:
            self._lost("numbers_beyond_64_bits", number, "count")
            return
        self._batch.add(self._event, self._time, pid, name, int(count), self._stacks.path(frames))

    def _drop(self, number: int) -> None:
        """Forget a stack whose count never came."""
        if self._lines:
            self._lost("stacks_without_count", number)
        self._clear()

    def _lost(self, name: str, number: int, detail: str = "") -> None:
        place = f"first at line {number}" if number else "at the end of the file"
        self._sink.count(name, severity="data_loss", detail=f"{detail}, {place}" if detail else place)


def read(path: Path, sink: Sink) -> None:
    """Read `stack_samples`; the event is the traced pattern, `ts_ns` the time of day with `-T`, see `daytime`."""
    with open_lines(path, sink) as lines:
        _Reader(sink).read(lines)


IMPORTER = Importer(
    name="stackcount",
    priority=35,
    title="Counts of events by stack (stackcount)",
    source="ebpf",
    clock="unknown",
    versions="bcc up to 0.36, with -p, -P, -T, -d, -s, -v and -i",
    produced_by="stackcount",
    recipe="stackcount-bpfcc -P t:kmem:kmalloc > stackcount.txt",
    left_out="offsets within a function, where the kernel's part of a stack ends",
    reference="https://github.com/iovisor/bcc/blob/master/tools/stackcount.py",
    tables=("stack_samples", "frames", "call_paths"),
    sniff=sniff,
    read=read,
)
