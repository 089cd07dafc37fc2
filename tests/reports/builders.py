"""Small tables written by contract, for tests of the reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ingest.writer import to_arrow
from schemas.fields import FIELDS
from schemas.tables import TABLES

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND

_FILLERS: dict[str, Any] = {
    "int64": 0,
    "int32": 0,
    "uint64": 0,
    "float64": 0.0,
    "bool": False,
    "text": "x",
    "list<int64>": [],
    "list<text>": [],
}


def write_table(capture: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows to `capture/tables/<name>.parquet`; columns that allow no null get a filler where not given."""
    table = TABLES[name]
    columns: dict[str, list[Any]] = {}
    for column in table.columns:
        field = FIELDS[column]
        filler = None if field.nullable else _FILLERS[field.kind]
        columns[column] = [row.get(column, filler) for row in rows]
    unknown = {key for row in rows for key in row} - set(table.columns)
    assert not unknown, f"{name} has no column {unknown}"
    folder = capture / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(to_arrow(table, columns), folder / f"{name}.parquet")


def write_tables(capture: Path, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    """Write several tables; returns the capture folder."""
    (capture / "tables").mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        write_table(capture, name, rows)
    return capture
