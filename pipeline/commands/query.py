"""`leakpath query`: ask the tables of OUT in SQL."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("sql")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "csv", "json", "parquet"]),
    default="table",
    show_default=True,
    help="How to write the answer on stdout.",
)
def query(out: Path, sql: str, output_format: str) -> None:
    """Answer one SELECT over the tables of all captures in OUT.

    Each table has a first column `capture`. The dialect is DuckDB's. Nothing is written, and no file outside
    OUT is read. `leakpath tables` lists tables and columns.
    """
    from pipeline.query import query as answer

    answer(out, sql, output_format)
