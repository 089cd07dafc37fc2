"""One writer at a time: an advisory lock on a folder, freed by the system when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ingest.errors import OutputError


@contextmanager
def locked(path: Path, where: Path, *, wait_s: float) -> Iterator[int]:
    """Hold the lock file `path`; gives its descriptor, for a child process to hold it too.

    Waits up to `wait_s` seconds. Raises OutputError naming `where` and the process that holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    holder = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip() or "unknown"
                    raise OutputError(
                        f"another leakpath is writing here (process {holder})",
                        where=str(where),
                        todo="wait for it, or end it and run the same command again",
                    ) from None
                time.sleep(0.1)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def capture_lock(capture_dir: Path) -> Iterator[None]:
    """Hold one capture's output folder while a stage writes it, and clear what a killed stage left half-written."""
    with locked(capture_dir / ".lock", capture_dir, wait_s=10):
        for leftover in [*capture_dir.glob(".*.partial"), *capture_dir.glob("*/.*.partial")]:
            leftover.unlink(missing_ok=True)
        yield
