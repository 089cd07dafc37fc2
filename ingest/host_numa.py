"""Memory by NUMA node: /proc/PID/numa_maps added up, and what the tool numastat prints.

https://man7.org/linux/man-pages/man7/numa.7.html (numa_maps), https://man7.org/linux/man-pages/man8/numastat.8.html:
the tool sorts a process's pages into huge, heap, stack and private, and so does this; its MBs are MiB.
"""

from __future__ import annotations

import re

from ingest.host_rows import HostRows, snake

NUMA_MAP = re.compile(r"[0-9a-f]{4,16} (?:default|bind|prefer|interleave|local|weighted)\S*(?: .*)?", re.ASCII)
NUMASTAT_TITLE = re.compile(
    r"Per-node (process memory usage|system memory usage|numastat info) \(in MBs\)(?: for PID (\d{1,10}) .*)?:?",
    re.ASCII,
)
NODES = re.compile(r"node\d{1,5}(?:\s+node\d{1,5})*", re.ASCII)
_PAGES = re.compile(r"N(\d{1,5})=(\d{1,18})", re.ASCII)
_HEADER = re.compile(r"(?:PID\s+)?(?:Node \d{1,5}\s+)+Total", re.ASCII)
_NUMBERS = re.compile(r"(\S+(?: \([^)]*\))?)((?:\s+\d{1,18}\.\d\d)+)", re.ASCII)
_COUNTS = re.compile(r"([a-z_]{3,40})((?:\s+\d{1,20})+)", re.ASCII)
_MIB = 2**20


class NumaMaps:
    """/proc/PID/numa_maps: bytes by node and sort of memory."""

    def __init__(self, rows: HostRows) -> None:
        self._rows = rows
        self._sums: dict[tuple[int, str], int] = {}
        self._address = -1
        self._number = 0

    def line(self, text: str, number: int) -> bool:
        if not NUMA_MAP.fullmatch(text):
            return False
        words = text.split()
        address = int(words[0], 16)
        if address <= self._address:
            self.end()
        self._address, self._number = address, number
        kind = "private"
        page_bytes = None
        for word in words[2:]:
            if word in ("huge", "heap", "stack") or word.startswith("stack:"):
                kind = word.partition(":")[0]
            elif word.startswith("kernelpagesize_kB="):
                size = word.partition("=")[2]
                page_bytes = int(size) * 1024 if size.isascii() and size.isdecimal() and len(size) < 10 else None
        for word in words[2:]:
            if match := _PAGES.fullmatch(word):
                if page_bytes is None:
                    self._rows.sink.count("assumed_page_size", detail=f"4 KiB, first at line {number}")
                key = (int(match[1]), kind)
                self._sums[key] = self._sums.get(key, 0) + int(match[2]) * (page_bytes or 4096)
        return True

    def end(self) -> None:
        for (node, kind), total in sorted(self._sums.items()):
            self._rows.value(
                "process_numa_bytes", total, self._number, unit="bytes", labels={"node": str(node), "kind": kind}
            )
        self._sums, self._address = {}, -1


class Numastat:
    """One table of the tool numastat: of processes (-p), of the system (-m, -n), or of counters by node."""

    def __init__(self, rows: HostRows) -> None:
        self._rows = rows
        self._title = ""
        self._process_id: int | None = None
        self._nodes: list[str] = []

    def line(self, text: str, number: int) -> bool:
        if match := NUMASTAT_TITLE.fullmatch(text):
            self._title, self._nodes = match[1], []
            self._process_id = int(match[2]) if match[2] else None
            return True
        if NODES.fullmatch(text):
            self._title, self._nodes = "counters", [name.removeprefix("node") for name in text.split()]
            return True
        if _HEADER.fullmatch(text):
            self._nodes = re.findall(r"Node (\d+)", text)
            return True
        if text.startswith(("--", "Token ")):
            return True
        if self._title == "counters":
            return self._counts(text, number)
        match = _NUMBERS.fullmatch(text)
        if match is None or not self._nodes:
            return False
        name, values = match[1], match[2].split()
        if len(values) not in (len(self._nodes), len(self._nodes) + 1):
            self._rows.damaged("damaged_rows", f"{len(values)} values for {len(self._nodes)} nodes", number)
        elif name != "Total":
            self._row(name, values, number)
        return True

    def _row(self, name: str, values: list[str], number: int) -> None:
        process, metric, kind = self._rows.place.process_id, f"host_numa_{snake(name)}_bytes", ""
        if self._title.startswith("process"):
            pid = re.match(r"(\d{1,10})(?: |$)", name)
            self._rows.place.process_id = int(pid[1]) if pid else self._process_id
            metric, kind = ("process_numa_total_bytes", "") if pid else ("process_numa_bytes", name.lower())
        for node, value in zip(self._nodes, values, strict=False):
            self._rows.value(
                metric, round(float(value) * _MIB), number, unit="bytes", labels={"node": node, "kind": kind}
            )
        self._rows.place.process_id = process

    def _counts(self, text: str, number: int) -> bool:
        match = _COUNTS.fullmatch(text)
        if match is None or len(values := match[2].split()) != len(self._nodes):
            return False
        for node, value in zip(self._nodes, values, strict=True):
            self._rows.text(f"host_numastat_{match[1]}", value, number, unit="pages", labels={"node": node})
        return True

    def end(self) -> None:
        pass
