"""Nsight Systems exports as folders: the same rows as from SQLite, one capture file, damage by the table."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest import nsys_folder, nsys_sqlite
from ingest.capture import capture_files, read_capture
from ingest.digests import parts_digest
from ingest.errors import BadInput
from ingest.external_tools import run_tool, tool_path
from ingest.folders import grouped, members
from ingest.registry import importer_for
from ingest.sink import Sink
from pipeline.commands.sniff import sniff as sniff_command
from tests.ingest.nsys_exports import UTC, tables_of_generation, write_folder, write_sqlite
from tests.ingest.support import SHARED, counts_of, tables_of
from tests.ingest.test_nsys_hostile import many_calls
from tests.ingest.test_nsys_sqlite import Tables
from tests.ingest.text_damage import data_loss

CORPUS = SHARED / "corpus"
LOG = '{"request_id": 1, "arrival_ns": 1796036887197815835, "end_ns": 1796036888103727645, "status": 200}\n'


def read(path: Path, tmp_path: Path) -> Tables:
    """Tables of an export of either kind."""
    importer = nsys_folder.IMPORTER if path.is_dir() else nsys_sqlite.IMPORTER
    assert importer_for(b"" if path.is_dir() else path.read_bytes()[:65536], path) is importer
    parts = tmp_path / f"parts{sum(1 for _ in tmp_path.iterdir())}"
    parts.mkdir()
    sink = Sink(parts, 0, importer.source, clock=importer.clock)
    importer.read(path, sink)
    sink.close()
    return tables_of(parts)


def assert_same(folder: Path, export: Path, tmp_path: Path) -> None:
    ours, theirs = read(folder, tmp_path), read(export, tmp_path)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        assert ours[name].equals(theirs[name]), name


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return write_sqlite(tmp_path / "export.sqlite", tables_of_generation("2026.1"))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_the_same_rows_as_from_sqlite(kind: str, export: Path, tmp_path: Path) -> None:
    assert_same(write_folder(tmp_path / "folder", export, kind), export, tmp_path)


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not beside the checkout")
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("name", ["power_iteration__baseline.sqlite", "report1@e4a326fe.sqlite"])
def test_the_same_rows_as_from_real_exports(name: str, kind: str, tmp_path: Path) -> None:
    [real] = (CORPUS / "nsys_sqlite").rglob(name)
    assert_same(write_folder(tmp_path / "folder", real, kind), real, tmp_path)


@pytest.mark.skipif(not CORPUS.exists() or not tool_path("nsys"), reason="needs the corpus and nsys")
@pytest.mark.parametrize("kind", ["parquetdir", "arrowdir"])
def test_folders_that_nsys_itself_writes(kind: str, tmp_path: Path) -> None:
    report = CORPUS / "nsys_rep" / "Lianhang666+gpu4" / "report.nsys-rep"
    for output, type_ in ((tmp_path / "real", kind), (tmp_path / "real.sqlite", "sqlite")):
        command = ["nsys", "export", "--quiet", "true", "--type", type_, "--output", str(output), str(report)]
        run_tool(command, capture=report, todo="")
    assert_same(tmp_path / "real", tmp_path / "real.sqlite", tmp_path)


def test_a_folder_is_one_file_of_a_capture(export: Path, tmp_path: Path) -> None:
    root = tmp_path / "capture"
    root.mkdir()
    write_folder(root / "rank3_pqtdir", export)
    (root / "rank3_pqtdir" / "README.txt").write_text("exported on Monday\n")
    (root / "requests.jsonl").write_text(LOG)
    results, _ = read_capture(capture_files(root), root, tmp_path / "parts")
    assert [(r.path, r.format, r.read_state, r.rank) for r in results] == [
        ("rank3_pqtdir", "nsys_folder", "partial", 3),
        ("rank3_pqtdir/README.txt", None, "unknown_format", 3),
        ("requests.jsonl", "request_log", "read", None),
    ]
    together = members(root / "rank3_pqtdir")
    assert results[0].size_bytes == sum(path.stat().st_size for path in together)
    before = results[0].digest
    assert before == parts_digest(together)
    table = root / "rank3_pqtdir" / "StringIds.parquet"
    table.rename(table.with_name("Strings.parquet"))
    assert parts_digest(members(root / "rank3_pqtdir")) != before


def test_a_recording_is_read_once(export: Path, tmp_path: Path) -> None:
    """`nsys stats` leaves its export beside the report: both hold the same events."""
    root = tmp_path / "capture"
    root.mkdir()
    write_folder(root / "a_pqtdir", export)
    write_folder(root / "b_arwdir", export, "arrow")
    shutil.copyfile(export, root / "c.sqlite")
    other = tables_of_generation("2026.1")
    other["TARGET_INFO_SESSION_START_TIME"] = [{"utcEpochNs": UTC + 1}]
    write_sqlite(root / "d.sqlite", other)
    results, _ = read_capture(capture_files(root), root, tmp_path / "parts")
    assert [(r.path, r.read_state, r.message) for r in results] == [
        ("a_pqtdir", "partial", None),
        ("b_arwdir", "refused", "the same recording as a_pqtdir, which is read in its place"),
        ("c.sqlite", "refused", "the same recording as a_pqtdir, which is read in its place"),
        ("d.sqlite", "partial", None),
    ]
    assert {path.stem for path in (tmp_path / "parts" / "api_calls").iterdir()} == {"00000", "00003"}


def test_the_folder_itself_is_a_capture(export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folder(tmp_path / "report_pqtdir", export)
    sniff_command.main([str(folder), "--json"], standalone_mode=False)
    assert [fact["format"] for fact in json.loads(capsys.readouterr().out)] == ["nsys_folder"]
    [result], _ = read_capture(capture_files(folder), folder, tmp_path / "parts")
    assert (result.path, result.format) == ("report_pqtdir", "nsys_folder")
    some = capture_files(folder)[:-1]
    assert grouped(some) == some, "part of a folder is not the folder"


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "StringIds.parquet")
    pq.write_table(pa.table({"id": [1]}), folder / "kernels.parquet")
    assert members(folder) == []
    (folder / "NVTX_EVENTS.parquet").write_text("not a table")
    assert grouped(capture_files(folder)) == capture_files(folder)
    assert not nsys_folder.sniff(b"", folder / "kernels.parquet")


def _cut(path: Path, data: bytes) -> None:
    path.write_bytes(data[: len(data) * 2 // 3])


def _flipped(path: Path, data: bytes) -> None:
    chance, damaged = random.Random(5), bytearray(data)
    for _ in range(200):
        damaged[chance.randrange(8, len(damaged))] ^= 0xFF
    path.write_bytes(damaged)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("damage", [_cut, _flipped])
def test_a_damaged_table_costs_its_own_rows(damage: Callable[[Path, bytes], None], kind: str, tmp_path: Path) -> None:
    export = many_calls(tmp_path, 20_000)
    folder = write_folder(tmp_path / "folder", export, kind)
    whole = read(folder, tmp_path)
    for name in ("CUPTI_ACTIVITY_KIND_RUNTIME", "SAMPLING_CALLCHAINS", "META_DATA_EXPORT"):
        damage(folder / f"{name}.{kind}", (folder / f"{name}.{kind}").read_bytes())
    (folder / f"OSRT_API.{kind}").write_bytes(b"")
    tables = read(folder, tmp_path)
    assert tables["gpu_ops"].equals(whole["gpu_ops"])
    assert tables["ranges"].equals(whole["ranges"])
    assert data_loss(tables)["damaged_tables"] >= 1
    kept = tables["api_calls"].height if "api_calls" in tables else 0
    assert kept <= 20_000


def test_nothing_left_is_one_line(export: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "folder", export)
    for path in folder.iterdir():
        path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(BadInput) as refused:
        read(folder, tmp_path)
    assert "nsys export" in str(refused.value)
    shutil.rmtree(folder)
    assert members(folder) == []


def test_columns_of_other_types(export: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "folder", export)
    path = folder / "CUPTI_ACTIVITY_KIND_RUNTIME.parquet"
    table = pq.read_table(path)
    nested = pa.array([{"a": 1}] * table.num_rows)
    for column, values in (("start", table["start"].cast(pa.string())), ("returnValue", nested)):
        table = table.set_column(table.schema.get_field_index(column), column, values)
    table = table.set_column(table.schema.get_field_index("nameId"), "nameId", table["nameId"].dictionary_encode())
    pq.write_table(table, path)
    tables = read(folder, tmp_path)
    calls = tables["api_calls"].filter(tables["api_calls"]["api"] != "osrt")
    assert calls["name"].to_list()[:2] == ["cudaMalloc", "cuMemAlloc_v2"]
    assert calls["return_code"].null_count() == 5
    assert counts_of(tables)[("ranges_not_closed", "info")] == 1
