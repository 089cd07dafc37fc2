"""Whole files or none, and the one-line error of a failed write; without the libraries of tables."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ingest.errors import OutputError


def output_error(error: OSError, path: Path) -> OutputError:
    """The one-line error for a failed write to `path`."""
    todo = (
        "free some space and run the same command again"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        else "choose a folder you can write to with --out"
    )
    return OutputError(error.strerror or str(error), where=str(path), todo=todo)


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a whole file under a temporary name, then rename it. Raises OutputError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise output_error(error, path) from error
