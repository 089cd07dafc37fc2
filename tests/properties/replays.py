"""What the properties of lifetimes share: events as plain values, and the SQL run on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings

from ingest.writer import to_arrow
from pipeline.database import Database
from schemas.tables import TABLES

Key = tuple[int, int, int]  # process, device, address
EXAMPLES = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass(frozen=True)
class Event:
    action: str
    key: Key
    ts_ns: int
    size: int


def load(database: Database, table: str, rows: list[dict[str, Any]]) -> None:
    columns = {name: [row.get(name) for row in rows] for name in TABLES[table].columns}
    schema = TABLES[table].arrow_schema()
    database.connection.register(table, to_arrow(TABLES[table], columns) if rows else pa.Table.from_pylist([], schema))


def replay(database: Database, relation: str, **rows: list[dict[str, Any]]) -> None:
    for table in ("memory_events", "segments", "blocks"):
        load(database, table, rows.get(table, []))
    database.connection.execute(f"DROP TABLE IF EXISTS {relation}")
    database.run("lifetimes", relation)


def event_rows(events: list[Event], level: str) -> list[dict[str, Any]]:
    return [
        {
            "file_id": 0, "event_index": i, "source": "torch", "level": level, "action": e.action, "ts_ns": e.ts_ns,
            "clock_aligned": True, "process_id": e.key[0], "device_index": e.key[1], "address": e.key[2],
            "size_bytes": e.size,
        }
        for i, e in enumerate(events)
    ]  # fmt: skip
