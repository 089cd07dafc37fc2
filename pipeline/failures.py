"""What a failed command says and answers: one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import errno
import tempfile
import traceback
from pathlib import Path

import click

from ingest.errors import EXIT_BAD_INPUT, EXIT_INTERNAL, EXIT_OUTPUT, LeakpathError
from pipeline.progress import event, is_events, printable

EXIT_INTERRUPTED = 130

_WRITE_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EIO}
_READ_ERRNOS = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
_FULL = ("no space left", "disk quota exceeded", "file too large", "out of disk space")

trouble_folder: Path | None = None
"""Where an unexpected error's traceback goes; commands that know their OUT set it, else a temporary folder."""


def keep_tracebacks_in(folder: Path) -> None:
    """From now on write the traceback of an unexpected error into `folder`."""
    global trouble_folder
    trouble_folder = folder


def is_disk_full(text: str) -> bool:
    """Whether a library's error text says that the disk or the quota is full."""
    return any(sign in text.lower() for sign in _FULL)


def describe(error: BaseException) -> tuple[str, int]:
    """One line (without the `leakpath: error:` before it) and the exit code for what a command raised."""
    if isinstance(error, LeakpathError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return "interrupted; run the same command again to go on", EXIT_INTERRUPTED
    if isinstance(error, OSError) and (error.errno in _WRITE_ERRNOS or is_disk_full(str(error))):
        where = f"{error.filename}: " if error.filename else ""
        full = error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS)
        todo = "free some space and run the same command again" if full else "choose a folder you can write to"
        return f"{where}{error.strerror or error}; {todo}", EXIT_OUTPUT
    if isinstance(error, OSError) and error.errno in _READ_ERRNOS:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; check the path", EXIT_BAD_INPUT
    if is_disk_full(str(error)):
        return f"{_one_line(error)}; free some space and run the same command again", EXIT_OUTPUT
    if isinstance(error, MemoryError):
        return "out of memory; use a machine with more memory or fewer --cores", EXIT_INTERNAL
    return f"unexpected {type(error).__name__}: {_one_line(error)}{_traceback_file(error)}", EXIT_INTERNAL


def exit_code_of(error: BaseException) -> int:
    """Say what happened on stderr and give the exit code; for everything that reaches the top of a command."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    text, code = describe(error)
    text = printable(text)
    if is_events():
        event("error", text=text, exit_code=code)
        return code
    click.echo(f"leakpath: error: {text}", err=True)
    return code


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else "no message"


def _traceback_file(error: BaseException) -> str:
    folder = trouble_folder or Path(tempfile.gettempdir())
    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="leakpath-traceback-", suffix=".txt", dir=folder, delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        return f"; please report it with {file.name}"
    except OSError:
        return ""
