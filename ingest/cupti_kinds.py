"""Which kind of CUPTI record a table holds that does not say so, by attributes that one kind alone has.

Attributes by kind: https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

API = "API"
"""RUNTIME or DRIVER records: the name of the call tells which."""

_KINDS: tuple[tuple[str, str], ...] = (
    ("MEMORY2", "memory_operation_type address bytes"),
    ("MEMORY_POOL", "memory_pool_operation_type"),
    ("MEMCPY2", "copy_kind dst_device_id start"),
    ("MEMCPY", "copy_kind bytes start"),
    ("CONCURRENT_KERNEL", "grid_x block_x start name"),
    ("OVERHEAD", "overhead_kind start"),
    ("EXTERNAL_CORRELATION", "external_kind external_id correlation_id"),
    ("SYNCHRONIZATION", "cuda_event_id type start"),
    (API, "cbid start name process_id"),
    ("MARKER", "object_kind domain timestamp id"),
    ("CONTEXT", "null_stream_id context_id"),
    ("DEVICE", "compute_capability_major compute_capability_minor id"),
    ("STREAM", "priority flag stream_id context_id"),
    ("MEMORY", "address memory_kind start end bytes"),
    ("MEMSET", "value memory_kind bytes start"),
)


def kind_of_columns(attributes: Iterable[str]) -> str | None:
    """The kind whose attributes these are, None where that can't be told."""
    known = set(attributes)
    return next((kind for kind, needed in _KINDS if set(needed.split()) <= known), None)


def with_kind(frame: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The records with a column `kind`; null for a call whose name is neither of the runtime nor of the driver."""
    if kind != API:
        return frame.with_columns(pl.lit(kind).alias("kind"))
    is_runtime, is_driver = (pl.col("name").str.contains(start) for start in ("^cuda[A-Z]", "^cu[A-Z]"))
    told = pl.when(is_runtime).then(pl.lit("RUNTIME")).when(is_driver).then(pl.lit("DRIVER"))
    return frame.with_columns(told.alias("kind"))
