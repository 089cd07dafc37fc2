"""Ties a process to the `leakpath run` that started it: when the run dies, however it dies, so does the process."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

VARIABLE = "LEAKPATH_RUN"
_POLL_S = 0.25


def _started(pid: int) -> str:
    """Start time of a process where the system tells it, to know it from a later one with its number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def lifeline() -> str:
    """Value of `LEAKPATH_RUN` for processes that must not outlive this one."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def _is_alive(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _started(pid) == started


def hold_lifeline() -> None:
    """Watch the run named in the environment; on another host (a cluster job) or outside a run do nothing."""
    host, _, rest = os.environ.get(VARIABLE, "").rpartition(":")[0].partition(":")
    started = os.environ.get(VARIABLE, "").rpartition(":")[2]
    if host != socket.gethostname() or not rest.isdecimal():
        return
    pid = int(rest)

    def watch() -> None:
        while _is_alive(pid, started):
            time.sleep(_POLL_S)
        # No clean-up: what was half-written has a temporary name, and the next run clears it.
        os._exit(137)

    threading.Thread(target=watch, daemon=True, name="lifeline").start()
