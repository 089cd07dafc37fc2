"""Reading the SQLite file of an export that nobody vouches for: read-only, plain tables only, around damage.

https://www.sqlite.org/security.html. The file is opened immutable, without trust in its schema: views, triggers,
virtual tables and generated columns are never asked for anything. Plain tables are read through ADBC's driver, which
hands over Arrow batches; where it is not installed, or a column holds values of another type than the schema says, or
pages are damaged, row by row through the standard library.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pyarrow as pa

from ingest.callpaths import clean_text
from ingest.errors import BadInput
from ingest.nsys_arrow import arrow_frame
from ingest.nsys_scan import CircularError, NotPlainError, Scan, coerced, quoted
from ingest.nsys_tables import BATCH_ROWS, Columns, shaped

_PRAGMAS = ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0")
_DAMAGE = (sqlite3.Error, UnicodeDecodeError)  # names and messages of a damaged file need be no text
_MAX_TABLES = 10_000
_MAX_VALUE_BYTES = 32 << 20
_MAX_REPAIRS = 200
_HEAP_BYTES = 512 << 20

Count = Callable[..., None]


class SqliteExport:
    """An export in one SQLite file. Raises BadInput when not even its list of tables can be read."""

    def __init__(self, path: Path, count: Count) -> None:
        self._count = count
        self._bytes = path.stat().st_size
        self._uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
        self._tolerant: tuple[str, ...] = ()
        self._connection = self._open()
        try:
            self._tables = self._list_tables()
        except _DAMAGE:
            # A file that was cut is refused whole unless the schema's checks are off; the tables' own ones stay on.
            self._tolerant = ("writable_schema=ON",)
            try:
                self._connection.close()
                self._connection = self._open()
                self._tables = self._list_tables()
            except _DAMAGE as error:
                raise BadInput(
                    f"a damaged SQLite file ({clean_text(str(error), 200)})",
                    where=str(path),
                    todo="export it again with `nsys export`",
                ) from error
            count("damaged_database", severity="data_loss", detail="the file is cut or its schema is damaged")

    def close(self) -> None:
        self._connection.close()

    def tables(self) -> Mapping[str, Sequence[str]]:
        return self._tables

    def has_rows(self, table: str) -> bool:
        try:
            return self._connection.execute(f"SELECT 1 FROM {quoted(table)} LIMIT 1").fetchone() is not None
        except _DAMAGE:
            return True

    def filled(self, table: str, columns: Sequence[str]) -> set[str]:
        present = [name for name in columns if name in self._tables[table]]
        tests = ", ".join(f"max({quoted(name)} IS NOT NULL)" for name in present)
        try:
            found = self._connection.execute(f"SELECT {tests} FROM {quoted(table)}").fetchone() if present else ()
        except _DAMAGE:
            return set(present)
        return {name for name, is_filled in zip(present, found, strict=True) if is_filled}

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        for pragma in (*_PRAGMAS, *self._tolerant):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _list_tables(self) -> dict[str, list[str]]:
        listed = self._connection.execute(
            "SELECT type, name, rootpage FROM sqlite_schema WHERE type IN ('table', 'view', 'trigger') LIMIT ?",
            (_MAX_TABLES,),
        ).fetchall()
        found: dict[str, list[str]] = {}
        for kind, name, root in listed:
            if kind != "table" or not root or not isinstance(name, str):
                self._count("not_plain_tables", detail="views, triggers and virtual tables are not read")
                continue
            try:
                columns = self._connection.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (name,)).fetchall()
            except _DAMAGE:
                self._count("damaged_tables", severity="data_loss", detail="a table's schema is damaged")
                continue
            found[name] = [column for column, hidden in columns if not hidden]
            if len(found[name]) < len(columns):
                self._count("generated_columns", detail="generated columns are not read")
        return found

    def batches(
        self, table: str, columns: Columns, where: tuple[str, Sequence[int]] | None = None
    ) -> Iterator[pl.DataFrame]:
        present = {name: kind for name, kind in columns.items() if name in self._tables[table]}
        if not present or (where and where[0] not in self._tables[table]):
            return
        scan = Scan(table, present, where, self._row_number(table))
        last: int | None = None
        rows = 0
        try:
            for frame in self._fast(scan):
                last, rows = scan.progress(frame, last, rows, self._bytes)
                yield shaped(frame, columns)
            return
        except (NotPlainError, CircularError) as error:
            if isinstance(error, CircularError) or (scan.number is None and rows):
                self._damaged(table)
                return
        for frame in self._careful(scan, last):
            try:
                last, rows = scan.progress(frame, last, rows, self._bytes)
            except CircularError:
                self._damaged(table)
                return
            yield shaped(frame, columns)

    def _row_number(self, table: str) -> str | None:
        """The name under which the table's row numbers can be had, None where it has none."""
        for name in ("rowid", "_rowid_", "oid"):
            if name not in {column.lower() for column in self._tables[table]}:
                try:
                    self._connection.execute(f"SELECT {name} FROM {quoted(table)} LIMIT 0")
                except _DAMAGE:
                    return None
                return name
        return None

    def _damaged(self, table: str) -> None:
        self._count("damaged_tables", severity="data_loss", detail=f"pages of {table} are damaged, rows are missing")

    def _fast(self, scan: Scan) -> Iterator[pl.DataFrame]:
        """Batches as ADBC reads them. Raises NotPlainError for anything that needs care."""
        try:
            # Not the driver's dbapi module: where pandas is installed it imports that, which takes half a second.
            import adbc_driver_sqlite
            from adbc_driver_manager import AdbcConnection, AdbcStatement, Error
        except ImportError:  # a platform without the driver
            raise NotPlainError from None
        try:
            with (
                adbc_driver_sqlite.connect(self._uri) as database,
                AdbcConnection(database) as connection,
                AdbcStatement(connection) as statement,
            ):
                for pragma in (*_PRAGMAS, *self._tolerant, f"hard_heap_limit={_HEAP_BYTES}"):
                    statement.set_sql_query(f"PRAGMA {pragma}")
                    statement.execute_update()
                statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
                statement.set_sql_query(scan.sql())
                stream, _ = statement.execute_query()
                with pa.RecordBatchReader.from_stream(stream) as reader:
                    for batch in reader:
                        frame = arrow_frame(batch, self._count)
                        if any(frame.schema[name] != kind for name, kind in scan.kinds().items()):
                            raise NotPlainError
                        yield scan.finish(frame)
        except (Error, OSError, pa.ArrowException) as error:
            raise NotPlainError from error

    def _careful(self, scan: Scan, last: int | None) -> Iterator[pl.DataFrame]:
        """Rows after row number `last`, one at a time: values of another type are counted, damaged pages skipped."""
        repairs = 0
        while True:
            rows: list[tuple[Any, ...]] = []
            try:
                for row in self._connection.execute(scan.sql(last)):
                    rows.append(row)
                    if len(rows) >= BATCH_ROWS:
                        yield self._typed(scan, rows)
                        last, rows = row[0], []
                if rows:
                    yield self._typed(scan, rows)
                return
            except _DAMAGE:
                if rows:
                    yield self._typed(scan, rows)
                    last = rows[-1][0]
            if not repairs:
                self._damaged(scan.table)
            repairs += 1
            if scan.number is None or repairs > _MAX_REPAIRS or (found := self._next_readable(scan, last)) is None:
                return
            last = found

    def _next_readable(self, scan: Scan, last: int | None) -> int | None:
        """The row number after which rows can be read again, None when none can."""
        begin = -1 if last is None else last

        def reaches(step: int) -> bool:
            try:
                self._connection.execute(scan.sql(begin + step) + " LIMIT 1").fetchone()
            except _DAMAGE:
                return False
            return True

        low, high = 0, 1
        while not reaches(high):
            low, high = high, high * 2
            if high > self._bytes:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if reaches(middle) else (middle, high)
        return begin + high

    def _typed(self, scan: Scan, rows: list[tuple[Any, ...]]) -> pl.DataFrame:
        columns: dict[str, list[Any]] = {}
        for (name, kind), values in zip(scan.kinds().items(), zip(*rows, strict=True), strict=True):
            column, wrong = coerced(values, kind)
            columns[name] = column
            self._count("values_of_another_type", wrong, severity="data_loss", detail=f"{scan.table}.{name}")
        return scan.finish(pl.DataFrame(columns, schema=scan.kinds()))
