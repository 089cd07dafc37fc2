"""Readings of the host's clocks taken together, so that timestamps on any of them can be put on another."""

from __future__ import annotations

import time

ATTEMPTS = 9


def read_clock_pair() -> dict[str, int]:
    """The tightest of a few readings, in ns: realtime, monotonic, boottime, monotonic_raw.

    `width_ns` is the realtime that passed while the other three were read: the pair is uncertain by half of it.
    """
    return min((_read_once() for _ in range(ATTEMPTS)), key=lambda pair: pair["width_ns"])


def _read_once() -> dict[str, int]:
    before = time.time_ns()
    monotonic = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    boottime = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    after = time.time_ns()
    return {
        "realtime": (before + after) // 2,
        "monotonic": monotonic,
        "boottime": boottime,
        "monotonic_raw": raw,
        "width_ns": after - before,
    }
