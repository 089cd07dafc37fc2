"""Samples of Linux perf, as text printed by `perf script`.

A sample is a line (`perf_sample`), its stack leaf first, one frame a line (`perf_frames`), then a blank line; without
stacks a sample is one line. `--header` puts `# ` lines before them (`perf_header`), `--show-task-events` and alike put
PERF_RECORD_ lines among them. Format: https://github.com/torvalds/linux/blob/master/tools/perf/builtin-script.c

Times are of the kernel's local_clock unless the header names another. Tracepoints of kernel memory become
`memory_events` of level host as well (`perf_kmem`).
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from ingest.callpaths import clean_text
from ingest.errors import BadInput
from ingest.numbers import INT32_MAX, INT64_MAX
from ingest.perf_frames import PerfStacks, is_frame, parse_frame
from ingest.perf_header import RULE, PerfHeader
from ingest.perf_kmem import KmemRows
from ingest.perf_sample import EventFacts, Groups, event_facts, match_any, match_timed, time_ns
from ingest.perf_tasks import PerfTasks
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textblocks import TextBlocks, open_blocks
from ingest.textlines import head_lines

_ROW = (
    "event", "ts_ns", "process_id", "thread_id", "process_name", "cpu_index", "sample_count", "weight", "unit",
    "call_path_id",
)  # fmt: skip
_HEADER_FACT = re.compile(r"# (?:captured on|perf version|cmdline|event|os release)\s*:")
_LOST = re.compile(r"(?i)(?:LOST (\d{1,15}) events|.*\blost (\d{1,15}) (events|samples|chunks)\b)", re.ASCII)
_SNIFFED_LINES = 200
_SNIFFED_CHARACTERS = 4096
_MAX_STACK_LINES = 4096
_MAX_EVENTS = 10_000


def sniff(head: bytes, path: Path) -> bool:
    """perf's own header, or a sample's first line: with time and event, or with a frame below it."""
    lines = head_lines(head)
    if lines and lines[0].startswith(RULE):
        return any(_HEADER_FACT.match(line) for line in lines[:100])
    for line, following in pairwise([*lines[:_SNIFFED_LINES], ""]):
        if line.startswith("#") or len(line) > _SNIFFED_CHARACTERS:
            continue
        if "PERF_RECORD_" in line:
            return PerfTasks.is_record(line)
        groups = match_any(f"{line} ")
        if groups is None or (parse_frame(line) is not None and not groups[4]):
            continue
        frame = parse_frame(following)
        if match_timed(line) is not None and groups[7] is not None:
            return True
        if frame is not None and (frame.module is not None or frame.address is None):
            return True
    return False


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._header = PerfHeader(sink)
        self._stacks = PerfStacks(sink)
        self._tasks = PerfTasks(sink)
        self._kmem = KmemRows(sink, self._stacks)
        self._batch = RowBatch(sink, "stack_samples", _ROW)
        self._events: dict[str, EventFacts] = {}
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
                continue
            first, _, rest = text.partition("\n")
            groups = None if self._sample is not None or blocks.is_last else match_timed(first)
            if groups is not None and is_end and _is_plain(rest):
                self._add(groups, self._stacks.path(rest, number + 1), number)
            else:
                self._lines(text, number, is_cut=blocks.is_cut)
                if is_end and not blocks.is_last:
                    self._finish()
            self._has_blank_lines |= is_end and not blocks.is_last
        self._end()
        self._batch.flush()
        self._kmem.flush()
        self._tasks.write()

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
                self._tasks.record(line)
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
        comm, task, thread, cpu, seconds, fraction, period, event, fields = groups
        event = event or self._header.only_event or "unknown"
        facts = self._events.get(event)
        if facts is None:
            if len(self._events) >= _MAX_EVENTS:
                self._events.clear()
            facts = self._events[event] = event_facts(event)
        ts_ns = time_ns(seconds, fraction or "0") if seconds else None
        weight = int(period) if period else None
        cpu_index = int(cpu) if cpu else None
        if (ts_ns or 0) > INT64_MAX or (weight or 0) > INT64_MAX or (cpu_index or 0) > INT32_MAX:
            self._count("numbers_beyond_64_bits", f"first at line {number}")
            ts_ns, weight, cpu_index = None, None, None
        process_id, thread_id = self._tasks.ids(task, thread, comm)
        if fields and (fields := fields.rstrip()):
            if facts.is_tracepoint:
                path = self._kmem.add(event, fields, ts_ns, process_id, thread_id, cpu_index, path, number)
            elif path is not None or (path := self._stacks.single(fields)) is None:
                self._sink.count("other_sample_fields", detail=f"of {event[:40]}, first at line {number}")
        self.samples += 1
        self._batch.add(
            event[:256], ts_ns, process_id, thread_id, comm and clean_text(comm, 64), cpu_index, 1, weight,
            None if weight is None else facts.unit, path,
        )  # fmt: skip

    def _count(self, name: str, detail: str) -> None:
        self._sink.count(name, severity="data_loss", detail=detail)


def _is_plain(rest: str) -> bool:
    """Whether every line of the stack begins with a tab, as perf prints them."""
    return rest[:1] in ("\t", "") and rest.count("\n") == rest.count("\n\t")


def read(path: Path, sink: Sink) -> None:
    """Read `stack_samples`, `memory_events` of kmem tracepoints and `processes`; damage is counted by record.

    Raises BadInput when the file holds no sample.
    """
    reader = _Reader(sink)
    with open_blocks(path, sink) as blocks:
        reader.read(blocks)
    if not reader.samples:
        raise BadInput("perf's text holds no sample", where=str(path), todo="record again, or check `perf script`")


IMPORTER = Importer(
    name="perf_script",
    priority=31,
    title="Samples and tracepoints of Linux perf (perf script text)",
    source="perf",
    clock="perf",
    versions="perf script of Linux 3.2 to 6.x, default and chosen fields (-F), with and without --header, --ns, -G",
    produced_by="perf script",
    recipe=(
        "perf record -g --sample-cpu -k CLOCK_MONOTONIC COMMAND && perf script --header --ns"
        " -F comm,pid,tid,cpu,time,period,event,trace,ip,sym,dso > perf.txt"
    ),
    left_out=(
        "fields of tracepoints other than kmem; addresses and offsets of frames with a symbol; registers, branch"
        " stacks, data sources; the recorded command line; the latency format (-L)"
    ),
    reference="https://github.com/torvalds/linux/blob/master/tools/perf/builtin-script.c",
    tables=("stack_samples", "memory_events", "processes", "frames", "call_paths", "clock_pairs"),
    sniff=sniff,
    read=read,
)
