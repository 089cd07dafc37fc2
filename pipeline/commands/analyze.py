"""`leakpath analyze`: raw tables to lifetimes, suspects and findings."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Rebuild lifetimes and judge them.")
@click.argument("capture_out", type=click.Path(path_type=Path))
@click.option("--config", type=click.Path(path_type=Path), help="Settings, see docs/config.md.")
def analyze(capture_out: Path, config: Path | None) -> None:
    """Rebuild lifetimes and judge them, from the tables in CAPTURE_OUT (OUT/NAME)."""
    from pipeline.failures import keep_tracebacks_in
    from pipeline.progress import say
    from pipeline.stages import run_analyze
    from schemas.config import load_config

    keep_tracebacks_in(capture_out)
    run_analyze(capture_out, load_config(config), say)
