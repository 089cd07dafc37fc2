"""Where leakpath itself spends its time: each stage of one capture, recorded as a speedscope file.

Every call is recorded, which slows the stage down; compare shares, not seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import speedscope

from pipeline.inputs import one_capture
from pipeline.stages import run_analyze, run_ingest
from reports.build import build_report
from schemas.config import Config


@click.command()
@click.argument("capture", type=click.Path(exists=True, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(capture: Path, out: Path) -> None:
    """Write OUT/STAGE.speedscope.json for each stage of CAPTURE."""
    found = one_capture([capture], None)
    target = out / found.name
    stages: dict[str, Callable[[], object]] = {
        "ingest": lambda: run_ingest(found.recordings, found.root, target, click.echo),
        "analyze": lambda: run_analyze(target, Config(), click.echo),
        "report": lambda: build_report(target),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, stage in stages.items():
        file = out / f"{name}.speedscope.json"
        with speedscope.track(str(file)):
            stage()
        click.echo(str(file))


if __name__ == "__main__":
    main()
