"""Tables with one harmless row, and what breaks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.database import Database
from schemas.tables import TABLES, Table

WINDOW = (1_000, 2_000)
_VALUES: dict[str, Any] = {
    "int64": 1,
    "int32": 1,
    "uint64": 1,
    "float64": 0.5,
    "bool": False,
    "text": "a",
    "list<int64>": [1],
    "list<text>": ["a"],
}


def harmless(table: Table) -> dict[str, Any]:
    """A row that no check minds: all numbers small and equal, all times in the window."""
    row = {field.name: _VALUES[field.kind] for field in table.fields}
    return row | {name: WINDOW[0] + 1 for name in row if name.endswith("_ns") and name not in ("width_ns",)}


def put(database: Database, name: str, *rows: dict[str, Any]) -> None:
    """Make the table exactly these rows, whatever the contract says of them."""
    table = TABLES[name]
    columns = ", ".join(f'"{field.name}" {field.sql_type}' for field in table.fields)
    database.connection.execute(f"CREATE OR REPLACE TABLE put_{name} ({columns})")
    places = ", ".join("?" for _ in table.columns)
    for row in rows:
        unknown = set(row) - set(table.columns)
        assert not unknown, unknown
        values = [row.get(column) for column in table.columns]
        database.connection.execute(f"INSERT INTO put_{name} VALUES ({places})", values)
    database.connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM put_{name}")


def empty(folder: Path) -> Database:
    """Every declared table, without rows."""
    database = Database(folder / "duckdb", threads=1)
    for table in TABLES.values():
        database.view(table, [])
    return database
