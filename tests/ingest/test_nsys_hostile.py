"""SQLite files that mean harm or are damaged: what is plain is read, what is not is counted, and nothing runs."""

from __future__ import annotations

import gzip
import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ingest import nsys_sqlite_file
from ingest.errors import BadInput
from ingest.nsys_sqlite import IMPORTER
from ingest.nsys_tables import resolve
from tests.ingest.nsys_exports import GENERATIONS, TABLES, TID, UTC, tables_of_generation, write_sqlite
from tests.ingest.support import counts_of, ingest_file
from tests.ingest.test_nsys_sqlite import Tables, rows
from tests.ingest.text_damage import data_loss, flipped

CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"


def changed(tmp_path: Path, *statements: str, generation: str = "2024.2") -> Path:
    """An export after somebody ran statements on it."""
    export = write_sqlite(tmp_path / "export.sqlite", tables_of_generation(generation))
    with closing(sqlite3.connect(export)) as database:
        database.executescript(";".join(statements))
        database.commit()
    return export


def many_calls(tmp_path: Path, number: int) -> Path:
    """An export with that many calls, a microsecond apart."""
    tables = tables_of_generation("2024.2")
    call = tables[CALLS][2]
    calls = [call | {"start": n * 1000, "end": n * 1000 + 10, "correlationId": n + 1} for n in range(number)]
    return write_sqlite(tmp_path / "many.sqlite", tables | {CALLS: calls})


def starts(tables: Tables) -> list[int]:
    return [row[0] % UTC for row in rows(tables, "api_calls", "start_ns api") if row[1] != "osrt"]


@pytest.fixture(params=["adbc", "standard library"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "adbc":

        def refuse(*arguments: Any) -> Any:
            raise nsys_sqlite_file.NotPlainError

        monkeypatch.setattr(nsys_sqlite_file.SqliteExport, "_fast", refuse)
    return str(request.param)


def test_both_ways_of_reading_give_the_same(engine: str, tmp_path: Path) -> None:
    tables = ingest_file(write_sqlite(tmp_path / "x.sqlite", tables_of_generation("2024.2")), tmp_path, IMPORTER)
    assert starts(tables) == [0, 10, 100, 120, 900]
    assert rows(tables, "ranges", "attributes")[3] == ('{"category":"io","payload":8}',)
    assert len(rows(tables, "gpu_ops", "op")) == 8
    assert data_loss(tables) == {"metrics_without_name": 1, "profiler_lost_events": 1}


def test_plain_tables_are_read_by_the_driver_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> Any:
        raise AssertionError("read row by row")

    monkeypatch.setattr(nsys_sqlite_file.SqliteExport, "_careful", refuse)
    for generation in GENERATIONS:
        export = write_sqlite(tmp_path / f"{generation}.sqlite", tables_of_generation(generation))
        assert len(starts(ingest_file(export, tmp_path, IMPORTER))) == 5


def test_views_triggers_virtual_tables_and_generated_columns(engine: str, tmp_path: Path) -> None:
    bomb = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    export = changed(
        tmp_path,
        f"DROP TABLE {CALLS}",
        f"CREATE VIEW {CALLS} AS {bomb}",
        "DROP TABLE NVTX_EVENTS",
        "CREATE VIRTUAL TABLE NVTX_EVENTS USING fts5(text)",
        "CREATE TRIGGER t INSTEAD OF INSERT ON CUPTI_ACTIVITY_KIND_RUNTIME BEGIN SELECT 1; END",
        "ALTER TABLE OSRT_API ADD COLUMN correlationId INTEGER GENERATED ALWAYS AS (abs(-9223372036854775807 - 1))",
    )
    tables = ingest_file(export, tmp_path, IMPORTER)
    assert starts(tables) == []
    assert "ranges" not in tables
    assert rows(tables, "api_calls", "api name thread_id") == [("osrt", "open", TID)]
    counts = counts_of(tables)
    assert counts[("not_plain_tables", "info")] == 3
    assert counts[("generated_columns", "info")] == 1


def test_hostile_names_are_names(engine: str, tmp_path: Path) -> None:
    export = changed(
        tmp_path,
        'CREATE TABLE "x""; DROP TABLE StringIds; --" (a INTEGER)',
        'INSERT INTO "x""; DROP TABLE StringIds; --" VALUES (1)',
        'CREATE TABLE \'<script>alert(1)</script>\' ("a""b" INTEGER, rowid INTEGER)',
        f"ALTER TABLE {CALLS} ADD COLUMN rowid INTEGER DEFAULT 7",
        *(f"CREATE TABLE t{n} (a); INSERT INTO t{n} VALUES (1)" for n in range(50)),
    )
    tables = ingest_file(export, tmp_path, IMPORTER)
    assert starts(tables) == [0, 10, 100, 120, 900]
    [detail] = [row[1] for row in rows(tables, "diagnostics", "name detail") if row[0] == "tables_left_out"]
    assert counts_of(tables)[("tables_left_out", "info")] == 52
    assert len(detail) < 500


def test_columns_of_other_types(engine: str, tmp_path: Path) -> None:
    export = changed(
        tmp_path,
        f"UPDATE {CALLS} SET start = 'noon' WHERE correlationId = 2",
        f"UPDATE {CALLS} SET end = 12.5 WHERE correlationId = 3",
        f"UPDATE {CALLS} SET correlationId = x'00ff' WHERE correlationId = 4",
        f"UPDATE {CALLS} SET start = 9223372036854775807, returnValue = -9223372036854775808 WHERE correlationId = 9",
        "UPDATE StringIds SET value = x'ff41' WHERE value = 'open'",
        "UPDATE StringIds SET value = CAST(x'ff42' AS TEXT) WHERE value = 'add'",
        "UPDATE NVTX_EVENTS SET text = 12 WHERE text = 'open range'",
    )
    tables = ingest_file(export, tmp_path, IMPORTER)
    found = rows(tables, "api_calls", "start_ns end_ns correlation_id name")[:5]
    assert [row[3] for row in found] == [
        "cudaMalloc", "cuMemAlloc_v2", "cudaLaunchKernel", "cudaMemcpyAsync_ptsz", "cudaMalloc",
    ]  # fmt: skip
    assert [row[0] for row in found] == [UTC, None, UTC + 100, UTC + 120, None]
    assert (found[2][1], found[3][2]) == (None, None)
    assert rows(tables, "api_calls", "name")[5] == ("\ufffdA",)
    assert ("\ufffdB",) in rows(tables, "gpu_ops", "name")
    assert ("12",) in rows(tables, "ranges", "name")
    lost = data_loss(tables)
    assert lost["values_of_another_type"] == 3
    assert lost["value_out_of_range"] == 1


def test_a_table_without_rows_columns_or_row_numbers(engine: str, tmp_path: Path) -> None:
    export = changed(
        tmp_path,
        f"DROP TABLE {CALLS}",
        f"CREATE TABLE {CALLS} (other TEXT)",
        f"INSERT INTO {CALLS} VALUES ('here')",
        "DELETE FROM NVTX_EVENTS",
        "DROP TABLE SCHED_EVENTS",
        "CREATE TABLE SCHED_EVENTS (start INTEGER PRIMARY KEY, isSchedIn INTEGER) WITHOUT ROWID",
        "INSERT INTO SCHED_EVENTS VALUES (5, 1), (6, 0)",
    )
    tables = ingest_file(export, tmp_path, IMPORTER)
    assert starts(tables) == []
    assert "ranges" not in tables
    scheduled = [row for row in rows(tables, "stack_samples", "event ts_ns thread_id") if "sched" in row[0]]
    assert scheduled == [("sched_in", UTC + 5, None), ("sched_out", UTC + 6, None)]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"a?mode=rwc#%20\xff&b.sqlite")
    write_sqlite(tmp_path / "export.sqlite", tables_of_generation("2024.2")).rename(odd)
    assert starts(ingest_file(odd, tmp_path, IMPORTER)) == [0, 10, 100, 120, 900]


def test_huge_texts_are_cut(tmp_path: Path) -> None:
    """A value larger than the limit costs its row; a long one is cut."""
    export = changed(
        tmp_path,
        "UPDATE NVTX_EVENTS SET text = replace(hex(zeroblob(3000000)), '0', 'x') WHERE text = 'request:1'",
        "UPDATE NVTX_EVENTS SET text = replace(hex(zeroblob(20000000)), '0', 'y') WHERE text = 'open range'",
    )
    tables = ingest_file(export, tmp_path, IMPORTER)
    names = [row[0] for row in rows(tables, "ranges", "name")]
    assert max(len(name) for name in names) < 5000
    assert any(name.startswith("xxx") for name in names)


def test_a_write_ahead_log_beside_it_is_left_alone_and_counted(tmp_path: Path) -> None:
    export = write_sqlite(tmp_path / "export.sqlite", tables_of_generation("2024.2"))
    with closing(sqlite3.connect(export)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"DELETE FROM {CALLS}")
        database.commit()
        assert (tmp_path / "export.sqlite-wal").stat().st_size
        before = (tmp_path / "export.sqlite-wal").read_bytes()
        tables = ingest_file(export, tmp_path, IMPORTER)
        assert (tmp_path / "export.sqlite-wal").read_bytes() == before
    assert starts(tables) == [0, 10, 100, 120, 900]
    assert data_loss(tables)["write_ahead_log_left_out"] == 1


def test_pages_that_lead_back_are_read_once(engine: str, tmp_path: Path) -> None:
    """A b-tree whose interior page names one child many times would be read for ever."""
    export = many_calls(tmp_path, 3000)
    data = bytearray(export.read_bytes())
    root = _root_page(export, CALLS)
    at = (root - 1) * 4096
    assert data[at] == 5
    count = int.from_bytes(data[at + 3 : at + 5], "big")
    cells = [int.from_bytes(data[at + 12 + 2 * n : at + 14 + 2 * n], "big") for n in range(count)]
    first = bytes(data[at + cells[0] : at + cells[0] + 4])
    for cell in cells:
        data[at + cell : at + cell + 4] = first
    export.write_bytes(data)
    tables = ingest_file(export, tmp_path, IMPORTER)
    found = starts(tables)
    assert len(found) == len(set(found)) < 3000
    assert data_loss(tables)["damaged_tables"] == 1


def _root_page(export: Path, table: str) -> int:
    with closing(sqlite3.connect(export)) as database:
        return int(database.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0])


@pytest.mark.parametrize("wound", [1, 30])
def test_damaged_pages_cost_their_own_rows(engine: str, wound: int, tmp_path: Path) -> None:
    export = many_calls(tmp_path, 20_000)
    data = bytearray(export.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + wound * 4096] = b"\xff" * (wound * 4096)
    export.write_bytes(data)
    tables = ingest_file(export, tmp_path, IMPORTER)
    found = starts(tables)
    assert found == sorted(set(found)), "no row twice, none out of order"
    assert set(found) <= set(range(0, 20_000_000, 1000))
    assert 20_000 - 300 * (wound + 1) <= len(found) < 20_000
    assert data_loss(tables)["damaged_tables"] == 1


def test_cut_at_ten_places(tmp_path: Path) -> None:
    """Where the list of tables is there, rows come out and the cut is counted; else it is one line."""
    export = many_calls(tmp_path, 20_000)
    data = export.read_bytes()
    whole = starts(ingest_file(export, tmp_path, IMPORTER))
    assert len(whole) == 20_000
    read = 0
    for place in range(1, 11):
        cut = tmp_path / "cut.sqlite"
        cut.write_bytes(data[: len(data) * place // 11])
        try:
            tables = ingest_file(cut, tmp_path, IMPORTER)
        except (BadInput, AssertionError):
            continue
        found = starts(tables)
        assert found == whole[: len(found)]
        assert data_loss(tables)["damaged_database"] == 1
        read = max(read, len(found))
    assert read > 15_000
    packed = tmp_path / "packed.bin"
    packed.write_bytes(gzip.compress(data, 1)[:-2000])
    assert data_loss(ingest_file(packed, tmp_path, IMPORTER))["truncated_stream"] == 1


def _flips(data: bytes, seed: int) -> bytes:
    return flipped(data, seed, 40, 100)


def _zeroed(data: bytes, seed: int) -> bytes:
    chance = random.Random(seed)
    damaged = bytearray(data)
    at = chance.randrange(4096, len(data) - 8192)
    damaged[at : at + 8192] = bytes(8192)
    return bytes(damaged)


@pytest.mark.parametrize("damage", [_flips, _zeroed])
def test_bytes_at_random(damage: Callable[[bytes, int], bytes], tmp_path: Path) -> None:
    data = write_sqlite(tmp_path / "export.sqlite", tables_of_generation("2026.1")).read_bytes()
    for seed in range(25):
        export = tmp_path / "damaged.sqlite"
        export.write_bytes(damage(data, seed))
        try:
            ingest_file(export, tmp_path, IMPORTER)
        except BadInput as error:
            assert "\n" not in str(error)
        except AssertionError as error:
            assert "does not recognise" in str(error), error


def test_numbers_beyond_what_a_table_holds(tmp_path: Path) -> None:
    tables = tables_of_generation("2024.2")
    kernel = TABLES["CUPTI_ACTIVITY_KIND_KERNEL"][0]
    extreme = [
        kernel | {key: value for key in kernel if key not in ("demangledName",)} | {"globalPid": value}
        for value in (2**63 - 1, -(2**63), -1, 0, 2**62)
    ]
    export = write_sqlite(tmp_path / "extreme.sqlite", tables | {"CUPTI_ACTIVITY_KIND_KERNEL": extreme})
    read = ingest_file(export, tmp_path, IMPORTER)
    assert sum(row[0] == "kernel" for row in rows(read, "gpu_ops", "op")) == 5
    assert data_loss(read)["value_out_of_range"] > 0


def test_versions_of_a_table_however_long_the_names_beside_it_are() -> None:
    tables = dict.fromkeys(("A_V2", "A_V10", "A_V", "A_Vx", "A_V12345", "A_V3_V99", "AA_V9", "A" * 10_000_000), ())
    began = time.monotonic()
    assert [resolve(tables, "A") for _ in range(200)] == ["A_V10"] * 200
    assert resolve(tables, "B") is None
    assert time.monotonic() - began < 5
