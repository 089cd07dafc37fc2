"""The tool vmstat: a line an interval below two header lines.

https://man7.org/linux/man-pages/man8/vmstat.8.html. Memory is in KiB unless `-S` said otherwise, which the output does
not repeat; `-t` adds the time, and the header its zone.
"""

from __future__ import annotations

import re

from ingest.host_rows import HostRows
from ingest.wallclock import WallClock

VMSTAT_TITLE = re.compile(r"(?:procs )?-*procs-* -+memory-+ .*|procs -+memory-+.*", re.ASCII)
_COLUMNS = {
    "swpd": ("host_memory_swapped_bytes", "bytes", 1024),
    "free": ("host_memory_free_bytes", "bytes", 1024),
    "buff": ("host_memory_buffers_bytes", "bytes", 1024),
    "cache": ("host_memory_cache_bytes", "bytes", 1024),
    "inact": ("host_memory_inactive_bytes", "bytes", 1024),
    "active": ("host_memory_active_bytes", "bytes", 1024),
    "si": ("host_swap_in_bytes_per_second", "bytes_per_second", 1024),
    "so": ("host_swap_out_bytes_per_second", "bytes_per_second", 1024),
}


class Vmstat:
    """The memory and swap columns; tasks, input and output, and processor time are no memory."""

    def __init__(self, rows: HostRows, clock: WallClock) -> None:
        self._rows, self._clock = rows, clock
        self._names: list[str] = []
        self._zone = ""

    def line(self, text: str, number: int) -> bool:
        if VMSTAT_TITLE.fullmatch(text):
            return True
        words = text.split()
        if words[:3] == ["r", "b", "swpd"]:
            last = words[-1]
            self._zone = last if last.isupper() or last[:1] in "+-" else ""
            self._names = words[: len(words) - bool(self._zone)]
            return True
        if not self._names or not words[0].isdecimal():
            return False
        if len(words) not in (len(self._names), len(self._names) + 2):
            self._rows.damaged("damaged_rows", f"{len(words)} fields of {len(self._names)}", number)
            return True
        if len(words) > len(self._names):
            self._rows.place.ts_ns = self._clock.time_ns(f"{' '.join(words[-2:])} {self._zone}", number)
        for name, value in zip(self._names, words, strict=False):
            if name in _COLUMNS:
                metric, unit, scale = _COLUMNS[name]
                self._rows.text(metric, value, number, unit=unit, scale=scale)
        return True

    def end(self) -> None:
        pass
