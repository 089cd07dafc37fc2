"""CUPTI records in a Parquet file, batch by batch, with the limits that an untrusted file needs.

Format: https://parquet.apache.org/docs/file-format/. The attributes are columns, records within records are structs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.callpaths import MAX_TEXT
from ingest.cupti_cells import attribute_name
from ingest.cupti_enums import COLUMNS, NESTED
from ingest.errors import BadInput, UnsafeInput
from ingest.opening import MAX_RATIO, MAX_RATIO_FREE_BYTES, MAX_UNPACKED_BYTES
from ingest.sink import Sink

MAGIC = b"PAR1"
BATCH_ROWS = 32 * 1024
MAX_ROWS_A_BYTE = 8
"""A record is several numbers that differ from row to row: no file holds this many in a byte."""

_FOOTER_ITEMS = 20_000
_DAMAGE = (pa.ArrowException, OSError, ValueError, MemoryError, pl.exceptions.PolarsError)


def open_parquet(path: Path, texts: Sequence[str] = ()) -> pq.ParquetFile:
    """The file, read in small pieces, columns `texts` as dictionaries. Raises BadInput when its footer is damaged."""
    try:
        return pq.ParquetFile(
            path,
            pre_buffer=False,
            buffer_size=1 << 20,
            read_dictionary=list(texts) or None,
            thrift_string_size_limit=64 << 20,
            thrift_container_size_limit=_FOOTER_ITEMS,
        )
    except _DAMAGE as error:
        what = f"a damaged Parquet file ({str(error).splitlines()[0][:120]})"
        raise BadInput(what, where=str(path), todo="copy the file again: its end is missing or damaged") from error


def column_names(path: Path) -> list[str]:
    """Names of the top-level columns. Raises BadInput as `open_parquet` does."""
    with open_parquet(path) as file:
        return list(file.schema_arrow.names)


def parquet_frames(path: Path, sink: Sink, wanted: set[str] | None = None) -> Iterator[pl.DataFrame]:
    """Raw columns of the attributes (all, or the `wanted` ones), in batches.

    Raises BadInput for a damaged footer, UnsafeInput for a file that unpacks beyond the limits.
    """
    known = wanted or {"kind", *COLUMNS, *NESTED}
    with open_parquet(path) as file:
        # One long text for a million rows stays one text until it is cut.
        texts = [field.name for field in file.schema_arrow if _is_text(field.type)]
    with open_parquet(path, texts) as file:
        names = [name for name in file.schema_arrow.names if attribute_name(name) in known]
        _check_size(file, path)
        for group in range(file.num_row_groups):
            try:
                for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=names):
                    batch.validate(full=True)
                    yield _frame(batch, sink)
            except _DAMAGE as error:
                detail = f"row group {group}: {str(error).splitlines()[0][:120]}"
                sink.count("damaged_row_groups", severity="data_loss", detail=detail)


def _check_size(file: pq.ParquetFile, path: Path) -> None:
    size = path.stat().st_size
    unpacked = sum(file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups))
    limit = min(MAX_UNPACKED_BYTES, max(MAX_RATIO_FREE_BYTES, size * MAX_RATIO))
    if unpacked > limit or file.metadata.num_rows > size * MAX_ROWS_A_BYTE:
        raise UnsafeInput(
            f"{file.metadata.num_rows} rows, {unpacked} bytes unpacked, in a file of {size} bytes",
            where=str(path),
            todo="write it again without constant columns if you trust it",
        )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    is_plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return bool(is_plain or pa.types.is_timestamp(kind))


def _cut(texts: pa.DictionaryArray) -> pa.StringArray:
    """The texts, no longer than a table takes."""
    short = pc.utf8_slice_codeunits(texts.dictionary, 0, MAX_TEXT)
    return pa.DictionaryArray.from_arrays(texts.indices, short).cast(pa.string())


def _readable(name: str, column: pa.ChunkedArray, sink: Sink) -> pa.ChunkedArray:
    """Numbers, times and texts as they are, decimals as text; any other type as nulls, which is counted."""
    if pa.types.is_dictionary(column.type):
        if _is_text(column.type.value_type):
            return pa.chunked_array([_cut(chunk) for chunk in column.chunks], pa.string())
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):
        return column.cast(pa.string())
    if _is_number(column.type) or _is_text(column.type) or pa.types.is_null(column.type):
        return column
    lost, detail = len(column) - column.null_count, f"{name} as {column.type}"[:200]
    sink.count("values_not_read", lost, severity="data_loss", detail=detail)
    return pa.chunked_array([pa.nulls(len(column))])


def _frame(batch: pa.RecordBatch, sink: Sink) -> pl.DataFrame:
    """The batch with structs as columns of their own."""
    table = pa.Table.from_batches([batch])
    for _ in range(2):  # object_id.pt.process_id
        table = table.flatten()
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        columns.setdefault(name, _readable(name, column, sink))
    frame = pl.from_arrow(pa.table(columns))
    assert isinstance(frame, pl.DataFrame)
    return frame
