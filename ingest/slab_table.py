"""Kernel slab allocations as a table of text, `Time(ns) CPU Cache Op Addr Bytes`, printed by a bpftrace script.

The header line names the columns: time, cache, operation and address are needed, CPU, PID, TID and Bytes may be
missing; rows whose header is cut off are read by their form. `ingest/collect/bpf/kernel_slab.bt` is such a script;
times are bpftrace's `nsecs` (taken for CLOCK_MONOTONIC) unless a comment `# … clock=boottime` says otherwise. Indented
lines below a row are its stack, leaf first.
https://github.com/bpftrace/bpftrace/blob/master/man/adoc/bpftrace.adoc (nsecs),
https://github.com/torvalds/linux/blob/master/include/trace/events/kmem.h (the tracepoints behind it)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ingest.bpftrace_comments import Comments
from ingest.bpftrace_stacks import MAX_DEPTH, StackReader
from ingest.errors import BadInput
from ingest.kernel_objects import ObjectFrames
from ingest.numbers import NumberReader
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines

_ROW = ("action", "ts_ns", "thread_id", "address", "size_bytes", "cpu_index", "name", "call_path_id")
_NAMES = {
    "time(ns)": "time", "time": "time", "nsecs": "time", "cpu": "cpu", "pid": "pid", "tid": "tid", "cache": "cache",
    "name": "cache", "op": "op", "operation": "op", "addr": "address", "address": "address", "ptr": "address",
    "bytes": "bytes", "size": "bytes",
}  # fmt: skip
_ROW_ALONE = re.compile(r"\d{4,19} (\d{1,5} )?\S{1,100} (?:ALLOC|FREE) 0x[0-9a-f]{6,16}( \d{1,12})?\s*", re.ASCII)
_NEEDED = ("time", "cache", "op", "address")
_LOST = re.compile(r"(?i)\s*(?:WARNING: )?lost (\d{1,15}) (?:events|samples|records)")
_NOISE = re.compile(r"Attach(?:ing|ed) \d+ probes?|WARNING:|stdin:|\^C|@\w*[:\[]")


def columns_of(line: str) -> list[str] | None:
    """The columns that a header line names, None when it is none of this format's."""
    if len(line) > 200:
        return None
    names = [_NAMES.get(word.lower(), "") for word in line.split()]
    is_header = "" not in names and len(set(names)) == len(names) and set(_NEEDED) <= set(names)
    return names if is_header else None


def columns_of_row(line: str) -> list[str] | None:
    """The columns of a row that has lost its header, None when it does not look like one."""
    match = _ROW_ALONE.fullmatch(line[:400])
    if match is None:
        return None
    return ["time", *(["cpu"] if match[1] else []), "cache", "op", "address", *(["bytes"] if match[2] else [])]


def sniff(head: bytes, path: Path) -> bool:
    """A header line with the needed columns, or a row as the scripts print it."""
    return any(columns_of(line) or columns_of_row(line) for line in head_lines(head))


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._numbers = NumberReader(sink)
        self._comments = Comments(sink)
        self._stacks = StackReader(sink)
        # The kernel owns the memory, whoever frees it: process 0.
        self._batch = RowBatch(sink, "memory_events", _ROW, level="host", memory_kind="slab", process_id=0)
        self._columns: list[str] = []
        self._row: tuple[Any, ...] | None = None
        self._stack: list[int] = []
        self._objects = ObjectFrames(sink)
        self._widest_address = 0

    def read(self, lines: TextLines) -> bool:
        for number, line in lines:
            if not line or line.isspace():
                continue
            if self._columns and line[0].isdecimal():  # nearly all of them
                self._finish()
                self._record(line, number, is_cut=lines.is_cut)
            elif line.startswith("#"):
                self._comments.take(line, is_cut=lines.is_cut)
            elif line[0] in " \t" and self._row is not None:
                self._frame(line, is_cut=lines.is_cut)
            elif match := _LOST.match(line):
                self._sink.count("lost_events", int(match[1]), severity="data_loss", detail="bpftrace dropped events")
            elif columns := columns_of(line):
                self._finish()
                self._columns = columns
            elif _NOISE.match(line):
                pass
            elif not self._columns and (columns := columns_of_row(line)):
                self._sink.count("header_missing", detail=f"columns are taken from the row at line {number}")
                self._columns = columns
                self._record(line, number, is_cut=lines.is_cut)
            elif not self._columns:
                self._lost("unreadable_lines", number)
            else:
                self._finish()
                self._record(line, number, is_cut=lines.is_cut)
        self._finish()
        self._batch.flush()
        return bool(self._columns)

    def _finish(self) -> None:
        if self._row is not None:
            self._batch.add(*self._row, self._stacks.path([*self._objects.of(self._row[-1]), *self._stack]))
        self._row = None
        self._stack = []

    def _frame(self, line: str, *, is_cut: bool) -> None:
        if len(self._stack) >= MAX_DEPTH:
            self._sink.count("deep_stacks", severity="data_loss", detail=f"frames beyond {MAX_DEPTH}")
        elif is_cut:
            self._sink.count("cut_last_record", severity="data_loss", detail="the file ends in the middle of a stack")
        elif (frame := self._stacks.frame(line)) is not None:
            self._stack.append(frame)

    def _record(self, line: str, number: int, *, is_cut: bool) -> None:
        words = line.split()
        extra = len(words) - len(self._columns)
        if extra < 0:
            self._lost("damaged_rows", number, f"{len(words)} fields of {len(self._columns)}")
            return
        if is_cut and (self._columns[-1] != "address" or len(words[-1]) < self._widest_address):
            self._lost("cut_last_line", number, "no line end")
            return
        # Only a cache's name can hold spaces (those of memory cgroups up to Linux 5.8).
        place = self._columns.index("cache")
        words[place : place + extra + 1] = [" ".join(words[place : place + extra + 1])]
        fields = dict(zip(self._columns, words, strict=True))
        time = self._numbers.time_ns(fields["time"], "time", number)
        address = self._numbers.address(fields["address"], "address", number) if time is not None else None
        if time is None or address is None:
            return
        action = self._action(fields["op"], address, number)
        size = self._optional(fields, "bytes", number)
        thread = self._optional(fields, "tid", number)
        if thread is None:
            thread = self._optional(fields, "pid", number)
        cpu = self._optional(fields, "cpu", number)
        if cpu is not None and cpu >= 2**31:
            self._lost("numbers_beyond_64_bits", number, "cpu")
            cpu = None
        self._widest_address = max(self._widest_address, len(fields["address"]))
        # A free does not know its size, and the scripts print 0 for it.
        size = None if action != "alloc" and size == 0 else size
        self._row = (action, time, thread, address, size, cpu, fields["cache"][:256])

    def _optional(self, fields: dict[str, str], name: str, number: int) -> int | None:
        return self._numbers.integer(fields[name], name, number) if name in fields else None

    def _action(self, operation: str, address: int, number: int) -> str:
        word = operation.lower()
        if address == 0:
            # A failed allocation or a free of null: as an event of either kind it would have no partner.
            self._sink.count("null_addresses", detail=f"first at line {number}")
        elif "alloc" in word or word == "+":
            return "alloc"
        elif "free" in word or word == "-":
            return "free"
        else:
            self._sink.count("unknown_operations", detail=f"{operation[:80]}, first at line {number}")
        return "other"

    def _lost(self, name: str, number: int, detail: str = "") -> None:
        place = f"first at line {number}"
        self._sink.count(name, severity="data_loss", detail=f"{detail}, {place}" if detail else place)


def read(path: Path, sink: Sink) -> None:
    """Read `memory_events` of level host; BadInput when no line names the columns."""
    with open_lines(path, sink) as lines:
        if not _Reader(sink).read(lines):
            todo = "the first line must be as in `Time(ns) CPU Cache Op Addr Bytes`"
            raise BadInput("no header of a slab table", where=str(path), todo=todo)


IMPORTER = Importer(
    name="slab_table",
    priority=33,
    title="Kernel slab allocations (table of text)",
    source="ebpf",
    clock="monotonic",
    versions="columns Time(ns), Cache, Op, Addr; CPU, PID, TID and Bytes where there; with or without kernel stacks",
    produced_by="a bpftrace script with probes on the kmem tracepoints, as `leakpath collect ebpf slab` makes it",
    recipe="leakpath collect ebpf slab",
    left_out="offsets within a function",
    reference="https://github.com/torvalds/linux/blob/master/include/trace/events/kmem.h",
    tables=("memory_events", "frames", "call_paths"),
    sniff=sniff,
    read=read,
)
