"""A DuckDB connection over one capture's tables, and the SQL files that make the next ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import BadInput, LeakpathError, OutputError
from ingest.writer import ParquetFile
from schemas.tables import TABLES, Table

MEMORY_LIMIT = "900MB"
TEMP_LIMIT = "32GB"
BATCH_ROWS = 128 * 1024


def sql_text(area: str, relation: str) -> str:
    """Text of `pipeline/sql/<area>/<relation>.sql`."""
    return resources.files("pipeline").joinpath("sql", area, f"{relation}.sql").read_text(encoding="utf-8")


def quoted(path: Path) -> str:
    """A path as a SQL string literal."""
    return "'" + str(path).replace("'", "''") + "'"


class Database:
    """In-memory DuckDB with the capture's tables as views; absent ones are empty, with their declared columns."""

    def __init__(self, temp: Path, *, threads: int | None = None, settings: Mapping[str, Any] | None = None) -> None:
        temp.mkdir(parents=True, exist_ok=True)
        config: dict[str, Any] = {
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": str(temp),
            "max_temp_directory_size": TEMP_LIMIT,
            "preserve_insertion_order": False,
        }
        if threads:
            config["threads"] = threads
        self.connection = duckdb.connect(":memory:", config=config)
        for name, value in (settings or {}).items():
            self.connection.execute(f"SET VARIABLE {name} = ?", [value])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def view(self, table: Table, files: Iterable[Path]) -> None:
        """Make `table` a view over Parquet files, or an empty one."""
        files = list(files)
        if files:
            names = ", ".join(f'"{name}"' for name in table.columns)
            source = f"SELECT {names} FROM read_parquet([{', '.join(map(quoted, files))}])"
        else:
            columns = ", ".join(f'NULL::{f.sql_type} AS "{f.name}"' for f in table.fields)
            source = f"SELECT {columns} WHERE false"
        self.connection.execute(f'CREATE OR REPLACE VIEW "{table.name}" AS {source}')

    def run(self, area: str, relation: str) -> None:
        """Run one SQL file; its last statement creates `relation`, its private tables (`_name`) go when it ends."""
        try:
            self.connection.execute(sql_text(area, relation))
        except duckdb.OutOfMemoryException as error:
            raise LeakpathError(
                f"{area}/{relation}.sql yields more rows than {MEMORY_LIMIT} of memory and {TEMP_LIMIT} of disk hold",
                todo="leave the largest file out of the capture, or record less",
            ) from error
        except duckdb.IOException as error:
            raise OutputError(str(error).splitlines()[0], where="temporary folder", todo="free some space") from error
        except (duckdb.OutOfRangeException, duckdb.ConversionException) as error:
            raise BadInput(
                f"numbers of the capture are too large to reckon with in {area}/{relation}.sql",
                todo="leave the file with impossible sizes or times out of the capture",
            ) from error
        # The catalog is asked for all names: a condition costs five times as much as the answer.
        for (name,) in self.rows("SELECT table_name FROM duckdb_tables()"):
            if name.startswith("_"):
                self.drop(name)

    def drop(self, relation: str, *, kind: str = "TABLE") -> None:
        """Forget a table, or with `kind` a view, that a SQL file made."""
        self.connection.execute(f'DROP {kind} "{relation}"')

    def rows(self, sql: str, parameters: object = None) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self.connection.execute(sql, parameters).fetchall()

    def write(self, table: Table, path: Path, *, relation: str) -> int:
        """Write a relation under the table's contract, in its declared order; returns the rows written."""
        names = ", ".join(f'"{name}"' for name in table.columns)
        order = ", ".join(f'"{name}" NULLS FIRST' for name in table.order)
        query = f"SELECT {names} FROM {relation} ORDER BY {order}"
        schema = table.arrow_schema()
        file = ParquetFile(table, path)
        try:
            reader = self.connection.sql(query).to_arrow_reader(BATCH_ROWS)
            for batch in reader:
                rows = pa.Table.from_batches([batch])
                file.write_behind(rows.cast(schema))
        except BaseException:
            file.discard()
            raise
        file.close()
        return file.rows


def table_path(capture_dir: Path, name: str) -> Path:
    """Where a table of a capture lies."""
    return capture_dir / "tables" / f"{name}.parquet"


def check_table(table: Table, path: Path) -> None:
    """Raise BadInput for a file that is not the whole Parquet file of the table that its name says."""
    todo = "remove the capture's folder in OUT and run the same command again from `leakpath ingest`"
    try:
        found = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise BadInput("a damaged table", where=str(path), todo=todo) from error
    if not found.equals(table.arrow_schema()):
        raise BadInput("not the table that its name says", where=str(path), todo=todo)


def open_capture(capture_dir: Path, temp: Path, *, settings: Mapping[str, Any] | None = None) -> Database:
    """A database with every declared table of the capture as a view."""
    database = Database(temp, settings=settings)
    for name, table in TABLES.items():
        path = table_path(capture_dir, name)
        if path.exists():
            check_table(table, path)
        database.view(table, [path] if path.exists() else [])
    return database
