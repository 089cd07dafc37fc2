"""The `# ` lines that `perf script --header` prints above the samples: host, clock and version.

The recorded command line is read only for the clock it names: it may hold secrets, and it may run over several lines.
https://github.com/torvalds/linux/blob/master/tools/perf/util/header.c
"""

from __future__ import annotations

import re

from ingest.clocks import Clock, ClockPair
from ingest.sink import Sink

RULE = "# ========"
_CLOCKS: dict[str, Clock] = {
    "realtime": "realtime",
    "monotonic": "monotonic",
    "monotonic_raw": "monotonic_raw",
    "raw": "monotonic_raw",
    "mono": "monotonic",
    "boot": "boottime",
    "boottime": "boottime",
    "real": "realtime",
}
_CLOCK_NUMBERS: dict[str, Clock] = {"0": "realtime", "1": "monotonic", "4": "monotonic_raw", "7": "boottime"}

_FACT = re.compile(r"# ([a-z][a-z ]{0,40}?)\s{0,20}: ?(.*)")
_CLOCK_OPTION = re.compile(r"\s(?:-k\s*|--clockid[= ])(?:CLOCK_)?(\w+)\s", re.IGNORECASE)
_CLOCK_ATTRIBUTE = re.compile(r"\bclockid = (\d{1,4})\b")
_EVENT_NAME = re.compile(r"name = ([^,]+)")
_REFERENCE = re.compile(r"# reference time: .*= (\d{1,10})\.(\d{6}) \(TOD\) = (\d{1,10})\.(\d{9}) \((\w+)\)")


class PerfHeader:
    """Reads the lines of a header block; `is_open` while inside the block, whose lines need not begin with #."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._events: list[str] = []
        self.is_open = False

    @property
    def only_event(self) -> str | None:
        """Name of the event when the header names exactly one."""
        return self._events[0] if len(self._events) == 1 else None

    def line(self, line: str) -> None:
        """Take one line of the block."""
        if line.startswith(RULE):
            self.is_open = not self.is_open
        elif match := _REFERENCE.match(line):
            self._pair(match)
        elif match := _FACT.match(line):
            self._fact(match[1].strip(), match[2].strip())

    def _fact(self, name: str, text: str) -> None:
        if name == "hostname":
            self._sink.host = text[:256] or None
        elif name == "perf version":
            self._sink.format_version = f"perf {text[:64]}"
        elif name == "cmdline" and (match := _CLOCK_OPTION.search(f"{text} ")):
            self._clock(_CLOCKS.get(match[1].lower()) or _CLOCK_NUMBERS.get(match[1]))
        elif name == "clockid":
            self._clock(_CLOCKS.get(text.split(" ")[0].lower()))
        elif name == "event":
            if match := _EVENT_NAME.search(text):
                self._events.append(match[1].strip())
            if "use_clockid = 1" in text:  # perf prints no attribute that is 0, which is the realtime clock
                match = _CLOCK_ATTRIBUTE.search(text)
                self._clock(_CLOCK_NUMBERS.get(match[1] if match else "0"))

    def _clock(self, clock: Clock | None) -> None:
        if clock is not None:
            self._sink.clock = clock

    def _pair(self, match: re.Match[str]) -> None:
        """perf 5.8 and later write the wall clock (µs) beside the clock of the samples."""
        realtime = int(match[1]) * 10**9 + int(match[2]) * 1000
        own = int(match[3]) * 10**9 + int(match[4])
        clock = _CLOCKS.get(match[5].lower())
        if clock == "monotonic":
            self._sink.clock_pairs.append(ClockPair(realtime, monotonic_ns=own, width_ns=1000))
        elif clock == "boottime":
            self._sink.clock_pairs.append(ClockPair(realtime, boottime_ns=own, width_ns=1000))
        elif clock == "monotonic_raw":
            self._sink.clock_pairs.append(ClockPair(realtime, monotonic_raw_ns=own, width_ns=1000))
