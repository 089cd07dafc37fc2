"""`leakpath formats`: the capture formats that can be read."""

from __future__ import annotations

import click


@click.command(short_help="List the capture formats that are read.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def formats(as_json: bool) -> None:
    """List the capture formats, with versions, clock and the tables they fill."""
    from pipeline.describe import format_facts, format_lines, to_json

    if as_json:
        click.echo(to_json(format_facts()))
    else:
        for line in format_lines():
            click.echo(line)
