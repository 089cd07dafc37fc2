"""The `leakpath` command: a click group that loads each command's module only when it is asked for."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import Any

import click

from pipeline import commands
from pipeline.failures import exit_code_of
from pipeline.lifeline import hold_lifeline
from pipeline.progress import event, set_mode

_FIRST = ("run", "ingest", "analyze", "report", "index", "query")


class LeakpathGroup(click.Group):
    """Commands are the modules of `pipeline.commands`; each holds a click command of its own name.

    Whatever a command raises becomes one line on stderr and a documented exit code (`pipeline.failures`).
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = {module.name.replace("_", "-") for module in pkgutil.iter_modules(commands.__path__)}
        return [name for name in _FIRST if name in found] + sorted(found - set(_FIRST))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"pipeline.commands.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            found = super().invoke(ctx)
            sys.stdout.flush()
            return found
        except BrokenPipeError:
            # The reader of our output went away (`| head`): nothing to say, and nothing left to flush to.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return None

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> Any:  # type: ignore[override]
        extra.pop("standalone_mode", None)
        try:
            code = super().main(args=args, prog_name=prog_name or "leakpath", standalone_mode=False, **extra)
        except BaseException as error:
            code = exit_code_of(error)
        code = code if isinstance(code, int) else 0
        if not code:
            event("done")
        sys.exit(code)


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"leakpath {version('leakpath')}")
        ctx.exit()


@click.group(
    "leakpath", cls=LeakpathGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version and exit."
)
@click.option("--events", is_flag=True, help="Progress and errors as JSON lines on stderr, for programs.")
def cli(events: bool) -> None:
    """Offline post-mortem of GPU memory.

    Takes the captures of a run, puts them on one clock, rebuilds the life of every allocation, and says
    which call path, request or process keeps memory that it should have given back.

    Exit codes: 0 done, 2 wrong usage, 3 input that can't be used, 4 output that can't be written,
    5 a fault of leakpath itself.
    """
    hold_lifeline()
    set_mode("events" if events else "lines")
    event("start")


def main() -> None:
    """Entry point of the console script."""
    cli.main()
