"""Blocks of records as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from .layouts import Column, field_values
from .records import Block


def arrow_columns(blocks: list[Block]) -> Iterator[tuple[dict[str, pa.Array], int]]:
    """(columns, rows) of the blocks of one kind, put together; one group for each struct version among them."""
    groups: dict[np.dtype[Any], list[Block]] = {}
    for block in blocks:
        groups.setdefault(block.rows.dtype, []).append(block)
    for members in groups.values():
        rows = np.concatenate([block.rows for block in members])
        columns = {
            column.name: _text_array(members, column.name) if column.form == "text" else _number_array(rows, column)
            for column in members[0].columns
        }
        for name in members[0].texts:  # texts that are no field of the struct: names of API calls
            if name not in columns:
                columns[name] = _text_array(members, name)
        yield columns, len(rows)


def _number_array(rows: np.ndarray[Any, Any], column: Column) -> pa.Array:
    values = field_values(rows, column)
    if column.form == "hex":
        return pa.array([value.tobytes().hex() for value in values], pa.string())
    if column.levels:
        return pa.array(values, mask=~np.isin(rows["object_kind"], column.levels))
    return pa.array(values)


def _text_array(blocks: list[Block], name: str) -> pa.Array:
    code_of: dict[str, int] = {}
    parts = []
    for block in blocks:
        texts = block.texts[name]
        table = np.array([code_of.setdefault(value, len(code_of)) for value in texts.values], np.int32)
        parts.append(np.where(texts.codes < 0, -1, table[texts.codes] if len(table) else -1))
    codes = np.concatenate(parts).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(list(code_of), pa.string()))
