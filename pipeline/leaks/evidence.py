"""The allocations that each suspect rests on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pipeline.database import Database
from pipeline.leaks.suspects import Rated


def assign_evidence(database: Database, rated: list[Rated]) -> None:
    """Create `leak_evidence_made`: every surviving allocation with the suspect that it belongs to."""
    database.connection.execute(
        "CREATE OR REPLACE TEMP TABLE _assigned (suspect_id BIGINT, process_id BIGINT, device_index INTEGER,"
        " level VARCHAR,"
        " memory_kind VARCHAR, path_key BIGINT, size_key BIGINT, epoch_index BIGINT, range_key BIGINT)"
    )
    rows: list[tuple[Any, ...]] = []
    for suspect_id, item in enumerate(rated):
        for group in item.suspect.groups:
            rows += [(suspect_id, *group.key, s.size, s.epoch, s.range_key) for s in group.survivors]
    _insert(database, rows)
    database.run("leaks", "leak_evidence_made")


def _insert(database: Database, rows: list[tuple[Any, ...]]) -> None:
    if not rows:
        return
    names = (
        "suspect_id",
        "process_id",
        "device_index",
        "level",
        "memory_kind",
        "path_key",
        "size_key",
        "epoch_index",
        "range_key",
    )
    assigned = pa.table({name: pa.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)})
    database.connection.register("_assigned_rows", assigned)
    database.connection.execute("INSERT INTO _assigned SELECT * FROM _assigned_rows")
    database.connection.unregister("_assigned_rows")
