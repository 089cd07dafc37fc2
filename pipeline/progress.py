"""What a command says while it works: plain lines for people, JSON lines for the run that started it."""

from __future__ import annotations

import sys
from typing import Any, Literal

import click
import orjson

Mode = Literal["lines", "events", "quiet"]

_mode: Mode = "lines"


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
    if _mode == "events":
        event("message", text=line)
    elif _mode == "lines":
        click.echo(f"leakpath: {line}", err=True)
