"""Kernel memory events in ftrace's text: the files trace and trace_pipe, and what trace-cmd report prints.

`            Xorg-1264  [002] ...1 18154.755581: kmalloc: call_site=… ptr=… bytes_req=168 …`; the task, the thread group
in parentheses and the flags may be missing, `<...>` is a task whose name was forgotten. A line `<stack trace>`
(trace-cmd: `kernel_stack:`) of the same CPU brings the stack of the event before it, a line `=> function` a frame, leaf
first.
https://www.kernel.org/doc/html/latest/trace/ftrace.html, https://man7.org/linux/man-pages/man1/trace-cmd-report.1.html
"""

from __future__ import annotations

import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

import orjson

from ingest.bpftrace_stacks import MAX_DEPTH, StackReader
from ingest.callpaths import clean_text
from ingest.clocks import Clock
from ingest.ftrace_frames import parse_ftrace_frame
from ingest.kernel_objects import ObjectFrames, cache_of, call_site
from ingest.kmem_fields import KmemEvent, kmem_event
from ingest.numbers import INT64_MAX, seconds_to_ns
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines

_ROW = (
    "action", "ts_ns", "thread_id", "cpu_index", "memory_kind", "name", "address", "size_bytes", "requested_bytes",
    "user_metadata", "call_path_id",
)  # fmt: skip
PATH = len(_ROW) - 1
_OBJECT = len(_ROW)  # beside a waiting row: the frame of its kernel object
WAITING_ROWS = 4096
MAX_LINE = 16 * 1024
MAX_EVENT_NAMES = 100
MAX_METADATA = 1024

_EVENT = re.compile(
    r"\s*(?:(?P<comm>.{1,64}?)-(?P<pid>\d{1,10})\s+(?:\(\s*(?P<tgid>\d{1,10}|-{1,10})\)\s+)?)?"
    r"(?:\[(?P<cpu>\d{1,5})\]\s+(?:\(\s*(?:\d{1,10}|-{1,10})\)\s+)?(?:(?=\S*[^\d:])[^\s:]{3,9}\s+)?"
    r"|(?P<latency_cpu>\d{1,5})[.dDXbB][^\s:]{2,8}\s+)"
    r"(?P<time>\d{1,18}(?:\.\d{1,12})?):\s+(?P<rest>\S.*)",
    re.ASCII,
)
_NAME = re.compile(r"(?:\w{1,64}:)?(\w{1,128}):\s*(.*)", re.ASCII)
_STACK = re.compile(r"<(?:(user) )?stack trace ?>|(?:kernel_stack|(user_stack)):")
_FRAME = re.compile(r"\s*=>\s?(.*)")
_LOST = re.compile(r"CPU:? ?\d{1,5} \[(?:LOST )?(?:(\d{1,15}) )?EVENTS(?: DROPPED)?\]")
_ENTRIES = re.compile(r"#? ?entries-in-buffer/entries-written: (\d{1,18})/(\d{1,18})")
_CLOCK = re.compile(r"(?i)#.{0,40}(?:\b|_)clock\s*[=:]\s*(?:.{0,80}?\[(\w{1,20})\]|(\w{1,20}))")
_CLOCKS: dict[str, Clock] = {
    "local": "perf", "global": "perf", "perf": "perf", "mono": "monotonic", "mono_raw": "monotonic_raw",
    "boot": "boottime",
}  # fmt: skip
_NOISE = re.compile(
    r"cpus=\d|version = \d|CPU \d+ is empty|\s*\[?\.\.\.\]?\s*$|CPU:? ?\d+ (?:buffer started|.*\bNOT SET)|##"
)
_ADDRESS_SPACE = re.compile(r"\bmm_id=(\w{1,20})")
_TRACER = "# tracer: "


def sniff(head: bytes, path: Path) -> bool:
    """The header of ftrace's file, or two lines in three of its form with at least one of them a memory event."""
    lines = head_lines(head)
    if any(line.startswith(_TRACER) for line in lines[:20]):
        return True
    content = [line for line in lines[:200] if line[0] not in "#=" and not _NOISE.match(line)]
    parsed = [match["rest"] for line in content if (match := _EVENT.fullmatch(line[:MAX_LINE]))]
    names = [match[1] for rest in parsed if (match := _NAME.fullmatch(rest))]
    return 3 * len(names) >= 2 * len(content) and any(kmem_event(name, "") for name in names)


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._stacks = StackReader(sink, parse_ftrace_frame)
        # The kernel owns the memory, whoever frees it: process 0.
        self._batch = RowBatch(sink, "memory_events", _ROW, level="host", process_id=0)
        self._rss = RowBatch(sink, "metrics", ("metric", "labels", "ts_ns", "value", "unit", "process_id"))
        self._rows: list[list[Any]] = []  # those whose stack may yet come
        self._objects = ObjectFrames(sink)
        self._last: OrderedDict[int, tuple[int | None, list[Any] | None]] = OrderedDict()
        self._target: list[Any] | None = None
        self._frames: list[int] = []
        self._is_in_stack = False
        self._others: set[str] = set()

    def read(self, lines: TextLines) -> None:
        for number, line in lines:
            if not line or (line.isspace() and not lines.is_cut):
                continue
            if lines.is_cut or len(line) > MAX_LINE:
                self._end_stack()
                self._lost("cut_last_line" if lines.is_cut else "long_lines", number)
            elif line[0] == "#":
                self._comment(line)
            elif self._is_in_stack and (match := _FRAME.fullmatch(line)):
                self._frame(match[1], number)
            elif match := _EVENT.fullmatch(line):
                self._end_stack()
                self._event(match, number)
            elif match := _LOST.match(line):
                self._sink.count("lost_events", int(match[1] or 1), severity="data_loss", detail=line[:100])
            elif _ENTRIES.match(line):
                self._comment(line)
            elif _FRAME.fullmatch(line):
                self._lost("stack_lines_without_event", number)
            elif not _NOISE.match(line):
                self._end_stack()
                self._lost("unreadable_lines", number)
        self._end_stack()
        self._write(len(self._rows))
        self._batch.flush()
        self._rss.flush()

    def _comment(self, line: str) -> None:
        if line.startswith(_TRACER):
            self._sink.format_version = f"tracer {line[len(_TRACER) :].strip()[:40]}"
        elif (match := _ENTRIES.match(line)) and int(match[2]) > int(match[1]):
            detail = "overwritten in the ring buffer before the file was read"
            self._sink.count("lost_events", int(match[2]) - int(match[1]), severity="data_loss", detail=detail)
        elif match := _CLOCK.match(line[:400]):
            self._sink.clock = _CLOCKS.get(match[1] or match[2], "unknown")

    def _event(self, match: re.Match[str], number: int) -> None:
        cpu = int(match["cpu"] or match["latency_cpu"])
        pid = int(match["pid"]) if match["pid"] else None
        if stack := _STACK.match(match["rest"]):
            self._begin_stack(cpu, pid, is_user=bool(stack[1] or stack[2]))
            return
        named = _NAME.fullmatch(match["rest"])
        event = kmem_event(named[1], named[2]) if named else None
        if named is None:
            self._sink.count("lines_without_event", detail=f"function traces and notes, first at line {number}")
        elif event is None:
            self._other(named[1])
        row = None if event is None else self._row(event, match, cpu, pid, number)
        self._last[cpu] = (pid, row)
        self._last.move_to_end(cpu)
        if len(self._last) > WAITING_ROWS:
            self._last.popitem(last=False)

    def _row(self, event: KmemEvent, match: re.Match[str], cpu: int, pid: int | None, number: int) -> list[Any] | None:
        if event.damage:
            self._lost("damaged_values", number, f"{event.call}: {event.damage[:100]}")
        elif event.call == "kfree" and event.address == 0:
            self._sink.count("frees_of_null", detail=f"first at line {number}")
        time = self._time(match["time"], number)
        comm = (match["comm"] or "").strip()
        named = f"comm={comm}" if comm not in ("", "<...>") else None
        metadata = " ".join(part for part in (named, event.attributes) if part)
        if event.call == "rss_stat":
            self._rss_stat(event, match, pid, time)
            return None
        leaf = self._objects.of(cache_of(event))
        site = [self._sink.call_paths.frame(frame) for frame in call_site(event)]
        row = [
            event.action, time, pid, cpu, None if event.memory_kind == "unknown" else event.memory_kind,
            event.name[:256], event.address, event.size_bytes, event.requested_bytes,
            clean_text(metadata, MAX_METADATA) or None, self._stacks.path([*leaf, *site]), leaf,
        ]  # fmt: skip
        self._rows.append(row)
        if len(self._rows) >= 2 * WAITING_ROWS:
            self._write(WAITING_ROWS)
        return row

    def _other(self, name: str) -> None:
        counter = f"other_event_{name[:64].lower()}"
        if counter not in self._others and len(self._others) >= MAX_EVENT_NAMES:
            counter = "other_events"
        self._others.add(counter)
        self._sink.count(counter, detail="not a memory event")

    def _rss_stat(self, event: KmemEvent, match: re.Match[str], pid: int | None, time: int | None) -> None:
        """A counter of the running process when it says so, else of one that it does not name."""
        tgid = match["tgid"]
        process = int(tgid) if tgid and tgid.isdecimal() else pid
        names = {"member": event.name.removeprefix("rss_stat ")}
        if space := _ADDRESS_SPACE.search((event.attributes or "")[:400]):
            names["mm_id"] = space[1]
        labels = orjson.dumps(names).decode()
        if event.size_bytes is not None:
            value = float(event.size_bytes)
            self._rss.add("process_rss_bytes", labels, time, value, "bytes", process if event.is_current else None)

    def _time(self, text: str, number: int) -> int | None:
        if "." not in text:
            self._sink.count("times_not_in_seconds", detail=f"a counter's clock, first at line {number}")
            return None
        time = seconds_to_ns(text)
        if time > INT64_MAX:
            self._lost("numbers_beyond_64_bits", number, "time")
            return None
        return time

    def _begin_stack(self, cpu: int, pid: int | None, *, is_user: bool) -> None:
        before, row = self._last.get(cpu, (None, None))
        self._is_in_stack = True
        self._target = row if before == pid and not is_user else None
        if is_user:
            self._sink.count("user_stacks", detail="stacks of the program beside those of the kernel")

    def _frame(self, text: str, number: int) -> None:
        if len(self._frames) >= MAX_DEPTH:
            self._lost("deep_stacks", number, f"frames beyond {MAX_DEPTH}")
        elif self._target is not None and (frame := self._stacks.frame(text)) is not None:
            self._frames.append(frame)

    def _end_stack(self) -> None:
        if self._target is not None and self._frames:
            self._target[PATH] = self._stacks.path([*self._target[_OBJECT], *self._frames])
        self._target, self._frames, self._is_in_stack = None, [], False

    def _write(self, count: int) -> None:
        for row in self._rows[:count]:
            self._batch.add(*row[:_OBJECT])
        del self._rows[:count]

    def _lost(self, name: str, number: int, detail: str = "") -> None:
        place = f"first at line {number}"
        self._sink.count(name, severity="data_loss", detail=f"{detail}, {place}" if detail else place)


def read(path: Path, sink: Sink) -> None:
    """Read `memory_events` of level host, and rss_stat into `metrics`; other events are counted by name.

    The file does not say which clock its times are on: a comment `# clock: mono` (or what the file trace_clock holds)
    declares it. The call path is the stack where there is one, else the call site alone.
    """
    with open_lines(path, sink) as lines:
        _Reader(sink).read(lines)


IMPORTER = Importer(
    name="ftrace",
    priority=38,
    title="Kernel memory events (ftrace and trace-cmd text)",
    source="ftrace",
    clock="unknown",
    versions="kernels 3.x to 6.x: with and without flags, thread groups, stacks; trace-cmd report",
    produced_by="/sys/kernel/tracing/trace and trace_pipe, trace-cmd report",
    recipe="trace-cmd record -e kmem -T sleep 5 && trace-cmd report > kmem.txt",
    left_out="events other than kmem's, user stacks, the flags column",
    reference="https://www.kernel.org/doc/html/latest/trace/ftrace.html",
    tables=("memory_events", "metrics", "frames", "call_paths"),
    sniff=sniff,
    read=read,
)
