"""Processes and threads of perf's samples, and the PERF_RECORD_ lines that name them.

perf prints only the thread by default; its process is known where `-F +pid` was given or a PERF_RECORD_COMM or _FORK
line (`--show-task-events`) tells it. https://github.com/torvalds/linux/blob/master/tools/perf/util/event.c
"""

from __future__ import annotations

import re

from ingest.callpaths import clean_text
from ingest.sink import Sink

_MAX_TASKS = 500_000
_RECORD = re.compile(r"(?:.*\s)?PERF_RECORD_([A-Z][A-Z0-9_]*)\b(.*)", re.ASCII)
_NAMED = re.compile(r"(?: exec)?: (.*):(\d{1,10})/(\d{1,10})", re.ASCII)
_FORKED = re.compile(r"\((\d{1,10}):(\d{1,10})\)", re.ASCII)
_LOST = re.compile(r"\D*(\d{1,15})", re.ASCII)


class PerfTasks:
    """Knows thread → process, and the name of each process."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._process_of: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._seen: dict[tuple[str | None, str | None, str | None], tuple[int | None, int | None]] = {}

    @staticmethod
    def is_record(line: str) -> bool:
        """Whether the line is a PERF_RECORD_ line, and not a sample whose fields mention one."""
        match = _RECORD.fullmatch(line)
        return match is not None and " PERF_RECORD_" not in match[2]

    def record(self, line: str) -> bool:
        """Take one PERF_RECORD_ line; whether it names a process."""
        match = _RECORD.fullmatch(line)
        assert match is not None
        kind, rest = match[1], match[2]
        if kind == "COMM" and (named := _NAMED.fullmatch(rest)):
            process_id, thread_id = int(named[2]), int(named[3])
            self._learn(process_id, thread_id, named[1])
        elif kind == "FORK" and (forked := _FORKED.match(rest)):
            self._learn(int(forked[1]), int(forked[2]), None)
        elif kind in ("LOST", "LOST_SAMPLES") and (lost := _LOST.match(rest)):
            self._sink.count("lost_events", int(lost[1]), severity="data_loss", detail=f"PERF_RECORD_{kind}")
        else:
            self._sink.count("perf_records_left_out", detail=f"PERF_RECORD_{kind[:40]}")
        return kind in ("COMM", "FORK")

    def ids(self, task: str | None, thread: str | None, comm: str | None) -> tuple[int | None, int | None]:
        """Process and thread of `task/thread`, or of the thread `task` alone; None where not known."""
        key = (task, thread, comm)
        if key in self._seen:
            return self._seen[key]
        if len(self._seen) >= _MAX_TASKS:
            self._seen.clear()
        found: tuple[int | None, int | None] = (None, None)
        if task is not None and thread is not None:
            found = (_known(int(task)), _known(int(thread)))
            if found[0] is not None:
                self._learn(found[0], int(thread), comm)
        elif task is not None:
            thread_id = _known(int(task))
            found = (self._process_of.get(int(task)), thread_id)
        self._seen[key] = found
        return found

    def _learn(self, process_id: int, thread_id: int, name: str | None) -> None:
        if len(self._process_of) >= _MAX_TASKS:
            self._sink.count("tasks_left_out", detail=f"more than {_MAX_TASKS}")
            return
        if self._process_of.get(thread_id) != process_id:
            self._process_of[thread_id] = process_id
            self._seen.clear()
        if name and (process_id == thread_id or process_id not in self._names):
            self._names[process_id] = clean_text(name, 64)

    def write(self) -> None:
        """Write `processes`, after the last sample; a file of one process says so."""
        ids = sorted(set(self._process_of.values()) | set(self._names))
        self._sink.write("processes", {"process_id": ids, "process_name": [self._names.get(one) for one in ids]})
        if len(ids) == 1:
            self._sink.process_id = ids[0]


def _known(number: int) -> int | None:
    """perf prints -1 for a task that is gone."""
    return number if number >= 0 else None
