"""Rows of `memory_events`: allocations and frees of the driver, and what happened to its memory pools.

Tables CUDA_GPU_MEMORY_USAGE_EVENTS (with and without the columns of pools) and CUDA_GPU_MEMORY_POOL_EVENTS of
https://docs.nvidia.com/nsight-systems/UserGuide/index.html (SQLite Schema Reference).
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ingest.nsys_rows import memory_words
from ingest.nsys_session import Session, process_of, worded
from ingest.nsys_writer import RowWriter, ints, none_if, small, unsigned


def read_memory_events(session: Session, rows: RowWriter, paths: Mapping[tuple[int, int], int]) -> None:
    """Allocations and frees of the driver, with the call path of the call that made them, and events of pools."""
    memory = memory_words(session)
    actions = {"allocation": "alloc", "deallocation": "free"}
    words = {n: actions.get(w, "other") for n, w in session.words("ENUM_CUDA_DEV_MEM_EVENT_OPER").items()}
    wanted = ints(
        "start globalPid deviceId contextId address bytes memKind memoryOperationType correlationId"
        " localMemoryPoolAddress"
    )
    for frame in session.batches("CUDA_GPU_MEMORY_USAGE_EVENTS", {**wanted, "name": pl.String}):
        made = frame.select(
            "name",
            **_driver_event(session),
            action=worded("memoryOperationType", words).replace("unknown", "other").fill_null("other"),
            context_id=none_if("contextId", 0),
            address=unsigned("address"),
            size_bytes="bytes",
            memory_kind=worded("memKind", memory),
            pool_id=_pool("localMemoryPoolAddress"),
        )
        keys = zip(made["process_id"], made["correlation_id"], strict=True)
        rows.write(
            "memory_events", made.with_columns(call_path_id=pl.Series([paths.get(k) for k in keys], dtype=pl.Int64))
        )
    pool_words = session.words("ENUM_CUDA_MEMPOOL_OPER")
    wanted = ints("start globalPid deviceId address operationType correlationId localMemoryPoolSize")
    for frame in session.batches("CUDA_GPU_MEMORY_POOL_EVENTS", wanted):
        made = frame.select(
            **_driver_event(session),
            name=pl.concat_str(pl.lit("pool_"), worded("operationType", pool_words)),
            action=pl.lit("other"),
            size_bytes="localMemoryPoolSize",
            pool_id=_pool("address"),
        )
        rows.write("memory_events", made)


def _driver_event(session: Session) -> dict[str, pl.Expr]:
    return {
        "level": pl.lit("driver"),
        "ts_ns": session.time("start"),
        "process_id": process_of("globalPid"),
        "device_index": small("deviceId"),
        "correlation_id": none_if("correlationId", 0),
    }


def _pool(name: str) -> pl.Expr:
    return pl.when(pl.col(name) != 0).then(pl.format("driver,{}", unsigned(name)))
