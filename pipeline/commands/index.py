"""`leakpath index`: the database of views and the page over all captures."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Write leakpath.duckdb and index.html of OUT.")
@click.argument("out", type=click.Path(path_type=Path))
def index(out: Path) -> None:
    """Write OUT/leakpath.duckdb and OUT/index.html over all captures in OUT."""
    from pipeline.index import build_index
    from pipeline.progress import is_events, say

    rows = build_index(out.resolve())
    if not is_events():
        say(f"{len(rows)} capture{'s' * (len(rows) != 1)} in {out / 'index.html'}")
