"""`leakpath query`: answers in four formats, and no way out of the tables."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from ingest.errors import EXIT_BAD_INPUT
from pipeline.cli import cli
from schemas.tables import TABLES

ROWS = [
    {"request_id": "r0", "token_index": 0, "ts_ns": 10, "rss_bytes": 2**40},
    {"request_id": "r0", "token_index": 1, "ts_ns": 20, "rss_bytes": None},
]


def write_rows(path: Path, table: str, rows: list[dict[str, object]]) -> None:
    """Rows under the contract; columns that a row leaves out are filled with what the contract allows."""
    schema = TABLES[table].arrow_schema()
    blank = {"int64": 0, "int32": 0, "string": "", "bool": False, "double": 0.0}
    filled = [{f.name: row.get(f.name, None if f.nullable else blank[str(f.type)]) for f in schema} for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(filled, schema=schema), path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """OUT with two captures: `one` has tokens, `two` has none."""
    folder = tmp_path / "o[u]t 'x"
    for name in ("one", "two"):
        write_rows(folder / name / "tables" / "capture_files.parquet", "capture_files", [{"path": "a"}])
    write_rows(folder / "one" / "tables" / "tokens.parquet", "tokens", ROWS)
    return folder


def ask(out: Path, sql: str, *options: str) -> tuple[int, bytes, str]:
    result = CliRunner().invoke(cli, ["query", str(out), sql, *options])
    return result.exit_code, result.stdout_bytes, result.stderr


def test_json_keeps_whole_numbers_and_nulls(out: Path) -> None:
    code, answer, _ = ask(out, "SELECT capture, token_index, rss_bytes FROM tokens ORDER BY 2", "--format", "json")
    assert (code, json.loads(answer)) == (
        0,
        [
            {"capture": "one", "token_index": 0, "rss_bytes": 2**40},
            {"capture": "one", "token_index": 1, "rss_bytes": None},
        ],
    )


def test_sums_are_numbers_in_json(out: Path) -> None:
    _, answer, _ = ask(out, "SELECT sum(rss_bytes) AS s, avg(ts_ns) AS a, 0.5 AS d FROM tokens", "--format", "json")
    assert json.loads(answer) == [{"s": 2**40, "a": 15.0, "d": 0.5}]


def test_no_rows_is_an_empty_array(out: Path) -> None:
    assert json.loads(ask(out, "SELECT * FROM tokens WHERE false", "--format", "json")[1]) == []


def test_csv_reads_back(out: Path) -> None:
    sql = (
        "SELECT request_id, token_index, [1, 2] AS list, 'a,\"b' AS text, INTERVAL 1 DAY AS day FROM tokens ORDER BY 2"
    )
    rows = list(csv.DictReader(io.StringIO(ask(out, sql, "--format", "csv")[1].decode())))
    assert [(r["request_id"], r["token_index"], r["list"], r["text"]) for r in rows] == [
        ("r0", "0", "[1, 2]", 'a,"b'),
        ("r0", "1", "[1, 2]", 'a,"b'),
    ]


def test_parquet_reads_back(out: Path) -> None:
    answer = ask(out, "SELECT ts_ns FROM tokens ORDER BY 1", "--format", "parquet")[1]
    assert pq.read_table(io.BytesIO(answer)).to_pylist() == [{"ts_ns": 10}, {"ts_ns": 20}]


def test_table_is_aligned_and_counted(out: Path) -> None:
    text = ask(out, "SELECT request_id, ts_ns FROM tokens ORDER BY ts_ns")[1].decode().splitlines()
    assert text == ["request_id  ts_ns", "──────────  ─────", "r0             10", "r0             20", "(2 rows)"]


def test_every_capture_is_told_apart(out: Path) -> None:
    _, answer, _ = ask(out, "SELECT capture FROM capture_files ORDER BY 1", "--format", "json")
    assert json.loads(answer) == [{"capture": "one"}, {"capture": "two"}]


def test_the_folder_of_one_capture_will_do(out: Path) -> None:
    assert ask(out / "one", "SELECT count(*) FROM tokens")[0] == 0


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '{out}/stolen.csv'",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW tokens",
        "SELECT 1; SELECT 2",
        "",
        "ATTACH '{out}/x.duckdb'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "PRAGMA enable_profiling",
        "EXPLAIN ANALYZE SELECT 1",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('{out}/../secret')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT nothing FROM tokens",
        "SELECT * FROM no_such_table",
        "SELECT error('boom')",
        "SELECT (ts_ns::VARCHAR || 'x')::BIGINT FROM tokens",
    ],
)
def test_what_is_refused_is_one_line(out: Path, sql: str) -> None:
    (out.parent / "secret").write_text("secret")
    before = sorted(out.rglob("*"))
    code, answer, said = ask(out, sql.replace("{out}", str(out)), "--format", "json")
    assert code == EXIT_BAD_INPUT
    assert said.startswith("leakpath: error: SQL: ")
    assert said.count("\n") == 1
    assert b"secret" not in answer
    assert sorted(out.rglob("*")) == before


def test_out_without_captures(tmp_path: Path) -> None:
    code, _, said = ask(tmp_path, "SELECT 1")
    assert (code, said.count("\n")) == (EXIT_BAD_INPUT, 1)
    assert str(tmp_path) in said
