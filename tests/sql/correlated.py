"""The SQL from events to linked allocations, for tests."""

from __future__ import annotations

from pathlib import Path

from pipeline.database import Database
from tests.sql.support import run, tables

LIFETIMES = (
    "tensor_lives",
    "segment_lives",
    "driver_sightings",
    "seen_twice",
    "driver_lives",
    "host_files",
    "host_lives",
)
CORRELATE = (
    "request_ranges", "request_spans_made", "range_nesting", "range_changes", "range_timeline", "thread_timeline",
    "request_timeline",
    "numbered_lives", "allocation_ranges", "allocation_parents", "allocations_made", "allocation_links_made",
)  # fmt: skip


def correlated(tmp_path: Path, **rows: str) -> Database:
    database = tables(tmp_path, **rows)
    run(database, "lifetimes", *LIFETIMES)
    run(database, "correlate", *CORRELATE)
    return database
