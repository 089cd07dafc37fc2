"""`leakpath tables`: the data contract, table by table."""

from __future__ import annotations

import click


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def tables(name: str | None, as_json: bool) -> None:
    """List the tables, or the columns of table NAME with their units."""
    from pipeline.describe import table_facts, table_lines, tables_lines, to_json

    if as_json:
        click.echo(to_json(table_facts(name)))
    else:
        for line in table_lines(name) if name else tables_lines():
            click.echo(line)
