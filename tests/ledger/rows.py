"""Hand-made NVML samples and allocations, and the ledger that comes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.database import Database
from tests.sql.support import run, tables

Row = Mapping[str, Any]


def device(ts: int, used: int, *, free: int | None = None, total: int | None = None, index: int = 0) -> list[Row]:
    """One sample of a device."""
    named = {"used": used, "free": free, "total": total}
    return [
        {
            "source": "nvml",
            "metric": f"device_memory_{name}_bytes",
            "ts_ns": ts,
            "value": float(value),
            "process_id": None,
            "device_index": index,
        }
        for name, value in named.items()
        if value is not None
    ]


def process(ts: int, held: int, *, pid: int = 1, index: int = 0) -> Row:
    """One sample of a process on a device."""
    return {
        "source": "nvml",
        "metric": "process_memory_used_bytes",
        "ts_ns": ts,
        "value": float(held),
        "process_id": pid,
        "device_index": index,
    }


def allocation(number: int, level: str, size: int, start: int | None, end: int | None = None, **facts: Any) -> Row:
    """One allocation of process 1 on device 0."""
    return {
        "allocation_id": number,
        "level": level,
        "allocated_bytes": size,
        "alloc_ts_ns": start,
        "free_ts_ns": end,
        "generation": 0,
        "is_alloc_before_window": start is None,
        "is_free_inferred": False,
        "is_size_estimated": False,
    } | facts


def ledger(folder: Path, metrics: Iterable[Row], allocations: Iterable[Row] = (), *, samples: int = 500) -> Database:
    """A database with `memory_ledger_made`."""
    database = tables(folder, metrics=list(metrics), allocations=list(allocations))
    database.connection.execute(f"SET VARIABLE ledger_samples = {samples}")
    run(database, "ledger", "device_samples", "memory_ledger_made")
    return database


def parts(database: Database, ts: int, index: int = 0) -> dict[tuple[int | None, str], int | None]:
    """Bytes of each (process, part) at one sample."""
    return {
        (pid, part): size
        for pid, part, size in database.rows(
            "SELECT process_id, ledger_part, part_bytes FROM memory_ledger_made WHERE ts_ns = ? AND device_index = ?",
            [ts, index],
        )
    }
