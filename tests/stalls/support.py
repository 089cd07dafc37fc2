"""The SQL of stalls and gaps over rows or over the parts that an importer wrote."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from pipeline.database import Database, open_capture
from pipeline.stalls import TABLES, judge_stalls
from schemas.stall_settings import StallSettings
from schemas.tables import TABLES as DECLARED
from tests.sql.support import parse, run, tables

_TIMELINES = (
    "request_ranges", "request_spans_made", "range_nesting", "range_changes", "range_timeline", "thread_timeline",
    "request_timeline",
)  # fmt: skip
USUAL = StallSettings(gap_min_seconds=0, context_min_seconds=1)


def publish(database: Database, name: str, relation: str) -> None:
    """Keep a relation under its table's name, in the table's columns and types."""
    columns = ", ".join(f'"{field.name}"::{field.sql_type} AS "{field.name}"' for field in DECLARED[name].fields)
    database.connection.execute(f'CREATE OR REPLACE TEMP VIEW "{name}" AS SELECT NULL')
    database.connection.execute(f'DROP VIEW temp."{name}"')
    database.connection.execute(f'CREATE TEMP TABLE "{name}" AS SELECT {columns} FROM {relation}')


def judged(database: Database, settings: StallSettings = USUAL, **changed: Any) -> Database:
    """The database with the tables of stalls and gaps."""
    run(database, "correlate", *_TIMELINES)
    judge_stalls(database, dataclasses.replace(settings, **changed), lambda *names: publish(database, *names))
    return database


def stalls(temp: Path, settings: StallSettings = USUAL, **rows: str | list[dict[str, Any]]) -> Database:
    """Tables from rows; calls are of the runtime and rows of CUPTI on thread 7 of process 1 unless they say else."""
    usual: dict[str, dict[str, Any]] = {
        "api_calls": {"api": "runtime", "source": "cupti", "thread_id": 7},
        "gpu_ops": {"op": "kernel", "source": "cupti", "stream_id": 7, "context_id": 1},
        "sync_events": {"source": "cupti"},
        "allocations": {"generation": 0, "is_alloc_before_window": False, "is_free_inferred": False,
                        "is_size_estimated": False},
    }  # fmt: skip
    given = {
        name: [usual.get(name, {}) | row for row in (parse(text) if isinstance(text, str) else text)]
        for name, text in rows.items()
    }
    return judged(tables(temp, **given), settings)


def from_tables(capture_dir: Path, temp: Path) -> Database:
    """The database over the raw tables of an ingested capture."""
    database = open_capture(capture_dir, temp, settings={"clock_tolerance_ns": 5_000_000})
    database.connection.execute("SET threads = 1")
    return judged(database)


assert set(TABLES) <= set(DECLARED)
