"""`leakpath ingest`: capture files to raw tables."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the results.")
@click.option("--name", help="Name of the capture, a folder of OUT.  [default: from FILE]")
@click.option("--config", type=click.Path(path_type=Path), help="Settings, see docs/config.md.")
def ingest(files: tuple[Path, ...], out: Path, name: str | None, config: Path | None) -> None:
    """Read capture files into Parquet tables on one clock.

    All FILEs are of one capture: a folder, or files of one run. The tables go to OUT/NAME/tables.
    """
    from pipeline.inputs import one_capture, prepare_out
    from pipeline.progress import is_events, say
    from pipeline.stages import run_ingest
    from schemas.config import load_config

    settings = load_config(config)
    capture = one_capture(files, name)
    target = prepare_out(out, [capture]) / capture.name
    run_ingest(capture.recordings, capture.root, target, say, settings)
    if not is_events():
        say(f"tables are in {out / capture.name / 'tables'}")
