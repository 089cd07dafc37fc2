"""What a command says while it works: plain lines for people, JSON lines for the run that started it."""

from __future__ import annotations

import sys
from typing import Any, Literal

import click
import orjson

Mode = Literal["lines", "events", "quiet"]

_mode: Mode = "lines"


def printable(text: str) -> str:
    """The text with all that a terminal would obey instead of show, and all that is no text, written as \\uXXXX.

    Names of files and functions come from captures: they may hold escape sequences or bytes of no encoding.
    """
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def set_mode(mode: Mode) -> None:
    """How this process says things from now on."""
    global _mode
    _mode = mode


def is_events() -> bool:
    """Whether another program reads what this process says."""
    return _mode == "events"


def event(kind: str, **facts: Any) -> None:
    """One JSON line on stderr, when somebody asked for events."""
    if _mode == "events":
        sys.stderr.buffer.write(orjson.dumps({"event": kind, **facts}, option=orjson.OPT_APPEND_NEWLINE))
        sys.stderr.buffer.flush()


def say(line: str) -> None:
    """One step of the work, in a few words."""
    line = printable(line)
    if _mode == "events":
        event("message", text=line)
    elif _mode == "lines":
        click.echo(f"leakpath: {line}", err=True)
