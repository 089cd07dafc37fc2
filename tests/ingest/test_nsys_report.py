"""Nsight Systems reports: read through `nsys export` where it is, refused with the command to run where it is not."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from ingest import nsys_report, nsys_sqlite
from ingest.errors import BadInput
from ingest.external_tools import tool_path
from ingest.registry import importer_for
from tests.ingest.nsys_exports import tables_of_generation, write_sqlite
from tests.ingest.support import SHARED, ingest_file

REPORTS = SHARED / "corpus" / "nsys_rep"
REPORT = b"NVIDIA Tegra Profiler Report 1.\n\x0bLocal (CLI)" + bytes(5000)

# What `nsys export` is called like, and what it leaves: the export where --output says.
FAKE = f"""#!{sys.executable}
import os, pathlib, shutil, sys
arguments = sys.argv[1:]
assert arguments[:3] == ["export", "--type", "sqlite"], arguments
assert arguments[arguments.index("--force-overwrite") + 1] == "true"
assert "SECRET" not in os.environ
report, output = pathlib.Path(arguments[-1]), pathlib.Path(arguments[arguments.index("--output") + 1])
assert report.is_absolute() and report.read_bytes().startswith(b"NVIDIA Tegra Profiler Report")
CODE
"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "x.bin"
    path.write_bytes(REPORT)
    return path


def fake_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nsys").write_text(FAKE.replace("CODE", code))
    (folder / "nsys").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("SECRET", "x")


def test_through_nsys(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = write_sqlite(tmp_path / "export.sqlite", tables_of_generation("2024.2"))
    expected = ingest_file(export, tmp_path, nsys_sqlite.IMPORTER)
    fake_nsys(tmp_path, monkeypatch, f"shutil.copyfile({str(export)!r}, output)")
    packed = tmp_path / "y.bin"
    packed.write_bytes(gzip.compress(REPORT))
    for path in (report, packed):
        tables = ingest_file(path, tmp_path, nsys_report.IMPORTER)
        assert tables.keys() == expected.keys()
        assert all(tables[name].equals(expected[name]) for name in expected)


@pytest.mark.parametrize("code", ["sys.exit('no space left')", "pass", "output.write_text('not an export')"])
def test_nsys_that_fails(code: str, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nsys(tmp_path, monkeypatch, code)
    with pytest.raises(BadInput) as refused:
        ingest_file(report, tmp_path, nsys_report.IMPORTER)
    assert "`nsys export --type sqlite" in str(refused.value)
    assert ("no space left" in str(refused.value)) == ("no space" in code)


def test_without_nsys(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput) as refused:
        ingest_file(report, tmp_path, nsys_report.IMPORTER)
    assert "run `nsys export --type sqlite --output report.sqlite REPORT`" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("head", "todo"),
    [
        (b"U3w[END]NVIDIA Nsight Systems Stream 2023.4.4.54", "QdstrmImporter"),
        (b'{"data":["[Unknown]","[NSys]","dlclose"', "--type sqlite"),
        (b"\x89HDF\r\n\x1a\n StringIds META_DATA_EXPORT", "parquetdir"),
        (b"\xff\xff\xff\xff\xc0\x01 table_name StringIds", "parquetdir"),
    ],
)
def test_recordings_and_exports_of_other_kinds(head: bytes, todo: str, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(head + bytes(100))
    with pytest.raises(BadInput, match=todo):
        ingest_file(path, tmp_path, nsys_report.IMPORTER)
    assert not nsys_report.IMPORTER.sniff(head.split(b" ")[0][:8], path)


@pytest.mark.skipif(not REPORTS.exists(), reason="the corpus is not beside the checkout")
def test_real_reports_are_recognised() -> None:
    reports = [path for path in REPORTS.rglob("*") if path.is_file()]
    assert len(reports) == 4
    for path in reports:
        assert importer_for(path.read_bytes()[:65536], path) is nsys_report.IMPORTER


@pytest.mark.skipif(not REPORTS.exists() or not tool_path("nsys"), reason="needs the corpus and nsys")
def test_a_real_report_gives_what_its_export_gives(tmp_path: Path) -> None:
    """The corpus has this report and its export, written by another version of nsys."""
    name = "davidev886+tutorial_vqe/report1"
    exported = ingest_file(SHARED / "corpus" / "nsys_sqlite" / f"{name}.sqlite", tmp_path, nsys_sqlite.IMPORTER)
    tables = ingest_file(REPORTS / f"{name}.nsys-rep", tmp_path, nsys_report.IMPORTER)
    for table in ("api_calls", "overheads", "processes", "streams", "devices"):
        assert tables[table].equals(exported[table]), table
