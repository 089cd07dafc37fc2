"""Rows of `memory_events` from CUPTI's records of allocations and memory pools.

Records: https://docs.nvidia.com/cupti/api/structCUpti__ActivityMemory4.html and its older and pool siblings.
"""

from __future__ import annotations

import polars as pl

from ingest.cupti_columns import CALLED, INDEX, PLACE, PROCESS, SIZE, Rows, number, text, word
from ingest.cupti_enums import MEMORY_KINDS, MEMORY_OPERATIONS, POOL_OPERATIONS

FREE_INDEX = 1 << 48
"""Added to the `event_index` of the free that a MEMORY record tells together with its allocation."""


_MEMORY_PLACE = {
    "level": pl.lit("driver"),
    **PROCESS,
    "device_index": PLACE["device_index"],
    "context_id": PLACE["context_id"],
    "address": pl.col("address"),
    "name": text("name"),
}
_POOL = pl.col("memory_pool_config_address")
MEMORY2 = Rows(
    "memory_events",
    {
        **INDEX,
        "action": pl.coalesce(
            pl.col("memory_operation_type").replace_strict(MEMORY_OPERATIONS, default=None, return_dtype=pl.String),
            pl.lit("other"),
        ),
        "ts_ns": number("timestamp", 0),
        **_MEMORY_PLACE,
        **SIZE,
        "memory_kind": word("memory_kind", MEMORY_KINDS),
        "stream_id": PLACE["stream_id"],
        "pool_id": pl.when(_POOL != 0).then(pl.format("driver,{}", _POOL)),
        **CALLED,
    },
)
_MEMORY_ALLOC = Rows(
    "memory_events",
    {
        **INDEX,
        "action": pl.lit("alloc"),
        "ts_ns": number("start", 0),
        **_MEMORY_PLACE,
        **SIZE,
        "memory_kind": word("memory_kind", MEMORY_KINDS),
    },
)
_MEMORY_FREE = Rows(
    "memory_events",
    {
        **_MEMORY_ALLOC.columns,
        "event_index": pl.col("event_index") + FREE_INDEX,
        "action": pl.lit("free"),
        "ts_ns": number("end", 0),
    },
)
MEMORY_POOL = Rows(
    "memory_events",
    {
        **INDEX,
        "level": pl.lit("driver"),
        "action": pl.lit("other"),
        "ts_ns": number("timestamp", 0),
        **PROCESS,
        "device_index": PLACE["device_index"],
        "size_bytes": number("size_"),
        "pool_id": pl.when(pl.col("address") != 0).then(pl.format("driver,{}", pl.col("address"))),
        **CALLED,
        "name": word("memory_pool_operation_type", POOL_OPERATIONS),
    },
)

LIFETIMES = (_MEMORY_ALLOC, _MEMORY_FREE)
"""The two rows of a MEMORY record, which tells an allocation and its free (`end`, 0 when there was none) at once."""
