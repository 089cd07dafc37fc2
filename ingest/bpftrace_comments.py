"""Comments in which this project's bpftrace scripts say what a file is: its kind, its clock, and clock pairs.

`# bpftrace cuda_mem clock=boottime …` and `# clock_pair position=start realtime=… monotonic=… boottime=…
monotonic_raw=… width_ns=…`, and `# lost_stacks=N`.
"""

from __future__ import annotations

import re
from typing import cast, get_args

from ingest.clocks import Clock, ClockPair
from ingest.numbers import INT64_MAX
from ingest.sink import Sink

_CLOCK = re.compile(r"\bclock=(\w+)")
_NAMES = {"boot": "boottime", "mono": "monotonic", "raw": "monotonic_raw"}
_LOST_STACKS = re.compile(r"# lost_stacks=(\d{1,15})", re.ASCII)
_PAIR = "# clock_pair "
_FIELD = re.compile(r"\b(\w{1,20})=(\w{1,20})", re.ASCII)
_READINGS = ("monotonic", "boottime", "monotonic_raw")


class Comments:
    """Takes a file's comment lines and sets the sink's clock and clock pairs. `has_clock`: a known clock was named."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.has_clock = False

    def take(self, line: str, *, is_cut: bool = False) -> None:
        """One comment line; what it does not know it passes over. `is_cut`: the line has no end, so digits may miss."""
        if is_cut:
            self._sink.count("cut_last_line", severity="data_loss", detail="a comment without a line end")
        elif line.startswith(_PAIR):
            self._pair(line)
        elif match := _LOST_STACKS.fullmatch(line.rstrip()):
            detail = "stacks that bpftrace could not look up when it printed them"
            self._sink.count("stacks_lost_by_producer", int(match[1]), severity="data_loss", detail=detail)
        elif match := _CLOCK.search(line[:1000]):
            name = _NAMES.get(match[1], match[1])
            if name in get_args(Clock):
                self._sink.clock = cast("Clock", name)
                self.has_clock = name != "unknown"
            else:
                self._sink.clock = "unknown"
                self._sink.count("unknown_clock", detail=f"clock={match[1][:40]}")

    def _pair(self, line: str) -> None:
        fields = dict(_FIELD.findall(line[:1000]))
        numbers = {name: int(text) for name, text in fields.items() if text.isascii() and text.isdecimal()}
        known = {name: value for name, value in numbers.items() if value <= INT64_MAX}
        position = fields.get("position", "start")
        if "realtime" not in known or position not in ("start", "end"):
            self._sink.count("damaged_clock_pairs", severity="data_loss", detail=line[:100])
            return
        monotonic, boottime, raw = (known.get(name) for name in _READINGS)
        pair = ClockPair(known["realtime"], monotonic, boottime, raw, known.get("width_ns"), position)
        self._sink.clock_pairs.append(pair)
