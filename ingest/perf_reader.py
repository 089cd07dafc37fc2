"""Reads the blocks of perf script text: a sample, its stack, and what stands between them."""

from __future__ import annotations

import re
from typing import NamedTuple

from ingest.callpaths import clean_text
from ingest.numbers import INT32_MAX, INT64_MAX
from ingest.perf_frames import PerfStacks, is_frame, parse_frame
from ingest.perf_header import PerfHeader
from ingest.perf_kmem import KmemRows
from ingest.perf_sample import Groups, event_facts, match_any, match_block, match_timed, time_ns
from ingest.perf_tasks import PerfTasks
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textblocks import TextBlocks

_ROW = (
    "event", "ts_ns", "process_id", "thread_id", "process_name", "cpu_index", "weight", "unit",
    "call_path_id",
)  # fmt: skip
_LOST = re.compile(r"(?i)(?:LOST (\d{1,15}) events|.*\blost (\d{1,15}) (events|samples|chunks)\b)", re.ASCII)
_MAX_STACK_LINES = 4096
_MAX_HEADS = 100_000


class _Head(NamedTuple):
    """What a sample's first line says apart from its time, period and fields."""

    event: str
    process_id: int | None
    thread_id: int | None
    process_name: str | None
    cpu_index: int | None
    unit: str
    is_tracepoint: bool


class PerfReader:
    """Reads the blocks of one file into `stack_samples`, `memory_events` and `processes`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._header = PerfHeader(sink)
        self._stacks = PerfStacks(sink)
        self._match, self._known = match_block, self._stacks.known
        self._tasks = PerfTasks(sink)
        self._kmem = KmemRows(sink, self._stacks)
        self._batch = RowBatch(sink, "stack_samples", _ROW, sample_count=1)
        self._heads: dict[tuple[str, str], _Head] = {}
        self._sample: Groups | None = None
        self._stack: list[str] = []
        self._place = 0
        self._has_blank_lines = False
        self.samples = 0

    def read(self, blocks: TextBlocks) -> None:
        """Read all blocks of a file. The last one is empty when the file ends in a blank line."""
        for number, text, is_end in blocks.blocks():
            if not text:
                self._finish()
            elif self._sample is not None or not is_end or blocks.is_last or not self._block(text, number):
                self._lines(text, number, is_cut=blocks.is_cut)
                if is_end and not blocks.is_last:
                    self._finish()
            self._has_blank_lines |= is_end and not blocks.is_last
        self._end()
        self._batch.flush()
        self._kmem.flush()
        self._tasks.write()

    def _block(self, text: str, number: int) -> bool:
        """Take a block that is one sample of the usual form and its stack; False for any other."""
        if (match := self._match(text)) is None:
            return False
        left, seconds, fraction, period, event, fields = match.groups()
        facts = self._heads.get((left, event))
        if facts is None:
            groups = match_timed(text[: match.end()].rstrip("\n"))
            if groups is None or groups[4:] != (seconds, fraction, period, event, fields):
                return False
            facts = self._head(groups)
            if len(self._heads) >= _MAX_HEADS:
                self._heads.clear()
            self._heads[left, event] = facts
        stack = text[match.end() :]
        if (known := self._known(stack)) is not None:
            path = known[0]
        elif _is_plain(stack):
            path = self._stacks.path(stack, number + 1)
        else:
            return False
        ts_ns = int(seconds) * 1_000_000_000 + int(fraction) * (1000 if len(fraction) == 6 else 1)
        self._row(facts, ts_ns, int(period) if period else None, fields, path, number)
        return True

    def _lines(self, text: str, number: int, *, is_cut: bool) -> None:
        lines = text.split("\n")
        for place, line in enumerate(lines, number):
            if is_cut and place == number + len(lines) - 1 and not self._is_whole(line):
                self._count("cut_last_record", "the file ends in the middle of a record")
                self._sample, self._stack = None, []
            elif line[:1] == "#" or (self._header.is_open and match_timed(line) is None):
                self._header.line(line)
            elif not line or line.isspace():
                self._finish()
            elif "PERF_RECORD_" in line and PerfTasks.is_record(line):
                self._finish()
                if self._tasks.record(line):
                    self._heads.clear()
            elif line[0] not in " \t" and (match := _LOST.match(line)):
                self._lost(match)
            elif line[0] != "\t" and (groups := self._first_line(line)) is not None:
                self._finish()
                self._sample, self._place = groups, place
            elif self._sample is None:
                self._stray(line, place)
            elif len(self._stack) < _MAX_STACK_LINES:
                self._stack.append(line)
            else:
                self._count("deep_stacks", f"lines beyond {_MAX_STACK_LINES}, first at line {place}")

    def _end(self) -> None:
        """After the last line: a stack is known to be whole by the blank line after it, which is missing here."""
        if self._sample is not None and self.samples and (self._stack or self._has_blank_lines):
            self._count("cut_last_record", "no blank line after the last sample: its stack may be cut")
            self._sample = None
        self._finish()

    def _is_whole(self, line: str) -> bool:
        """Whether a last line without a line end is nevertheless a frame up to its closing parenthesis."""
        return self._sample is not None and line.endswith(")") and parse_frame(line) is not None

    def _first_line(self, line: str) -> Groups | None:
        if self._sample is None or not is_frame(line):
            groups = match_any(line)
            if groups is None or self._sample is None or groups[4] or groups[7]:
                return groups
            return None  # a symbol and a number below an open sample
        return match_timed(line)

    def _stray(self, line: str, place: int) -> None:
        if line[0] in " \t":
            self._count("stack_lines_without_sample", f"first at line {place}")
        else:
            self._count("unreadable_lines", f"first at line {place}")

    def _lost(self, match: re.Match[str]) -> None:
        name = "lost_chunks" if match[3] == "chunks" else "lost_events"
        self._sink.count(name, int(match[1] or match[2]), severity="data_loss", detail=match[0][:80])

    def _finish(self) -> None:
        if self._sample is not None:
            sample, self._sample = self._sample, None
            path = self._stacks.path("\n".join(self._stack), self._place + 1) if self._stack else None
            self._stack = []
            self._add(sample, path, self._place)

    def _add(self, groups: Groups, path: int | None, number: int) -> None:
        seconds, fraction, period, _, fields = groups[4:]
        ts_ns = time_ns(seconds, fraction or "0") if seconds else None
        weight = int(period) if period else None
        if (ts_ns or 0) > INT64_MAX or (weight or 0) > INT64_MAX:
            self._count("numbers_beyond_64_bits", f"first at line {number}")
            ts_ns, weight = None, None
        self._row(self._head(groups), ts_ns, weight, fields, path, number)

    def _head(self, groups: Groups) -> _Head:
        comm, task, thread, cpu, _, _, _, event, _ = groups
        event = (event or self._header.only_event or "unknown")[:256]
        process_id, thread_id = self._tasks.ids(task, thread, comm)
        cpu_index = int(cpu) if cpu else None
        if cpu_index is not None and cpu_index > INT32_MAX:
            cpu_index = None
        unit, is_tracepoint = event_facts(event)
        name = comm and clean_text(comm, 64)
        return _Head(event, process_id, thread_id, name, cpu_index, unit, is_tracepoint)

    def _row(
        self, head: _Head, ts_ns: int | None, weight: int | None, fields: str | None, path: int | None, number: int
    ) -> None:
        event, process_id, thread_id, name, cpu_index, unit, is_tracepoint = head
        if fields and (fields := fields.rstrip()):
            if is_tracepoint:
                path = self._kmem.add(event, fields, ts_ns, process_id, thread_id, cpu_index, path, number)
            elif path is not None or (path := self._stacks.single(fields)) is None:
                self._sink.count("other_sample_fields", detail=f"of {event[:40]}, first at line {number}")
        self.samples += 1
        self._batch.add(
            event, ts_ns, process_id, thread_id, name, cpu_index, weight, None if weight is None else unit, path
        )

    def _count(self, name: str, detail: str) -> None:
        self._sink.count(name, severity="data_loss", detail=detail)


def _is_plain(rest: str) -> bool:
    """Whether every line of the stack begins with a tab, as perf prints them."""
    return rest[:1] in ("\t", "") and rest.count("\n") == rest.count("\n\t")
