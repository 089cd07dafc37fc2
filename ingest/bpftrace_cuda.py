"""CUDA driver memory calls with user stacks, as text printed by a bpftrace script.

A record is a line `nsecs pid tid call address bytes result`, then its stack, leaf first, one indented line a
frame, then blank lines. A comment `# bpftrace cuda_mem clock=monotonic` declares the clock of `nsecs`
(https://github.com/bpftrace/bpftrace/blob/master/man/adoc/bpftrace.adoc, nsecs). For cuMemCreate and
cuMemRelease the address is the allocation handle. Calls are timed at their entry but printed at their return,
so records of different threads, and a call's free, need not be in order of time.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ingest.bpftrace_comments import Comments
from ingest.bpftrace_stacks import MAX_DEPTH, StackReader
from ingest.cuda_calls import CallMeaning, meaning_of
from ingest.numbers import INT64_MAX, UINT64_MAX
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines

_ROW = (
    "action", "ts_ns", "process_id", "thread_id", "address", "size_bytes", "memory_kind", "return_code", "name",
    "call_path_id",
)  # fmt: skip

_RECORD = re.compile(r"\d+\s+\d+\s+\d+\s+cu[A-Z]\w+\s+(?:[0-9a-fA-Fx]+|\(nil\))\s+\w+\s+-?\w+", re.ASCII)
_INTEGER = re.compile(r"-?(?:0x[0-9a-fA-F]{1,40}|\d{1,40})", re.ASCII)
_BARE_HEX = re.compile(r"(?=\d*[a-fA-F])[0-9a-fA-F]{1,40}", re.ASCII)
_FRAME = re.compile(r"[0-9a-fA-F]{4,16} .+ \(.*\)")
_COMMENT = "# bpftrace cuda_mem"
_LOST = re.compile(r"(?i)\blost (\d{1,15}) (?:events|samples|records)")
# What bpftrace itself prints around the records: probe counts, the maps it dumps at its end, warnings.
_NOISE = re.compile(r"Attach(?:ing|ed) \d+ probes?|@|WARNING:|stdin:|\^C")


def sniff(head: bytes, path: Path) -> bool:
    """The script's own comment, or a line that is a driver call."""
    return any(line.startswith(_COMMENT) or _RECORD.match(line) for line in head_lines(head))


def _number(text: str) -> int:
    """A number in decimal, or in hexadecimal with 0x in front."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"not a number: {text[:40]!r}")
    return int(text, 0) if "0x" in text else int(text)


def _address(text: str) -> int:
    """An address: also hexadecimal without 0x when a letter among the digits says so, and printf's (nil)."""
    if text == "(nil)":
        return 0
    return int(text, 16) if _BARE_HEX.fullmatch(text) else _number(text)


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._stacks = StackReader(sink)
        self._batch = RowBatch(sink, "memory_events", _ROW, level="driver")
        self._row: tuple[Any, ...] | None = None
        self._stack: list[int] = []
        self._pids: set[int] = set()
        self._comments = Comments(sink)

    def read(self, lines: TextLines) -> None:
        for number, line in lines:
            if not line or line.isspace():
                if self._stack:
                    self._finish()
            elif line[0] in " \t":
                self._frame(line, number, is_cut=lines.is_cut)
            elif line.startswith("#"):
                self._comments.take(line, is_cut=lines.is_cut)
            else:
                self._line(line, number)
        if lines.is_cut and self._row is not None:
            self._count("cut_last_record", "the file ends in the middle of a record")
        self._finish()
        self._batch.flush()
        if not self._comments.has_clock:
            self._sink.clock = "unknown"
            self._sink.count("clock_not_declared", detail="no `# bpftrace cuda_mem clock=…` line")
        if len(self._pids) == 1:
            self._sink.process_id = self._pids.pop()

    def _finish(self) -> None:
        if self._row is not None:
            self._batch.add(*self._row, self._stacks.path(self._stack))
        self._row = None
        self._stack = []

    def _frame(self, line: str, number: int, *, is_cut: bool = False) -> None:
        if self._row is None:
            self._count("stack_lines_without_call", f"first at line {number}")
        elif len(self._stack) >= MAX_DEPTH:
            self._count("deep_stacks", f"frames beyond {MAX_DEPTH}, first at line {number}")
        elif not is_cut and (frame := self._stacks.frame(line)) is not None:
            self._stack.append(frame)

    def _line(self, line: str, number: int) -> None:
        if match := _LOST.search(line):
            self._sink.count("lost_events", int(match[1]), severity="data_loss", detail="bpftrace dropped events")
        elif _NOISE.match(line):
            pass
        elif len(fields := line.split(maxsplit=7)) > 3 and fields[3].startswith("cu"):
            self._finish()
            self._record(fields, number)
        elif self._row is not None and _FRAME.fullmatch(line):
            self._frame(line, number)
        else:
            self._count("unreadable_lines", f"first at line {number}")
            if not self._stack:  # perhaps the head of a record: its stack must not go to the record before it
                self._finish()

    def _record(self, fields: list[str], number: int) -> None:
        call = fields[3]
        try:
            if len(fields) < 7:
                raise ValueError(f"{len(fields)} fields of 7")
            ts_ns, pid, tid, size, result = (_number(fields[place]) for place in (0, 1, 2, 5, 6))
            address = _address(fields[4])
        except ValueError as error:
            self._count("damaged_rows", f"{error}, first at line {number}")
            return
        if address > UINT64_MAX or max(ts_ns, pid, tid, size, abs(result)) > INT64_MAX:
            self._count("numbers_beyond_64_bits", f"first at line {number}")
            return
        if min(ts_ns, pid, tid, address, size) < 0:
            self._count("negative_values", f"first at line {number}")
            return
        meaning = meaning_of(call)
        # A free does not know its size and the script prints 0 for it.
        is_free = call.startswith("cudaFree") or (meaning is not None and meaning.action in ("free", "release"))
        if meaning is None:
            self._sink.count("unknown_calls", detail=f"{call[:80]}, first at line {number}")
            meaning = CallMeaning("other", None)
        elif meaning.action == "free" and address == 0:
            # Freeing a null pointer does nothing; as a free it would stand for an allocation nobody saw.
            self._sink.count("frees_of_null", detail=f"first at line {number}")
            meaning = CallMeaning("other", None)
        if len(self._pids) < 2:
            self._pids.add(pid)
        size_bytes = None if is_free and size == 0 else size
        self._row = (
            meaning.action, ts_ns, pid, tid, address, size_bytes, meaning.memory_kind, result, call[:256],
        )  # fmt: skip

    def _count(self, name: str, detail: str) -> None:
        self._sink.count(name, severity="data_loss", detail=detail)


def read(path: Path, sink: Sink) -> None:
    """Read `memory_events` of level driver with their call paths; damage is counted record by record."""
    with open_lines(path, sink) as lines:
        _Reader(sink).read(lines)


IMPORTER = Importer(
    name="bpftrace_cuda",
    priority=30,
    title="CUDA memory calls with user stacks (bpftrace text)",
    source="ebpf",
    clock="monotonic",
    versions="fields nsecs, pid, tid, call, address, bytes, result; stacks in any mode of ustack",
    produced_by="a bpftrace script with probes on libcuda's cuMem* functions, as `leakpath collect ebpf cuda` makes it",
    recipe="leakpath collect ebpf cuda",
    left_out="offsets within a function",
    reference="https://github.com/bpftrace/bpftrace/blob/master/man/adoc/bpftrace.adoc",
    tables=("memory_events", "frames", "call_paths"),
    sniff=sniff,
    read=read,
)
