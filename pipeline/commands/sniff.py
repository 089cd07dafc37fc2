"""`leakpath sniff`: which format a file is in."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def sniff(files: tuple[Path, ...], as_json: bool) -> None:
    """Say by content which format each FILE is in. Exit code 3 when one is of none.

    A folder stands for the files in it.
    """
    from ingest.errors import EXIT_BAD_INPUT
    from pipeline.describe import sniff_facts, to_json

    found = sniff_facts(files)
    if as_json:
        click.echo(to_json(found))
    else:
        for fact in found:
            note = f" ({fact['note']})" if fact["note"] else ""
            click.echo(f"{fact['path']}: {fact['format'] or 'not recognised'}{note}")
    if not all(fact["format"] for fact in found):
        raise SystemExit(EXIT_BAD_INPUT)
