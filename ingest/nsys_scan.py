"""One query over one plain table of a SQLite export, and the values that come out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from ingest.nsys_tables import TEXT_LIMIT, Columns

_NOT_A_NUMBER = "9e999"  # infinity, which no counter has


def quoted(name: str) -> str:
    """A name of the file as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


class NotPlainError(Exception):
    """The table needs to be read with care."""


class CircularError(Exception):
    """The table's pages lead back to rows that were read already."""


def coerced(values: Sequence[Any], kind: type[pl.DataType]) -> tuple[list[Any], int]:
    """Values of one type, null where they are of another, and how many were."""
    if kind == pl.String:
        texts = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values]
        return [None if value is None else str(value) for value in texts], 0
    if kind == pl.Float64:
        return [float(value) if isinstance(value, int | float) else None for value in values], 0
    whole = [int(v) if isinstance(v, float) and v.is_integer() and abs(v) < 2**63 else v for v in values]
    numbers = [value if isinstance(value, int) else None for value in whole]
    return numbers, numbers.count(None) - values.count(None)


class Scan:
    """One query over one table: the row number first, then the columns."""

    def __init__(
        self, table: str, columns: Columns, where: tuple[str, Sequence[int]] | None, number: str | None
    ) -> None:
        self.table, self.number = table, number
        self._columns, self._where = columns, where

    def kinds(self) -> dict[str, type[pl.DataType]]:
        return {" row": pl.Int64, **self._columns}

    def sql(self, after: int | None = None) -> str:
        picked = [f'{self.number or "0"} AS " row"']
        for name, kind in self._columns.items():
            column = quoted(name)
            if kind == pl.String:
                column = f"substr(coalesce({column}, ''), 1, {TEXT_LIMIT})"
            elif kind == pl.Float64:
                is_number = f"typeof({column}) IN ('real', 'integer')"
                column = f"CASE WHEN {is_number} THEN CAST({column} AS REAL) ELSE {_NOT_A_NUMBER} END"
            picked.append(f"{column} AS {quoted(name)}")
        conditions = []
        if self._where:
            conditions.append(f"{quoted(self._where[0])} IN ({', '.join(str(int(n)) for n in self._where[1])})")
        if after is not None:
            conditions.append(f"{self.number} > {after}")
        condition = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {', '.join(picked)} FROM {quoted(self.table)}{condition}"

    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Null where the query said that there is nothing."""
        texts = [pl.when(pl.col(n) != "").then(pl.col(n)).alias(n) for n, k in self._columns.items() if k == pl.String]
        floats = [
            pl.when(pl.col(n).is_finite()).then(pl.col(n)).alias(n) for n, k in self._columns.items() if k == pl.Float64
        ]
        return frame.with_columns(*texts, *floats) if texts or floats else frame

    def progress(self, frame: pl.DataFrame, last: int | None, rows: int, file_bytes: int) -> tuple[int | None, int]:
        """The last row number and rows so far; raises CircularError when they can't be."""
        rows += frame.height
        if rows > file_bytes:
            raise CircularError
        if self.number is None:
            return None, rows
        numbers = frame[" row"]
        if (last is not None and numbers[0] <= last) or (numbers.diff() <= 0).any():
            raise CircularError
        return numbers[-1], rows
