"""SQL tested as data: rows written as text, a relation's SQL, and the rows that must come out, as text again.

database = tables(tmp_path, memory_events='''
    action  ts_ns  address  size_bytes
    alloc   10     512      512
    free    20     512      512
''')
run(database, "lifetimes", "tensor_lives")
assert_rows(database, "tensor_lives", '''
    address  alloc_ts_ns  free_ts_ns
    512      10           20
''')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ingest.writer import to_arrow
from pipeline.database import Database
from schemas.fields import FIELDS, Field
from schemas.tables import TABLES

Row = Mapping[str, Any]
SETTINGS = {"clock_tolerance_ns": 5_000_000}
NULL = "-"

# What a row means when it says nothing: a torch event of process 1, device 0, on the capture's clock.
USUAL: dict[str, Any] = {
    "file_id": 0,
    "source": "torch",
    "clock_aligned": True,
    "process_id": 1,
    "device_index": 0,
    "dump_index": 0,
    "level": "tensor",
    "memory_kind": "device",
    "block_state": "active_allocated",
    "path": "a",
    "row_count": 1,
    "clock_position": "start",
}


def _value(text: str, field: Field | None) -> Any:
    if text == NULL:
        return None
    kind = field.kind if field else "int64"
    if kind == "bool" or text in ("true", "false"):
        return {"true": True, "false": False}[text]
    if kind == "text":
        return text.replace("_|_", " ")
    if kind == "float64":
        return float(text)
    try:
        return int(text.replace(",", ""))
    except ValueError:
        return text


def parse(text: str) -> list[dict[str, Any]]:
    """Rows of a whitespace-separated table; `-` is null, `_|_` stands for a space inside a text."""
    lines = [line.split() for line in text.strip().splitlines() if line.strip()]
    names = lines[0]
    for line in lines[1:]:
        assert len(line) == len(names), f"{len(line)} values for {len(names)} columns: {line}"
    return [
        {name: _value(text, FIELDS.get(name)) for name, text in zip(names, line, strict=True)} for line in lines[1:]
    ]


def tables(temp: Path, **rows: str | Iterable[Row]) -> Database:
    """A database with the declared tables, filled from text or mappings; columns left out take `USUAL` or null.

    `event_index` counts the rows of a table unless it is given.
    """
    database = Database(temp / "duckdb", threads=1, settings=SETTINGS)
    for name, table in TABLES.items():
        given = rows.get(name, ())
        listed: Sequence[Row] = parse(given) if isinstance(given, str) else list(given)
        if not listed:
            database.view(table, [])
            continue
        unknown = {column for row in listed for column in row} - set(table.columns)
        assert not unknown, f"{name} has no {sorted(unknown)}"
        columns = {
            column: [
                row.get(column, index if column in ("event_index", "range_id") else USUAL.get(column))
                for index, row in enumerate(listed)
            ]
            for column in table.columns
        }
        database.connection.register(name, to_arrow(table, columns))
    assert not set(rows) - set(TABLES), "no such table"
    return database


def run(database: Database, area: str, *relations: str) -> None:
    """Run SQL files of one area in order."""
    for relation in relations:
        database.run(area, relation)


def result(database: Database, relation: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Rows of a relation, ordered by the columns asked for."""
    names = ", ".join(columns)
    return database.rows(f"SELECT {names} FROM {relation} ORDER BY ALL")


def assert_rows(database: Database, relation: str, expected: str) -> None:
    """The relation holds exactly the expected rows, whatever their order, in the columns that are written down."""
    names = expected.split("\n", 2)[1].split() if expected.startswith("\n") else expected.split("\n")[0].split()
    wanted = [tuple(row[name] for name in names) for row in parse(expected)]
    found = result(database, relation, names)
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
