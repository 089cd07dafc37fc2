"""Outstanding allocations by stack, as printed by memleak of bcc and of libbpf-tools.

Each interval is a line `[HH:MM:SS] Top N stacks with outstanding allocations:`, then for each stack
`B bytes in N allocations from stack` and its frames, leaf first. `-a` adds lines `addr = 948cd0 size = 16`: bcc prints
them before the stacks and does not tell whose they are, libbpf-tools below the stack's first line. bcc's `-t` prints a
tuple of trace_pipe's fields for each call. The program's own output and prose between these lines are passed over.
https://github.com/iovisor/bcc/blob/master/tools/memleak.py, …/libbpf-tools/memleak.c
"""

from __future__ import annotations

import re
from pathlib import Path

from ingest.bcc_frames import is_surely_frame, parse_bcc_frame
from ingest.bpftrace_stacks import MAX_DEPTH, StackReader
from ingest.daytime import DayTimes
from ingest.numbers import NumberReader, seconds_to_ns
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines

_SAMPLE = ("ts_ns", "process_id", "sample_count", "weight", "call_path_id")
_EVENT = (
    "action", "ts_ns", "process_id", "thread_id", "cpu_index", "address", "size_bytes", "memory_kind", "call_path_id",
)  # fmt: skip
MAX_HELD_ALLOCATIONS = 100_000

_INTERVAL = re.compile(
    r"\s*\[(\d{1,2}:\d{1,2}:\d{1,2})\] Top \d{1,20} stacks with outstanding allocations:\s*", re.ASCII
)
_STACK = re.compile(r"\s*(\d{1,40}) bytes in (\d{1,40}) allocations from stack\s*", re.ASCII)
_ALLOCATION = re.compile(r"\s*addr = ((?:0x)?[0-9a-fA-F]{1,40}) size = (\d{1,40})\s*", re.ASCII)
_ATTACHED = re.compile(r"\s*Attaching to (?:pid (\d{1,10})|(kernel) allocators), Ctrl\+C to quit\.\s*", re.ASCII)
_CALL = re.compile(
    r"\(b?'.{0,64}?', (\d{1,10}), (\d{1,6}), b?'[^']{0,16}', (\d{1,12}(?:\.\d{1,9})?), b?['\"](?:"
    r"alloc exited, size = (\d{1,20}), result = ([0-9a-f]{1,16})"
    r"|free entered, address = ([0-9a-f]{1,16}), size = \d{1,20}|(alloc entered), size = \d{1,20})['\"]\)",
    re.ASCII,
)
_MISSING_STACKS = re.compile(r"WARNING: (\d{1,15}) stack traces could not be displayed")
_LOST_STACK = "stack information lost"
# What a line of ours looks like after damage: worth to be called lost, unlike prose.
_NEARLY = re.compile(r"stacks with outstanding|allocations from st|\b bytes in \d|\baddr = |\bsize = \d")


def sniff(head: bytes, path: Path) -> bool:
    """A line that starts an interval or a stack, or one that only memleak prints at its start."""
    patterns = (_INTERVAL, _STACK, _ATTACHED, _CALL)
    return any(pattern.fullmatch(line) for line in head_lines(head) for pattern in patterns)


def _indentation(line: str) -> int:
    return len(line.expandtabs(8)) - len(line.expandtabs(8).lstrip())


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._numbers = NumberReader(sink)
        self._times = DayTimes(sink)
        self._stacks = StackReader(sink, parse_bcc_frame)
        self._samples = RowBatch(sink, "stack_samples", _SAMPLE, event="outstanding", unit="bytes")
        self._events = RowBatch(sink, "memory_events", _EVENT, level="host")
        self._process: int | None = None
        self._processes: set[int] = set()
        self._time: int | None = None
        self._kind: str | None = None
        self._stack: tuple[int, int, int] | None = None  # indentation, allocations, bytes
        self._frames: list[int] = []
        self._held: list[tuple[int, int]] = []
        self._is_interval_empty = False
        self._has_lost_stack = False

    def read(self, lines: TextLines) -> None:
        for number, line in lines:
            if not line or line.isspace():
                self._finish()
            elif lines.is_cut and not line.endswith("]") and not line.endswith(":"):
                self._lost("cut_last_line", number, "no line end")
            else:
                self._line(line, number)
        self._finish()
        self._end_interval()
        self._samples.flush()
        self._events.flush()
        if len(self._processes) == 1:
            self._sink.process_id = self._processes.pop()

    def _line(self, line: str, number: int) -> None:
        if match := _ALLOCATION.fullmatch(line):
            self._allocation(match[1], match[2], number)
        elif match := _STACK.fullmatch(line):
            self._finish()
            self._begin(_indentation(line), match[1], match[2], number)
        elif match := _INTERVAL.fullmatch(line):
            self._finish()
            self._end_interval()
            self._is_interval_empty = True
            self._time = self._times.ns(match[1])
        elif match := _ATTACHED.fullmatch(line):
            self._finish()
            self._end_interval()
            self._time = None
            self._process, self._kind = (0, None) if match[2] else (int(match[1]), "heap")
            if self._process and len(self._processes) < 2:
                self._processes.add(self._process)
        elif match := _CALL.fullmatch(line):
            self._finish()
            self._call(match, number)
        elif match := _MISSING_STACKS.match(line):
            self._sink.count("stacks_lost_by_producer", int(match[1]), severity="data_loss", detail=line[:200])
        elif _NEARLY.search(line[:400]):
            self._finish()
            self._has_lost_stack = True
            self._lost("damaged_rows", number)
        elif self._has_lost_stack and is_surely_frame(line):
            self._lost("stack_lines_without_stack", number)
        elif not self._frame(line, number):
            self._finish()
            self._sink.count("other_lines", detail=f"first at line {number}")

    def _begin(self, indentation: int, size: str, count: str, number: int) -> None:
        self._is_interval_empty = self._has_lost_stack = False
        weight, allocations = (self._numbers.integer(text, "stack", number) for text in (size, count))
        if weight is None or allocations is None:
            self._has_lost_stack = True
        else:
            self._stack = (indentation, allocations, weight)

    def _frame(self, line: str, number: int) -> bool:
        """Take a line as a frame of the current stack: indented deeper than its head, or surely a frame."""
        if self._stack is None or not (_indentation(line[:400]) > self._stack[0] or is_surely_frame(line)):
            return False
        if line.strip() == _LOST_STACK:
            self._lost("stacks_lost_by_producer", number)
        elif len(self._frames) >= MAX_DEPTH:
            self._lost("deep_stacks", number, f"frames beyond {MAX_DEPTH}")
        elif (frame := self._stacks.frame(line)) is not None:
            self._frames.append(frame)
        return True

    def _allocation(self, address_text: str, size_text: str, number: int) -> None:
        self._is_interval_empty = False
        address = self._numbers.address(address_text, "addr", number)
        size = self._numbers.integer(size_text, "size", number)
        if address is None or size is None:
            return
        if self._frames:  # of the next interval, whose first line is damaged
            self._finish()
        if self._stack is None:
            self._snapshot(address, size, None)
        else:
            self._held.append((address, size))
            if len(self._held) >= MAX_HELD_ALLOCATIONS:
                self._lost("allocations_without_stack", number, "more below one stack than are held")
                self._release(None)

    def _snapshot(self, address: int, size: int, path: int | None) -> None:
        self._events.add("snapshot", self._time, self._process, None, None, address, size, self._kind, path)

    def _release(self, path: int | None) -> None:
        for address, size in self._held:
            self._snapshot(address, size, path)
        self._held.clear()

    def _finish(self) -> None:
        if self._stack is not None:
            path = self._stacks.path(self._frames)
            self._samples.add(self._time, self._process, self._stack[1], self._stack[2], path)
            self._release(path)
        self._stack = None
        self._frames = []

    def _end_interval(self) -> None:
        if self._is_interval_empty:
            self._sink.count("empty_intervals", detail="intervals without an outstanding allocation")
        self._is_interval_empty = self._has_lost_stack = False

    def _call(self, match: re.Match[str], number: int) -> None:
        """One traced call: an allocation counts at its return, where its address is known."""
        if match[7]:
            return
        self._sink.clock = "perf"
        address = int(match[5] or match[6], 16)
        size = self._numbers.integer(match[4], "size", number) if match[4] else None
        action = ("alloc" if match[4] else "free") if address else "other"
        time, thread, cpu = seconds_to_ns(match[3]), int(match[1]), int(match[2])
        self._events.add(action, time, self._process, thread, cpu, address, size, self._kind, None)

    def _lost(self, name: str, number: int, detail: str = "") -> None:
        place = f"first at line {number}"
        self._sink.count(name, severity="data_loss", detail=f"{detail}, {place}" if detail else place)


def read(path: Path, sink: Sink) -> None:
    """Read `stack_samples` (allocations and bytes outstanding by stack) and `memory_events` (`-a`, `-t`) of level host.

    Both name process 0 where kernel allocators were traced. Times of day give `ts_ns` from midnight, see `daytime`.
    """
    with open_lines(path, sink) as lines:
        _Reader(sink).read(lines)


IMPORTER = Importer(
    name="memleak",
    priority=34,
    title="Outstanding allocations by stack (memleak of bcc and libbpf-tools)",
    source="ebpf",
    clock="unknown",
    versions="bcc and libbpf-tools up to 0.36, user and kernel allocators, -a, -t, --combined-only",
    produced_by="memleak",
    recipe="memleak-bpfcc -p PID 5 > memleak.txt",
    left_out="offsets within a function",
    reference="https://github.com/iovisor/bcc/blob/master/tools/memleak.py",
    tables=("stack_samples", "memory_events", "frames", "call_paths"),
    sniff=sniff,
    read=read,
)
