"""The written files: deterministic, complete, and there whatever is missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from ingest.errors import BadInput, OutputError
from pipeline.commands.report import report
from reports.build import build_report, capture_folders
from schemas.tables import TABLES
from tests.reports.builders import write_table, write_tables
from tests.reports.sample import leaking_capture


def contents(capture: Path) -> dict[str, bytes]:
    """Every written file but the tables."""
    files = build_report(capture)
    return {str(p.relative_to(capture)): p.read_bytes() for p in (files.html, files.findings, *files.flamegraphs)}


def test_same_tables_same_bytes_wherever_they_lie(leaking: Path, tmp_path: Path) -> None:
    first = contents(leaking)
    assert contents(leaking) == first
    elsewhere = tmp_path / "another [odd] 'place' *" / "demo"
    shutil.copytree(leaking / "tables", elsewhere / "tables")
    assert contents(elsewhere) == first
    assert not any(str(tmp_path).encode() in data for data in first.values())


def test_a_table_may_be_a_folder_of_parts(leaking: Path) -> None:
    first = contents(leaking)
    single = leaking / "tables" / "allocations.parquet"
    (leaking / "tables" / "allocations").mkdir()
    single.rename(leaking / "tables" / "allocations" / "00000.parquet")
    assert contents(leaking) == first


@pytest.mark.parametrize("name", sorted(TABLES))
def test_any_one_table_may_be_absent_empty_or_damaged(leaking: Path, name: str) -> None:
    path = leaking / "tables" / f"{name}.parquet"
    path.write_bytes(b"PAR1 no parquet at all")
    page = build_report(leaking).html.read_text("utf-8")
    assert f"<code>{name}</code> (unreadable" in page
    path.unlink()
    assert build_report(leaking).html.is_file()
    write_table(leaking, name, [])
    assert build_report(leaking).html.is_file()


@pytest.mark.parametrize("name", sorted(leaking_capture()))
def test_any_one_table_may_be_all_there_is(tmp_path: Path, name: str) -> None:
    capture = write_tables(tmp_path, {name: leaking_capture()[name]})
    assert build_report(capture).html.is_file()


def test_columns_and_rows_of_another_version(leaking: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"suspect_id": ["0"], "verdict": ["growing"], "new_column": [1], "retained_count": [3.0]})
    pq.write_table(table, leaking / "tables" / "leak_suspects.parquet")
    assert build_report(leaking).verdict.headline == "Leak: 3 allocations, 0 B kept."


def test_findings_file(leaking: Path) -> None:
    found = json.loads(build_report(leaking).findings.read_bytes())
    assert found["capture"] == "demo"
    assert found["verdict"]["tone"] == "leak"
    assert [finding["title"] for finding in found["findings"]] == [
        "KV cache of cancelled requests is kept",
        "Process 99 holds 10 MB and does nothing",
    ]
    assert found["findings"][0]["evidence"] == [{"table": "leak_suspects", "where": "suspect_id = 0"}]
    assert found["findings"][0]["bytes"] == 4_000_000
    assert found["tables"]["allocations"]["row_count"] == 18
    assert "allocation_links" not in found["tables"]
    assert list(found) == sorted(found)


def test_command_takes_a_batch_or_one_capture(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_tables(tmp_path / "out" / name, leaking_capture())
    (tmp_path / "out" / "unrelated").mkdir()
    assert [folder.name for folder in capture_folders(tmp_path / "out")] == ["a", "b"]
    result = CliRunner().invoke(report, [str(tmp_path / "out")])
    assert result.exit_code == 0
    assert (tmp_path / "out" / "a" / "report.html").is_file()
    assert (tmp_path / "out" / "b" / "flamegraphs" / "suspects.speedscope.json").is_file()
    result = CliRunner().invoke(report, [str(tmp_path / "out" / "a"), "--title", "Night run"])
    assert result.exit_code == 0
    assert "Night run" in (tmp_path / "out" / "a" / "report.html").read_text("utf-8")


def test_no_tables_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no analysed capture in here; run `leakpath run"):
        capture_folders(tmp_path)
    with pytest.raises(BadInput, match="no such folder"):
        capture_folders(tmp_path / "nowhere")


def test_unwritable_output(leaking: Path) -> None:
    (leaking / "report.html").mkdir()
    with pytest.raises(OutputError, match=r"report\.html"):
        build_report(leaking)
    assert not list(leaking.glob(".*.partial"))
