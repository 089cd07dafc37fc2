"""A capture of one file only, of every format, goes through all stages and says what it lacks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.opening import read_head
from ingest.registry import importer_for, importers
from pipeline.steps import analyze, ingest
from reports.build import build_report
from schemas.config import Config
from tests.ingest.nsys_exports import tables_of_generation, write_folder, write_sqlite
from tests.ingest.test_cupti_table import records_of, write_csv
from tests.ingest.test_nsys_csv import API

DATA = Path(__file__).resolve().parents[1] / "data"
EXAMPLES = DATA.parents[1] / "examples"
NEEDS_A_PROGRAM = {"nsys_report", "perf_data"}


def _export(folder: Path) -> Path:
    return write_sqlite(folder / "made", tables_of_generation("2024.2"))


def _text(text: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "made").write_text(text)
        return folder / "made"

    return write


MADE: dict[str, Callable[[Path], Path]] = {
    "nsys_sqlite": _export,
    "nsys_folder": lambda folder: write_folder(folder / "export", _export(folder)),
    "nsys_csv": _text(API),
    "cupti_columns": lambda folder: write_csv(records_of("expandable", 500), folder / "made"),
    "request_csv": _text("request_id,arrival_ns,end_ns,status\n1,1796000000000000000,1796000001000000000,200\n" * 3),
}
"""Formats of which no file is bundled: what makes one."""


def _small_one_of_each_format() -> dict[str, Path]:
    """Format → its smallest bundled file of a kilobyte or more, or else its largest."""
    found: dict[str, Path] = {}
    files = (path for root in (DATA, EXAMPLES) for path in root.rglob("*") if path.is_file())
    sized = [(path.stat().st_size, path) for path in files]
    for _, path in sorted(sized, key=lambda item: (item[0] < 1000, item[0] if item[0] >= 1000 else -item[0], item[1])):
        importer = importer_for(read_head(path), path)
        if importer is not None:
            found.setdefault(importer.name, path)
    return found


BUNDLED = _small_one_of_each_format()


def test_every_format_has_a_file_to_try() -> None:
    assert {importer.name for importer in importers()} - NEEDS_A_PROGRAM == set(BUNDLED) - NEEDS_A_PROGRAM | set(MADE)


@pytest.mark.parametrize("name", sorted({*BUNDLED, *MADE} - NEEDS_A_PROGRAM))
def test_one_file_alone_ends_in_a_report(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    file = BUNDLED.get(name) or MADE[name](tmp_path)
    ingest([file], file, out)
    analyze(out, Config())
    written = build_report(out)
    findings = json.loads(written.findings.read_text(encoding="utf-8"))["findings"]
    assert all(finding["title"] for finding in findings)
    assert findings, "findings say nothing, not even what is missing"
    html = written.html.read_text(encoding="utf-8")
    assert file.name in html
    assert "<script" not in html
