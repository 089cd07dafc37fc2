"""Arrow batches of producers that nobody vouches for, as polars frames: integers signed, texts valid."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pyarrow as pa

from ingest.nsys_tables import TEXT_LIMIT

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)


def arrow_frame(batch: pa.RecordBatch, count: Callable[..., None]) -> pl.DataFrame:
    """The batch as Int64, Float64 and String; columns of other types are counted and null.

    Unsigned 64-bit numbers keep their bits, as SQLite keeps them. Raises pa.ArrowException for a
    damaged batch.
    """
    batch.validate()
    arrays = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        kind = column.type
        if pa.types.is_uint64(kind):
            column = column.view(pa.int64())
        elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            column = column.cast(pa.int64())
        elif pa.types.is_floating(kind):
            column = column.cast(pa.float64())
        elif any(is_text(kind) for is_text in _TEXT):
            column = _text(column, count)
        else:
            detail = f"{name[:60]} holds {str(kind)[:60]}"
            count("values_of_another_type", len(column) - column.null_count, severity="data_loss", detail=detail)
            column = pa.nulls(len(column), pa.int64())
        arrays[name] = column
    return pl.DataFrame({name: pl.from_arrow(column) for name, column in arrays.items()})


def _text(column: pa.Array, count: Callable[..., None]) -> pa.Array:
    try:
        column.validate(full=True)
        return column.cast(pa.large_string())
    except pa.ArrowInvalid:
        count("text_not_utf8", detail="bytes that are no UTF-8 are replaced")
    binary = column.cast(pa.large_binary())
    binary.validate(full=True)
    texts = [
        None if value is None else value[: 4 * TEXT_LIMIT].decode("utf-8", "replace") for value in binary.to_pylist()
    ]
    return pa.array(texts, pa.large_string())
