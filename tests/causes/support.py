"""Small captures as rows, for rules over the whole of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.database import Database
from tests.sql.support import run, tables

MIB = 1024 * 1024
PLAIN = {"generation": 0, "is_alloc_before_window": False, "is_free_inferred": False, "is_size_estimated": False}


def allocation(number: int, mebibytes: int, start: int | None, end: int | None, **more: Any) -> dict[str, Any]:
    """An allocation from one millisecond to another, 64 MiB apart from the next."""
    times = {
        "alloc_ts_ns": None if start is None else start * 1_000_000,
        "free_ts_ns": None if end is None else end * 1_000_000,
    }
    row = {"allocation_id": number, "address": number * 64 * MIB, "allocated_bytes": mebibytes * MIB}
    return PLAIN | row | times | more


def capture(temp: Path, allocations: list[dict[str, Any]], **given: Any) -> Database:
    """A database with the relations that the rules read."""
    database = tables(temp, allocations=allocations, **given)
    database.connection.execute("SET VARIABLE max_points = 1000; SET VARIABLE allocator_moments = 100")
    database.connection.execute("SET VARIABLE allocator_rows = 1000000")
    run(database, "leaks", "live_bytes_made")
    database.connection.execute("CREATE OR REPLACE TEMP VIEW live_bytes AS FROM live_bytes_made")
    database.connection.execute("CREATE OR REPLACE TEMP VIEW oom_events_made AS FROM oom_events")
    run(database, "allocator", "allocator_moments")
    times = [ts for row in allocations for ts in (row["alloc_ts_ns"], row["free_ts_ns"]) if ts is not None] or [0]
    database.connection.execute(
        "CREATE TEMP TABLE judged_windows AS"
        " SELECT 1::BIGINT AS process_id, $1::BIGINT AS first_ns, $2::BIGINT AS last_ns",
        [min(times), max(times)],
    )
    return database
