"""Clocks a capture file can be recorded on, and pairs of readings that tie them together."""

from __future__ import annotations

from typing import Literal, NamedTuple

Clock = Literal["realtime", "monotonic", "boottime", "monotonic_raw", "perf", "session", "unknown"]
"""perf: the kernel's local_clock, `perf record` without -k; session: time since a recording began."""


class ClockPair(NamedTuple):
    """Clocks of one host read back to back, in ns; `width_ns` is how long the reading took."""

    realtime_ns: int
    monotonic_ns: int | None = None
    boottime_ns: int | None = None
    monotonic_raw_ns: int | None = None
    width_ns: int | None = None
    clock_position: str = "start"
