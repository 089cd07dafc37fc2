"""The tables of one analysed capture as DuckDB views that follow the contract, whatever is missing."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import duckdb

from ingest.errors import BadInput
from schemas.fields import Field
from schemas.tables import TABLES, Table

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TableState:
    """What is known of one table before any query: `row_count` is 0 unless the table is present."""

    name: str
    layer: str
    grain: str
    state: Literal["present", "absent", "unreadable"]
    row_count: int
    note: str


class CaptureTables:
    """Read access to `<capture>/tables`, to be used as a context manager.

    Every declared table is a view with exactly the declared columns: an absent or unreadable table is
    empty, an absent column is null (empty where the contract allows no null). Queries run in bounded memory
    and spill to a temporary folder.
    """

    def __init__(self, capture_dir: Path, *, memory_limit: str = "1GB") -> None:
        folder = capture_dir / "tables"
        if not folder.is_dir():
            raise BadInput(
                "no tables here",
                where=str(capture_dir),
                todo="run `leakpath run CAPTURE --out OUT` and give the OUT folder",
            )
        self.name = capture_dir.resolve().name
        self._spill = tempfile.TemporaryDirectory(prefix="leakpath-report-")
        self._db = duckdb.connect(
            config={
                "memory_limit": memory_limit,
                "temp_directory": self._spill.name,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
        self.states = {name: self._view(table, folder) for name, table in TABLES.items()}

    def __enter__(self) -> CaptureTables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()
        self._spill.cleanup()

    def query(self, name: str, **parameters: Any) -> list[Row]:
        """All rows of `reports/sql/<name>.sql` with its named parameters; the query itself bounds their number."""
        return self.rows(query_text(name), parameters)

    def rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """All rows of a query as dictionaries. Raises BadInput when a table turns out to be damaged."""
        try:
            cursor = self._db.execute(sql, dict(parameters) if parameters else None)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]
        except (duckdb.OperationalError, duckdb.DataError, duckdb.InvalidInputException) as error:
            raise BadInput(
                f"a table can't be read to its end: {_first_line(error)}",
                where=f"{self.name}/tables",
                todo="run `leakpath run` again to rewrite it",
            ) from error

    def _view(self, table: Table, folder: Path) -> TableState:
        pattern, present = _files(folder, table.name)
        note, found = "", set[str]()
        if present:
            try:
                described = self._db.execute(f"DESCRIBE SELECT * FROM read_parquet({pattern})").fetchall()
                found = {str(row[0]) for row in described}
            except duckdb.Error as error:
                note = _first_line(error, folder)
        columns = ", ".join(f'{_column(f, f.name in found)} AS "{f.name}"' for f in table.fields)
        origin = f"FROM read_parquet({pattern})" if found else "WHERE false"
        self._db.execute(f'CREATE VIEW "{table.name}" AS SELECT {columns} {origin}')
        count = self._db.execute(f'SELECT count(*) FROM "{table.name}"').fetchone() if found else (0,)
        state: Literal["present", "absent", "unreadable"] = (
            "present" if found else "unreadable" if present else "absent"
        )
        return TableState(table.name, table.layer, table.grain, state, int(count[0]) if count else 0, note)


@cache
def query_text(name: str) -> str:
    """The text of one of the report's own queries."""
    return files("reports").joinpath(f"sql/{name}.sql").read_text("utf-8")


def _column(field: Field, is_found: bool) -> str:
    """SQL of one column in its declared type; a missing value is empty or 0 where the contract allows no null."""
    sql_type = field.sql_type
    value = f'TRY_CAST("{field.name}" AS {sql_type})' if is_found else f"NULL::{sql_type}"
    if field.nullable:
        return value
    empty = "[]" if field.kind.startswith("list") else "''" if field.kind == "text" else "0"
    return f"coalesce({value}, {empty}::{sql_type})"


def _files(folder: Path, name: str) -> tuple[str, bool]:
    """SQL string that matches the table's file, or its folder of parts, and whether there is any."""
    single, parts = folder / f"{name}.parquet", folder / name
    if not single.is_file() and parts.is_dir():
        return _quoted(parts, "/*.parquet"), any(parts.glob("*.parquet"))
    return _quoted(single), single.is_file()


def _quoted(path: Path, suffix: str = "") -> str:
    text = str(path)
    for wild in "[*?":  # a capture's folder may be called anything: brackets first, they quote the others
        text = text.replace(wild, f"[{wild}]")
    return "'" + text.replace("'", "''") + suffix + "'"


def _first_line(error: Exception, folder: Path | None = None) -> str:
    """First line of a DuckDB message, without the folder's own path."""
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return line.replace(f"{folder}/", "") if folder else line
