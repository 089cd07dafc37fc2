"""From CUPTI records of one kind to rows of one table, as polars expressions.

Records: https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html. In them 0 or 0xFFFFFFFF stand for "none";
the rows have null there.
"""

from __future__ import annotations

import polars as pl

from ingest.cupti_columns import (
    CALLED,
    INDEX,
    PLACE,
    PROCESS,
    SIZE,
    SPAN,
    Rows,
    number,
    object_part,
    text,
    triple,
    word,
)
from ingest.cupti_enums import (
    ACCESS_TYPES,
    COPY_KINDS,
    EXTERNAL_KINDS,
    INVALID,
    MEMORY_KINDS,
    MIGRATION_CAUSES,
    OBJECT_PROCESS,
    OBJECT_THREAD,
    OVERHEAD_KINDS,
    STREAM_FLAGS,
    SYNC_KINDS,
    UNIFIED_FAULTS,
    UNIFIED_KINDS,
    UNIFIED_MIGRATIONS,
)
from ingest.cupti_memory import MEMORY2, MEMORY_POOL

_VERSION_SUFFIX = r"_v\d{4,}$"  # cudaMalloc_v3020; the _v2 of cuMemAlloc_v2 is part of the call's name

_GRAPH = {"graph_id": number("graph_id", 0, INVALID), "graph_node_id": number("graph_node_id", 0)}
_OWNER = {
    "process_id": object_part("process_id", OBJECT_PROCESS, OBJECT_THREAD),
    "thread_id": object_part("thread_id", OBJECT_THREAD),
}
_CONTEXT = {
    "context_id": PLACE["context_id"],
    "device_index": PLACE["device_index"],
    "parent_context_id": number("parent_context_id", 0, INVALID),
}


def _api(api: str) -> Rows:
    name = text("name").str.replace(_VERSION_SUFFIX, "")
    unnamed = pl.format(f"{api}_cbid_{{}}", pl.col("cbid"))
    columns = {
        **SPAN,
        "api": pl.lit(api),
        "name": pl.coalesce(name, unnamed),
        **PROCESS,
        "thread_id": number("thread_id"),
        **CALLED,
        "return_code": number("return_value"),
    }
    return Rows("api_calls", columns)


_KERNEL = Rows(
    "gpu_ops",
    {
        **SPAN,
        "op": pl.lit("kernel"),
        "name": text("name"),
        **PLACE,
        **CALLED,
        "grid": triple("grid"),
        "block": triple("block"),
        "registers_per_thread": number("registers_per_thread", dtype=pl.Int32),
        "static_shared_bytes": number("static_shared_memory"),
        "dynamic_shared_bytes": number("dynamic_shared_memory"),
        "local_memory_bytes": pl.coalesce(number("local_memory_total_v2"), number("local_memory_total")),
        **_GRAPH,
    },
)
_MEMCPY = Rows(
    "gpu_ops",
    {
        **SPAN,
        "op": pl.lit("memcpy"),
        **PLACE,
        **CALLED,
        **SIZE,
        "copy_kind": word("copy_kind", COPY_KINDS),
        "src_kind": word("src_kind", MEMORY_KINDS),
        "dst_kind": word("dst_kind", MEMORY_KINDS),
        **_GRAPH,
    },
)
_MEMSET = Rows(
    "gpu_ops",
    {
        **SPAN,
        "op": pl.lit("memset"),
        **PLACE,
        **CALLED,
        **SIZE,
        "dst_kind": word("memory_kind", MEMORY_KINDS),
        **_GRAPH,
    },
)
_GRAPH_TRACE = Rows(
    "gpu_ops",
    {**SPAN, "op": pl.lit("graph"), **PLACE, **CALLED, "graph_id": number("graph_id", 0, INVALID)},
)
_IS_MIGRATION, _IS_FAULT = (pl.col("counter_kind").is_in(kinds) for kinds in (UNIFIED_MIGRATIONS, UNIFIED_FAULTS))
_IS_TO_DEVICE = pl.col("counter_kind").is_in((1, 8))
_UNIFIED = Rows(
    "gpu_ops",
    {
        **SPAN,
        "op": pl.when(_IS_MIGRATION).then(pl.lit("migration")).when(_IS_FAULT).then(pl.lit("page_fault")),
        # Thrashing, throttling and remote maps have no word for the operation: their name says what they are.
        "name": pl.when(_IS_MIGRATION)
        .then(word("flags_", MIGRATION_CAUSES))
        .when(_IS_FAULT)
        .then(word("flags_", ACCESS_TYPES))
        .otherwise(word("counter_kind", UNIFIED_KINDS)),
        **PROCESS,
        "device_index": pl.when(_IS_TO_DEVICE)
        .then(number("dst_id", INVALID, dtype=pl.Int32))
        .otherwise(number("src_id", INVALID, dtype=pl.Int32)),
        "stream_id": PLACE["stream_id"],
        "address": pl.col("address"),
        "size_bytes": pl.when(_IS_MIGRATION).then(number("value")),
        "copy_kind": pl.when(_IS_MIGRATION).then(word("counter_kind", UNIFIED_KINDS)),
    },
)
"""Migrations and page faults of unified memory."""
ROWS: dict[str, Rows] = {
    "RUNTIME": _api("runtime"),
    "DRIVER": _api("driver"),
    "CONCURRENT_KERNEL": _KERNEL,
    "KERNEL": _KERNEL,
    "CDP_KERNEL": _KERNEL,
    "MEMCPY": _MEMCPY,
    "MEMCPY2": _MEMCPY,
    "MEMSET": _MEMSET,
    "GRAPH_TRACE": _GRAPH_TRACE,
    "DEVICE_GRAPH_TRACE": _GRAPH_TRACE,
    "UNIFIED_MEMORY_COUNTER": _UNIFIED,
    "MEMORY2": MEMORY2,
    "MEMORY_POOL": MEMORY_POOL,
    "SYNCHRONIZATION": Rows(
        "sync_events",
        {
            **SPAN,
            "sync_kind": word("type", SYNC_KINDS),
            "context_id": PLACE["context_id"],
            "stream_id": PLACE["stream_id"],
            "event_id": number("cuda_event_id", INVALID),
            **CALLED,
        },
    ),
    "EXTERNAL_CORRELATION": Rows(
        "external_correlations",
        {
            **INDEX,
            **CALLED,
            "external_kind": word("external_kind", EXTERNAL_KINDS),
            "external_id": number("external_id"),
        },
    ),
    "OVERHEAD": Rows(
        "overheads",
        {**SPAN, "overhead_kind": word("overhead_kind", OVERHEAD_KINDS).fill_null("unknown"), **_OWNER},
    ),
}
"""Kinds of which each record is one row."""

IDENTITIES: dict[str, Rows] = {
    "DEVICE": Rows(
        "devices",
        {
            "device_index": number("id", INVALID, dtype=pl.Int32),
            "name": text("name"),
            "uuid": text("uuid"),
            "total_bytes": number("global_memory_size"),
            "compute_capability": pl.concat_str(
                ["compute_capability_major", "compute_capability_minor"], separator="."
            ),
            "multiprocessor_count": number("num_multiprocessors"),
        },
    ),
    "CONTEXT": Rows("contexts", {**PROCESS, **_CONTEXT, "stream_id": number("null_stream_id", 0)}),
    "GREEN_CONTEXT": Rows("contexts", {**PROCESS, **_CONTEXT}),
    "STREAM": Rows(
        "streams",
        {
            "context_id": PLACE["context_id"],
            "stream_id": PLACE["stream_id"],
            # CUPTI's uint32; CUDA's own priority is signed and mostly 0 or negative.
            "priority": pl.col("priority").cast(pl.UInt32, strict=False).reinterpret(signed=True).cast(pl.Int64),
            "stream_flag": word("flag", STREAM_FLAGS),
            **CALLED,
        },
    ),
}
"""Kinds that describe a thing, which may be told more than once."""

IDENTITY_KEYS = {
    "devices": ("process_id", "device_index"),
    "contexts": ("process_id", "context_id"),
    "streams": ("process_id", "context_id", "stream_id"),
}
"""What tells one thing of those tables from another."""
