"""Readers for the kernel's own text files about memory, one class a shape; each takes a file's lines in order.

https://docs.kernel.org/admin-guide/cgroup-v2.html (memory.*), https://docs.kernel.org/filesystems/proc.html (status,
smaps_rollup, meminfo), https://docs.kernel.org/accounting/psi.html (pressure).
"""

from __future__ import annotations

import re
from typing import Protocol

from ingest.host_rows import HostRows, snake

_KEY_COLON = re.compile(r"([A-Za-z][\w()]{0,60}):\s*(\d{1,30})(?:\s+(kB))?\s*", re.ASCII)
_KEY_SPACE = re.compile(r"([A-Za-z][\w.]{0,80})\s+(\d{1,30})\s*", re.ASCII)
_PRESSURE = re.compile(
    r"(some|full)\s+avg10=(\d+\.\d+)\s+avg60=(\d+\.\d+)\s+avg300=(\d+\.\d+)\s+total=(\d{1,30})\s*", re.ASCII
)
_MAPPING = re.compile(r"([0-9a-f]{4,16})-[0-9a-f]{4,16} [rwxsp-]{4} [0-9a-f]{8} .*", re.ASCII)
_UNLIMITED = range(2**63 - 2**17, 2**63)
"""Version 1 writes the largest multiple of a page for "no limit"."""
_UNLIMITED_LABEL = {"is_unlimited": "true"}
_STAT_EVENTS = ("pg", "workingset_", "thp_", "zsw", "swp", "numa_", "total_pg", "nr_dirty_throttled")
_STATUS_NUMBERS = {
    "Threads": ("process_threads", "count"),
    "FDSize": ("process_fd_slots", "count"),
    "voluntary_ctxt_switches": ("process_voluntary_context_switches_total", "count"),
    "nonvoluntary_ctxt_switches": ("process_involuntary_context_switches_total", "count"),
}
_SMAPS_LEFT_OUT = ("KernelPageSize", "MMUPageSize", "THPeligible", "ProtectionKey")
_LIMITS_OF_V1 = {"usage_in_bytes": "current", "limit_in_bytes": "max", "max_usage_in_bytes": "peak"}


class Block(Protocol):
    """`line` says whether the line is of this file; `end` is called once, after the last one that is."""

    def line(self, text: str, number: int) -> bool: ...
    def end(self) -> None: ...


class Scalar:
    """memory.current, memory.max and their kind: one number, or `max`."""

    def __init__(self, rows: HostRows, name: str) -> None:
        self._rows, self._done = rows, False
        key = name.removeprefix("memory.").replace("memsw.", "memsw_")
        key = _LIMITS_OF_V1.get(key, key.replace(".", "_").removesuffix("_in_bytes"))
        self._metric = f"cgroup_memory_{key}"
        self._is_bytes = key not in ("oom_group", "failcnt", "swappiness", "use_hierarchy")

    def line(self, text: str, number: int) -> bool:
        if self._done or not (text == "max" or text.isdecimal()) or not text.isascii():
            return False
        self._done = True
        metric, unit = (f"{self._metric}_bytes", "bytes") if self._is_bytes else (self._metric, None)
        if text == "max" or (len(text) == 19 and int(text) in _UNLIMITED):
            self._rows.value(metric, None, number, unit=unit, labels=_UNLIMITED_LABEL)
        else:
            self._rows.text(metric, text, number, unit=unit)
        return True

    def end(self) -> None:
        pass


class MemoryStat:
    """memory.stat: bytes, but for the counters of events."""

    def __init__(self, rows: HostRows) -> None:
        self._rows = rows

    def line(self, text: str, number: int) -> bool:
        if not (match := _KEY_SPACE.fullmatch(text)):
            return False
        key, value = match.groups()
        if key.startswith(_STAT_EVENTS):
            self._rows.text(f"cgroup_memory_stat_{key}_total", value, number, unit="count")
        elif len(value) == 19 and int(value) in _UNLIMITED:
            self._rows.value(f"cgroup_memory_stat_{key}_bytes", None, number, unit="bytes", labels=_UNLIMITED_LABEL)
        else:
            self._rows.text(f"cgroup_memory_stat_{key}_bytes", value, number, unit="bytes")
        return True

    def end(self) -> None:
        pass


class Counters:
    """memory.events and memory.swap.events (an event a line), /proc/vmstat and a node's numastat (a name a line)."""

    def __init__(self, rows: HostRows, metric: str, label: str | None = None, **labels: str) -> None:
        self._rows, self._metric, self._label, self._labels = rows, metric, label, labels

    def line(self, text: str, number: int) -> bool:
        if not (match := _KEY_SPACE.fullmatch(text)):
            return False
        key, value = match.groups()
        if self._label:
            self._rows.text(self._metric, value, number, unit="count", labels={self._label: key})
        else:
            is_pages = key.startswith(("nr_", "numa_")) or self._metric == "host_numastat_"
            unit = "pages" if is_pages else "count"
            self._rows.text(f"{self._metric}{snake(key)}", value, number, unit=unit, labels=self._labels)
        return True

    def end(self) -> None:
        pass


class Pressure:
    """PSI: shares of time some or all tasks stalled on a resource, and the time they did."""

    def __init__(self, rows: HostRows, resource: str) -> None:
        self._rows, self._prefix = rows, f"{resource}_" if resource else ""

    def line(self, text: str, number: int) -> bool:
        if not (match := _PRESSURE.fullmatch(text)):
            return False
        kind, *shares, total = match.groups()
        for window, share in zip(("10s", "60s", "300s"), shares, strict=True):
            if float(share) > 100:
                self._rows.damaged("impossible_values", f"{self._prefix}pressure above 100 %", number)
            else:
                ratio = float(share) / 100
                self._rows.value(
                    f"{self._prefix}pressure_ratio",
                    ratio,
                    number,
                    unit="ratio",
                    labels={"stalled": kind, "window": window},
                )
        microseconds = self._rows.numbers.integer(total, "pressure total", number)
        if microseconds is not None:
            self._rows.value(
                f"{self._prefix}pressure_seconds_total",
                microseconds / 1e6,
                number,
                unit="seconds",
                labels={"stalled": kind},
            )
        return True

    def end(self) -> None:
        pass


class Meminfo:
    """/proc/meminfo, or a node's (`Node 0 MemTotal: …`)."""

    def __init__(self, rows: HostRows) -> None:
        self._rows = rows

    def line(self, text: str, number: int) -> bool:
        labels = {}
        if text.startswith("Node "):
            _, node, text = [*text.split(None, 2), "", ""][:3]
            labels = {"node": node}
        if not (match := _KEY_COLON.fullmatch(text)):
            return False
        key, value, kib = match.groups()
        metric = f"host_{'numa_' if labels else ''}{snake(key)}"
        if kib:
            self._rows.text(f"{metric}_bytes", value, number, unit="bytes", scale=1024, labels=labels)
        else:
            self._rows.text(metric, value, number, unit="pages", labels=labels)
        return True

    def end(self) -> None:
        pass


class Status:
    """/proc/PID/status: the sizes, threads and context switches; the rest is identity."""

    def __init__(self, rows: HostRows) -> None:
        self._rows = rows

    def line(self, text: str, number: int) -> bool:
        key, colon, rest = text.partition(":")
        if not colon or not key.replace("_", "").isalnum() or len(key) > 40:
            return False
        if key == "Name" and "/proc/" not in self._rows.place.path:
            self._rows.place.process_id = None  # another process's file begins
        if key == "Pid" and self._rows.place.process_id is None:
            self._rows.place.process_id = self._rows.numbers.integer(rest.strip(), "Pid", number)
        match = _KEY_COLON.fullmatch(text)
        if match and match[3]:
            self._rows.text(f"process_{snake(key)}_bytes", match[2], number, unit="bytes", scale=1024)
        elif match and key in _STATUS_NUMBERS:
            metric, unit = _STATUS_NUMBERS[key]
            self._rows.text(metric, match[2], number, unit=unit)
        elif rest.strip().endswith(("kB", "k")) and key.startswith(("Vm", "Rss")):
            self._rows.damaged("damaged_values", f"{key}: {rest.strip()[:40]!r}", number)
        return True

    def end(self) -> None:
        pass


class Smaps:
    """/proc/PID/smaps_rollup, or smaps, whose mappings are added up."""

    def __init__(self, rows: HostRows) -> None:
        self._rows = rows
        self._sums: dict[str, int] = {}
        self._address = -1
        self._number = 0

    def line(self, text: str, number: int) -> bool:
        if match := _MAPPING.fullmatch(text):
            address = int(match[1], 16)
            if address <= self._address or text.endswith("[rollup]"):
                self.end()
            self._address = address
            return True
        match = _KEY_COLON.fullmatch(text)
        if not match:
            return text.startswith("VmFlags:")
        key, value, kib = match.groups()
        if kib and key not in _SMAPS_LEFT_OUT:
            kibibytes = self._rows.numbers.integer(value, key, number)
            if kibibytes is not None:
                if key in self._sums and self._address < 0:
                    self.end()  # a rollup without its first line, again
                self._sums[key] = self._sums.get(key, 0) + kibibytes
                self._number = number
        return True

    def end(self) -> None:
        for key, kibibytes in self._sums.items():
            self._rows.value(f"process_{snake(key)}_bytes", kibibytes * 1024, self._number, unit="bytes")
        self._sums, self._address = {}, -1
