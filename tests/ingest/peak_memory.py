"""A process's peak resident memory, from /proc (proc(5)).

`getrusage` will not do: a program started by a large process reports at least that process's size, for its own peak
begins with that of the fork; and within one process its peak never falls.
"""

from __future__ import annotations

from pathlib import Path


def reset_peak() -> int:
    """Let the peak begin anew; the resident bytes it begins with."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


def peak_bytes() -> int:
    """Most bytes resident at once since the program began, or since `reset_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("/proc/self/status has no VmHWM")
