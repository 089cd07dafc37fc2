"""The stages a capture goes through, as the commands and the workflow call them: folders in, folders out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from ingest.atomic import output_error
from ingest.errors import BadInput
from ingest.writer import ParquetFile
from pipeline.locks import capture_lock
from pipeline.state import INGEST_DIAGNOSTICS, STAGE_TABLES
from schemas.config import Config
from schemas.tables import TABLES

Progress = Callable[[str], None]


def _write_missing(capture_dir: Path, stage: str) -> None:
    """Write the stage's tables that have no rows, so that every declared file is there."""
    for name in STAGE_TABLES[stage]:
        path = capture_dir / "tables" / f"{name}.parquet"
        if not path.exists():
            ParquetFile(TABLES[name], path).close()


def _copy(source: Path, target: Path) -> None:
    """Copy a file whole or not at all."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, partial)
        partial.replace(target)
    except OSError as error:
        raise output_error(error, target) from error


def run_ingest(
    files: Sequence[Path], root: Path, capture_dir: Path, progress: Progress, config: Config | None = None
) -> None:
    """Capture files to raw tables on one clock. Raises BadInput, OutputError."""
    from pipeline.ingesting import ingest

    with capture_lock(capture_dir):
        ingest(files, root, capture_dir, progress, (config or Config()).ingest)
        _write_missing(capture_dir, "ingest")
        counted = capture_dir / "tables" / "diagnostics.parquet"
        if not counted.exists():
            ParquetFile(TABLES["diagnostics"], counted).close()
        _copy(counted, capture_dir / INGEST_DIAGNOSTICS)


def run_analyze(capture_dir: Path, config: Config, progress: Progress) -> None:
    """Raw tables to core and out tables. Raises BadInput when `capture_dir` holds no raw tables, OutputError."""
    if not (capture_dir / "tables" / "capture_files.parquet").is_file():
        raise BadInput("no tables in it", where=str(capture_dir), todo="run `leakpath ingest` first")
    from pipeline.steps import analyze

    with capture_lock(capture_dir):
        kept = capture_dir / INGEST_DIAGNOSTICS
        if kept.is_file():
            _copy(kept, capture_dir / "tables" / "diagnostics.parquet")
        analyze(capture_dir, config, progress)
        _write_missing(capture_dir, "analyze")
