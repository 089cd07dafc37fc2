"""CUPTI's activity buffers, cut into one structured array a kind.

A buffer holds records of several kinds behind one another, each starting with its kind number. How long a record is
only the library knows: the first time a kind turns up, it is asked (`cuptiActivityGetNextRecord`); after that the
buffer is walked with the known lengths and the records of a kind are copied out in one numpy operation.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .layouts import Column, columns_of, field_values

MAX_TEXT_BYTES = 1 << 16
Array = np.ndarray[Any, Any]


@dataclass
class Texts:
    """Text values of one column: `codes` (rows,) index into `values`; code -1 is no text."""

    codes: Array
    values: list[str]


@dataclass
class Block:
    """Records of one kind: `rows` is a structured array, `texts` its text columns, resolved while CUPTI kept them."""

    kind: str
    rows: Array
    columns: list[Column]
    texts: dict[str, Texts]


@dataclass
class Walk:
    """Where the records of each kind lie in a buffer: kind number -> offsets in bytes; `unread` bytes at the end."""

    offsets: dict[int, list[int]] = field(default_factory=dict)
    unread: int = 0


def walk_buffer(data: bytes, strides: dict[int, int], length_at: Callable[[int], int]) -> Walk:
    """Find every record. `strides` caches kind -> bytes; `length_at(offset)` asks the library, 0: it doesn't say."""
    words = memoryview(data).cast("I")
    total = len(data)
    walk = Walk()
    offsets = walk.offsets
    offset = 0
    while offset < total:
        kind = words[offset >> 2]
        stride = strides.get(kind)
        if stride is None:
            stride = length_at(offset)
            if stride <= 0 or stride % 8 or offset + stride > total:
                break
            strides[kind] = stride
        if kind in offsets:
            offsets[kind].append(offset)
        else:
            offsets[kind] = [offset]
        offset += stride
    walk.unread = total - offset
    return walk


def rows_at(data: bytes, offsets: Sequence[int], dtype: np.dtype[np.void]) -> Array:
    """Copy the records at `offsets` (multiples of 8, as are CUPTI's record sizes) into one structured array."""
    words = np.frombuffer(data, np.uint64)
    starts = np.asarray(offsets, np.int64) >> 3
    picked: Array = words[starts[:, None] + np.arange(dtype.itemsize >> 3)]
    rows: Array = picked.view(dtype)
    return rows.reshape(len(starts))


def rows_of_objects(records: Sequence[Any], dtype: np.dtype[np.void]) -> Array:
    """Copy cupti-python's record objects of one class, by the address each gives as `ptr`."""
    size = dtype.itemsize
    data = b"".join([ctypes.string_at(record.ptr, size) for record in records])
    return np.frombuffer(data, dtype)


def block_of(kind: str, rows: Array) -> Block:
    """Resolve the text pointers of some rows; must run while CUPTI still holds the buffer they came from."""
    columns = columns_of(rows.dtype)
    texts = {column.name: read_texts(field_values(rows, column)) for column in columns if column.form == "text"}
    return Block(kind, rows, columns, texts)


def read_texts(pointers: Array) -> Texts:
    """Read each distinct C string once; a null pointer is no text."""
    distinct, codes = np.unique(pointers, return_inverse=True)
    values: list[str] = []
    code_of = np.full(len(distinct), -1, np.int32)
    for i, pointer in enumerate(distinct.tolist()):
        if pointer:
            code_of[i] = len(values)
            values.append(ctypes.string_at(pointer)[:MAX_TEXT_BYTES].decode("utf-8", "replace"))
    return Texts(code_of[codes], values)
