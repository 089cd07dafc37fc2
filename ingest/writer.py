"""Parquet by contract: the declared columns, streamed in batches, and whole or not there at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ingest.without_pandas  # noqa: F401 - before the first list becomes an array
from ingest.atomic import output_error
from ingest.errors import OutputError
from schemas.fields import Field
from schemas.tables import Table

Column: TypeAlias = "Sequence[Any] | np.ndarray[Any, Any] | pa.Array | pa.ChunkedArray"
ROW_GROUP_ROWS = 256 * 1024
_BEHIND = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parquet")
_PLAIN = ("address", "segment_address", "correlation_id", "value", "frame_ids")


def _is_delta(field: Field) -> bool:
    """Columns that rise slowly: differences pack to a fraction, at half the cost of trying a dictionary first."""
    return field.kind == "int64" and (field.name.endswith("_ns") or field.name in ("event_index", "allocation_id"))


def to_arrow(table: Table, columns: Mapping[str, Column], constants: Mapping[str, Any] | None = None) -> pa.Table:
    """Arrow table in the declared order; `constants` fill a whole column, absent columns are null.

    Raises ValueError for an undeclared column, for columns of different length and for a null where the
    contract has none.
    """
    constants = constants or {}
    schema = table.arrow_schema()
    unknown = [name for name in (*columns, *constants) if name not in schema.names]
    if unknown:
        raise ValueError(f"{table.name}: no column {', '.join(unknown)}")
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise ValueError(f"{table.name}: columns of different lengths {sorted(lengths)}")
    rows = lengths.pop()
    arrays: list[pa.Array | pa.ChunkedArray] = []
    for field in schema:
        if field.name in columns:
            values = columns[field.name]
            array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, type=field.type)
            arrays.append(array if array.type == field.type else array.cast(field.type))
        elif constants.get(field.name) is not None:
            arrays.append(pa.repeat(pa.scalar(constants[field.name], field.type), rows))
        else:
            arrays.append(pa.nulls(rows, field.type))
        if not field.nullable and arrays[-1].null_count:
            raise ValueError(f"{table.name}.{field.name} has {arrays[-1].null_count} nulls, the contract allows none")
    return pa.Table.from_arrays(arrays, schema=schema)


class ParquetFile:
    """One Parquet file of a table; appears under its name only when `close` succeeds."""

    def __init__(self, table: Table, path: Path, *, codec: str = "zstd") -> None:
        self.table, self.path, self.rows = table, path, 0
        self._waiting: Future[None] | None = None
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(
                self._partial,
                table.arrow_schema(),
                compression=codec,
                compression_level=1 if codec == "zstd" else None,
                write_statistics=True,
                use_dictionary=[f.name for f in table.fields if f.name not in _PLAIN and not _is_delta(f)],
                column_encoding={f.name: "DELTA_BINARY_PACKED" for f in table.fields if _is_delta(f)},
                store_schema=True,
            )
        except OSError as error:
            raise output_error(error, path) from error

    def write(self, rows: pa.Table) -> None:
        """Append rows that follow the contract."""
        self._wait()
        self._append(rows)

    def _append(self, rows: pa.Table) -> None:
        try:
            self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        except OSError as error:
            raise output_error(error, self.path) from error
        self.rows += rows.num_rows

    def write_behind(self, rows: pa.Table) -> None:
        """Append rows while the caller goes on; the batch before is waited for, so that one is in memory at most.

        An error comes out of the next call.
        """
        self._wait()
        self._waiting = _BEHIND.submit(self._append, rows)

    def _wait(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.result()

    def close(self) -> None:
        """Finish the file and give it its name."""
        try:
            self._wait()
        except BaseException:
            self.discard()
            raise
        try:
            self._writer.close()
            self._partial.replace(self.path)
        except OSError as error:
            raise output_error(error, self.path) from error

    def discard(self) -> None:
        """Drop what was written."""
        with contextlib.suppress(OSError, OutputError):
            self._wait()
        with contextlib.suppress(OSError):
            self._writer.close()
        self._partial.unlink(missing_ok=True)
