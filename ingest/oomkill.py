"""Kills by the kernel's out-of-memory killer, as printed by oomkill of bcc, libbpf-tools and bpftrace.

`21:03:39 Triggered by PID 3297 ("ntpd"), OOM kill of PID 22516 ("perl"), 3850642 pages, loadavg: 0.99 0.39 0.30 3/282
22724` in one line; bpftrace adds the memory cgroup, newer bcc the stack of the task that triggered it. The pages are
`oc->totalpages`: all that the killer could have given out (RAM and swap, or a cgroup's limit), not the victim's.
https://github.com/iovisor/bcc/blob/master/tools/oomkill.py, https://github.com/bpftrace/bpftrace/blob/master/tools/oomkill.bt
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson

from ingest.bcc_frames import parse_bcc_frame
from ingest.bpftrace_stacks import MAX_DEPTH, StackReader
from ingest.callpaths import clean_text
from ingest.daytime import DayTimes
from ingest.loadavg import load_averages
from ingest.numbers import NumberReader
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines

PAGE_BYTES = 4096
_ROW = ("ts_ns", "process_id", "size_bytes", "name", "user_metadata", "call_path_id")
_KILL = re.compile(
    r'\s*(\d{1,2}:\d{1,2}:\d{1,2}) Triggered by PID (\d{1,40}) \("(.{0,64}?)"\), '
    r'(?:CGROUP (\d{1,40}) \("(.{0,4096}?)"\), )?OOM kill of PID (\d{1,40}) \("(.{0,64}?)"\), (\d{1,40}) pages'
    r"(?:, loadavg: (.{0,200}))?",
    re.ASCII,
)
_BEGIN = re.compile(r"Tracing (?:oom_kill_process\(\)|OOM kills)\.\.\. (?:Hit )?Ctrl-C to (?:end|stop)\.")
_NEARLY = re.compile(r"Triggered by PID|OOM kill of PID")
_LOST = re.compile(r"(?i)\s*lost (\d{1,15}) events")


def sniff(head: bytes, path: Path) -> bool:
    """A kill, or the line that the tools start with."""
    return any(_KILL.fullmatch(line) or _BEGIN.fullmatch(line) for line in head_lines(head))


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._numbers = NumberReader(sink)
        self._times = DayTimes(sink)
        self._stacks = StackReader(sink, parse_bcc_frame)
        self._events = RowBatch(sink, "memory_events", _ROW, level="host", action="oom")
        self._loads = RowBatch(sink, "metrics", ("metric", "ts_ns", "value"))
        self._row: tuple[Any, ...] | None = None
        self._frames: list[int] = []
        self._is_in_stack = False

    def read(self, lines: TextLines) -> None:
        for number, line in lines:
            text = line.strip()
            if text and lines.is_cut:
                self._lost("cut_last_line", number)
            if not text:
                self._finish()
            elif match := _KILL.fullmatch(line.rstrip()):
                self._finish()
                self._kill(match, number)
            elif match := _LOST.match(line):
                self._sink.count("lost_events", int(match[1]), severity="data_loss", detail=text[:100])
            elif _NEARLY.search(line[:8192]):
                self._finish()
                self._lost("damaged_rows", number)
            elif self._row is not None and text == "Stack trace:":
                self._is_in_stack = True
            elif self._row is not None and text == "Failed to capture stack trace":
                self._sink.count("stacks_not_captured", detail=f"first at line {number}")
            elif self._is_in_stack and line.startswith("    "):
                if not lines.is_cut:
                    self._frame(line, number)
            else:
                self._finish()
                if not _BEGIN.fullmatch(text):
                    self._sink.count("other_lines", detail=f"first at line {number}")
        self._finish()
        self._events.flush()
        self._loads.flush()

    def _kill(self, match: re.Match[str], number: int) -> None:
        time = self._times.ns(match[1])
        trigger, victim, pages = (self._numbers.integer(match[group], "oom kill", number) for group in (2, 6, 8))
        cgroup = self._numbers.integer(match[4], "cgroup", number) if match[4] else None
        loads = (match[9] or "").strip()
        metadata = {
            "cgroup_id": cgroup,
            "cgroup_path": clean_text(match[5]) if match[5] else None,
            "loadavg": clean_text(loads) or None,
            "trigger_comm": clean_text(match[3]),
            "trigger_pid": trigger,
        }
        known = {name: value for name, value in metadata.items() if value is not None}
        for metric, value in load_averages(loads):
            self._loads.add(metric, time, value)
        size = None if pages is None else min(pages, 2**50) * PAGE_BYTES
        self._row = (time, victim, size, match[7], orjson.dumps(known).decode())

    def _frame(self, line: str, number: int) -> None:
        if len(self._frames) >= MAX_DEPTH:
            self._lost("deep_stacks", number)
        elif (frame := self._stacks.frame(line)) is not None:
            self._frames.append(frame)

    def _finish(self) -> None:
        if self._row is not None:
            self._events.add(*self._row, self._stacks.path(self._frames))
        self._row = None
        self._frames = []
        self._is_in_stack = False

    def _lost(self, name: str, number: int) -> None:
        self._sink.count(name, severity="data_loss", detail=f"first at line {number}")


def read(path: Path, sink: Sink) -> None:
    """Read `memory_events` (level host, action oom; the process is the victim) and load averages into `metrics`.

    `size_bytes` is the memory the killer could give out; what triggered it is in `user_metadata`, a JSON object.
    Times of day give `ts_ns` from midnight, see `daytime`.
    """
    with open_lines(path, sink) as lines:
        _Reader(sink).read(lines)


IMPORTER = Importer(
    name="oomkill",
    priority=37,
    title="Kills by the kernel's out-of-memory killer (oomkill)",
    source="ebpf",
    clock="unknown",
    versions="bcc and libbpf-tools up to 0.36, bpftrace up to 0.24; pages are taken as 4 KiB",
    produced_by="oomkill, oomkill.bt",
    recipe="oomkill-bpfcc > oomkill.txt",
    left_out="nothing",
    reference="https://github.com/iovisor/bcc/blob/master/tools/oomkill.py",
    tables=("memory_events", "metrics", "frames", "call_paths"),
    sniff=sniff,
    read=read,
)
