"""The host's memory over time: copies of cgroup v2, /proc and NUMA files, each after the time it was read.

https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/filesystems/proc.html. `leakpath collect
host` writes them word for word: a first line `# leakpath-host 1 {…}`, then for each sample `# sample <realtime ns>
<monotonic ns>` and `# file <path>` before each copy. Read as well: what people paste, one copy or a loop with `date`,
with any of the headings of ingest/host_marks.py or none; and the output of the tools numastat and vmstat.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from ingest.clocks import ClockPair
from ingest.errors import UnsupportedVersion
from ingest.host_blocks import Block, Counters, Meminfo, MemoryStat, Pressure, Scalar, Smaps, Status
from ingest.host_marks import heading_of, is_host_text, kind_of, prefix_of, process_of
from ingest.host_numa import NumaMaps, Numastat
from ingest.host_rows import HostRows, Place
from ingest.host_vmstat import Vmstat
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines
from ingest.wallclock import WallClock, parse_time

OWN = "leakpath-host"
VERSION = 1
_CLOCKS = ("realtime", "monotonic", "boottime", "monotonic_raw", "width_ns")
_SNIFFED_LINES = 60
_MAX_NAMED = 1000
_NO_NUMBER = ("memory.numa_stat", "memory.oom_control", "memory.reclaim")
_OWN = re.compile(rf"# {OWN} (\d{{1,9}}) (\{{.*)")
_SAMPLE = re.compile(r"# sample (\d{1,19})(?: \d{1,19})?", re.ASCII)
_END = re.compile(r"# end (\{.*)")
_SWITCH_FROM_VMSTAT = ("anon ", "cache ", "low ", "numa_hit ")


def sniff(head: bytes, path: Path) -> bool:
    """The recorder's first line, or lines that mostly look like these files', a distinctive one among the first."""
    lines = [text for line in head_lines(head)[: _SNIFFED_LINES + 1] if (text := line.strip())][:_SNIFFED_LINES]
    return bool(lines) and (_OWN.match(lines[0]) is not None or is_host_text(lines))


class _Reader:
    def __init__(self, sink: Sink, path: Path) -> None:
        self._sink, self._path = sink, path
        self._rows, self._clock = HostRows(sink), WallClock(sink)
        self._kind: str | None = None
        self._block: Block | None = None
        self._process_id: int | None = None
        self._unread: set[str] = set()

    def read(self, lines: TextLines) -> None:
        is_cut = False
        for number, line in lines:
            if text := line.strip():
                is_cut = lines.is_cut
                if is_cut and not text.endswith("kB"):
                    self._rows.damaged("cut_last_line", f"line {number} has no line end", number)
                elif not self._mark(text, number):
                    self._content(text, number)
        if is_cut or ("truncated_stream", "data_loss") in self._sink.counts:
            self._block = None  # a sum over mappings that ends early is no sum
        self._finish()
        self._rows.flush()
        self._clock.settle()

    def _mark(self, text: str, number: int) -> bool:
        """Take a line that says what follows: a time, a path, a process."""
        if text.startswith("# "):
            if match := _SAMPLE.fullmatch(text):
                ns = self._rows.numbers.integer(match[1], "sample", number)
                self._at_time(None if ns is None else self._clock.known_ns(ns, number, is_utc=True))
                return True
            if match := _OWN.fullmatch(text):
                self._own(int(match[1]), match[2], number)
                return True
            if match := _END.fullmatch(text):
                self._clocks(self._json(match[1], number), "end")
                return True
        if (found := heading_of(text)) is not None:
            self._open(found)
            return True
        if (process := process_of(text)) is not None:
            self._finish()
            self._process_id = process
            self._rows.place.process_id = process
            return True
        return False

    def _content(self, text: str, number: int) -> None:
        if (found := prefix_of(text)) is not None:
            path, text = found
            if path != self._rows.place.path:
                self._open(path)
        place = self._rows.place
        if not place.path and (kind := kind_of(text)) is not None and self._is_other(kind, text):
            self._start(kind)
        if self._block is not None and self._block.line(text, number):
            return
        if (time := parse_time(text.strip("=-# "))) is not None:
            self._at_time(self._clock.known_ns(time[0], number, is_utc=time[1]))
        elif place.path and self._block is None:
            return  # a file that is not read, counted when it began
        elif (kind := kind_of(text)) is not None:
            self._start(kind)
            if self._block is not None:
                self._block.line(text, number)
        elif text.startswith(("#", "cat: ", "grep: ")) or not any(c.isdecimal() for c in text):
            self._sink.count("other_lines", detail=f"{text[:80]!r}, first at line {number}")
        else:
            self._rows.damaged("damaged_rows", f"{text[:60]!r}", number)

    def _is_other(self, kind: str, text: str) -> bool:
        """Whether a line of `kind` begins another file; vmstat holds names that stand in other files too."""
        if self._kind == "vmstat" and kind in ("memory.stat", "numastat"):
            return text.startswith(_SWITCH_FROM_VMSTAT)
        return kind != self._kind

    def _at_time(self, ts_ns: int | None) -> None:
        self._finish()
        self._rows.place = Place(process_id=self._process_id, ts_ns=ts_ns)

    def _open(self, path: str) -> None:
        """Lines of the file `path` follow."""
        self._finish()
        parts = PurePosixPath(path).parts
        place = Place(path=path, process_id=self._process_id, ts_ns=self._rows.place.ts_ns)
        if path.startswith("/proc/") and parts[2].isdecimal():
            place.process_id = int(parts[2])
        elif parts[-1].startswith(("memory.", "cpu.", "io.")) and len(parts) > 1:
            place.process_id = None
            place.cgroup = "/" + "/".join(parts[:-1]).lstrip("/").removeprefix("sys/fs/cgroup").lstrip("/")
        self._rows.place = place
        name = parts[-1]
        if name.endswith(".pressure") or "/proc/pressure/" in path:
            name = "pressure"
        elif name.startswith("memory.events"):
            name = "memory.events"
        elif name == "smaps_rollup":
            name = "smaps"
        self._start(name)
        if self._block is None and path not in self._unread:
            if len(self._unread) < _MAX_NAMED:
                self._unread.add(path)
            self._sink.count("files_left_out", detail=path)

    def _start(self, kind: str) -> None:
        self._finish()
        place, rows = self._rows.place, self._rows
        node = re.search(r"/node(\d+)/", place.path)
        resource = place.path.rsplit("/", 1)[-1].removesuffix(".pressure")
        makers: dict[str, Callable[[], Block]] = {
            "memory.stat": lambda: MemoryStat(rows),
            "memory.events": lambda: Counters(rows, "cgroup_memory_events_total", "event"),
            "memory.swap.events": lambda: Counters(rows, "cgroup_memory_swap_events_total", "event"),
            "pressure": lambda: Pressure(rows, resource),
            "meminfo": lambda: Meminfo(rows),
            "vmstat": lambda: Counters(rows, "host_vmstat_"),
            "numastat": lambda: Counters(rows, "host_numastat_", node=node[1] if node else ""),
            "status": lambda: Status(rows),
            "smaps": lambda: Smaps(rows),
            "numa_maps": lambda: NumaMaps(rows),
            "numastat tool": lambda: Numastat(rows),
            "vmstat tool": lambda: Vmstat(rows, self._clock),
        }
        self._kind = kind
        if kind in makers:
            self._block = makers[kind]()
        elif kind.startswith("memory.") and kind not in _NO_NUMBER:
            self._block = Scalar(rows, kind)

    def _finish(self) -> None:
        if self._block is not None:
            self._block.end()
        self._block, self._kind = None, None

    def _own(self, version: int, text: str, number: int) -> None:
        if version != VERSION:
            todo = f"{OWN} {VERSION} is supported; update leakpath"
            raise UnsupportedVersion(f"a file of {OWN} {version}", where=str(self._path), todo=todo)
        self._sink.format_version = str(version)
        header = self._json(text, number)
        if isinstance(header.get("host"), str):
            self._sink.host = header["host"]
        self._clocks(header, "start")

    def _json(self, text: str, number: int) -> dict[str, Any]:
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            found = None
        if isinstance(found, dict):
            return found
        self._rows.damaged("damaged_rows", "the header is no JSON object", number)
        return {}

    def _clocks(self, header: dict[str, Any], position: str) -> None:
        clocks = header.get("clocks")
        values = [clocks.get(name) for name in _CLOCKS] if isinstance(clocks, dict) else []
        known = [value for value in values if type(value) is int and 0 <= value < 2**62]
        if values and len(known) == len(values):
            self._sink.clock_pairs.append(ClockPair(known[0], known[1], known[2], known[3], known[4], position))


def read(path: Path, sink: Sink) -> None:
    """Read `metrics`. Raises UnsupportedVersion for another version of our recorder's format."""
    with open_lines(path, sink) as lines:
        _Reader(sink, path).read(lines)


IMPORTER = Importer(
    name="host_samples",
    priority=61,
    title="Host memory samples (cgroup v2, /proc, NUMA)",
    source="host",
    clock="realtime",
    versions="leakpath-host 1; copies of memory.*, PSI files, smaps, smaps_rollup, status, meminfo, vmstat, numa_maps "
    "and per-node files of Linux 4.14 to 6.18; numastat and vmstat (tools)",
    produced_by="`leakpath collect host`, or cat, head, tail and grep in a loop",
    recipe="leakpath collect host --pid PID --out host.txt",
    left_out="identity and masks in status; memory.numa_stat; vmstat's columns on tasks, I/O and CPU time",
    reference="https://docs.kernel.org/admin-guide/cgroup-v2.html",
    tables=("metrics",),
    sniff=sniff,
    read=read,
)
