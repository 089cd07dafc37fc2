"""`leakpath report`: report.html, findings.json and flame graphs from the tables."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Write reports, findings and flame graphs of OUT.")
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT")
@click.option("--title", help="Heading of the report.  [default: name of the capture]")
def report(out: Path, title: str | None) -> None:
    """Write report.html, findings.json and flamegraphs/ for every capture in OUT.

    OUT is the folder of a run, or the folder of one capture in it.
    """
    from reports.build import build_report, capture_folders

    for folder in capture_folders(out):
        files = build_report(folder, title=title)
        click.echo(f"{folder.name}: {files.verdict.headline}", err=True)
        click.echo(str(files.html))
