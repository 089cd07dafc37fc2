"""Errors that end a command with one clear line and a documented exit code."""

from __future__ import annotations

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_BAD_INPUT = 3
EXIT_OUTPUT = 4
EXIT_INTERNAL = 5


class LeakpathError(Exception):
    """What happened, where, and what to do, in one line. `exit_code` is the process's answer."""

    exit_code = EXIT_INTERNAL

    def __init__(self, what: str, *, where: str | None = None, todo: str | None = None) -> None:
        self.what, self.where, self.todo = what, where, todo
        super().__init__(": ".join(part for part in (where, what) if part) + (f"; {todo}" if todo else ""))


class BadInput(LeakpathError):
    """The input can't be used: missing, unknown, damaged beyond reading or refused as unsafe."""

    exit_code = EXIT_BAD_INPUT


class UnsupportedVersion(BadInput):
    """The format is ours, its version is not; names the version found and those supported."""


class UnsafeInput(BadInput):
    """The file tries to do something a capture has no business doing."""


class OutputError(LeakpathError):
    """The output can't be written: not a folder, no permission, disk full, locked."""

    exit_code = EXIT_OUTPUT
