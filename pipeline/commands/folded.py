"""`leakpath folded`: stack samples as folded stacks, for flame graph tools."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Print the stack samples of OUT as folded stacks.")
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT")
@click.option("--capture", help="Which capture of OUT, by name.  [default: the only one]")
@click.option("--event", help="Samples of this event alone.  [default: the first event]")
@click.option("--pid", is_flag=True, help="Process id with the name.")
@click.option("--tid", is_flag=True, help="Process and thread id with the name.")
@click.option("--kernel", is_flag=True, help="Mark functions of the kernel with _[k].")
@click.option("--jit", is_flag=True, help="Mark functions of a just-in-time compiler with _[j].")
@click.option("--all", "is_all", is_flag=True, help="Both marks.")
@click.option("--addrs", is_flag=True, help="Addresses of frames without a symbol.")
def folded(
    out: Path,
    capture: str | None,
    event: str | None,
    pid: bool,
    tid: bool,
    kernel: bool,
    jit: bool,
    is_all: bool,
    addrs: bool,
) -> None:
    """Print one line a stack on stdout, `name;root;…;leaf count`.

    The lines are those of stackcollapse-perf.pl for the same options, and what flamegraph.pl, inferno and
    speedscope read. OUT is the folder of a run, or of one capture in it.
    """
    from reports.build import capture_folder
    from reports.folded import FoldedOptions, folded_lines
    from reports.source import CaptureTables

    options = FoldedOptions(pid=pid, tid=tid, kernel=kernel or is_all, jit=jit or is_all, addrs=addrs, event=event)
    with CaptureTables(capture_folder(out, capture)) as tables:
        for line in folded_lines(tables, options):
            click.echo(line)
