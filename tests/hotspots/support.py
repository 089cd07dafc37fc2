"""The relations of hotspots over small tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.database import Database
from pipeline.hotspots import find_hotspots
from pipeline.kernel_names import name_kernels
from schemas.config import Config, HotspotSettings
from tests.sql.correlated import CORRELATE
from tests.sql.support import run, tables

Row = dict[str, Any]
FLAGS = {"generation": 0, "is_alloc_before_window": False, "is_free_inferred": False, "is_size_estimated": False}


def hotspots(
    temp: Path, *, rows: int = 50, suspects: Sequence[Mapping[str, Any]] = (), **given: Any
) -> tuple[Database, list[Row]]:
    """The database after the analysis, and all rows of `hotspots`."""
    database = tables(temp, **given)
    run(database, "correlate", *CORRELATE[: CORRELATE.index("thread_timeline") + 1])
    run(database, "latency", "token_steps")
    name_kernels(database)
    find_hotspots(database, suspects, Config(hotspots=HotspotSettings(rows=rows)))
    cursor = database.connection.execute("SELECT * FROM hotspots_made ORDER BY hotspot_id")
    names = [column[0] for column in cursor.description]
    return database, [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def of_kind(rows: Sequence[Row], kind: str) -> list[Row]:
    """Rows of one kind that hold numbers."""
    return [row for row in rows if row["hotspot_kind"] == kind and row["abstained_reason"] is None]


def reasons(rows: Sequence[Row]) -> dict[str, str]:
    """Why each kind abstains."""
    return {row["hotspot_kind"]: row["abstained_reason"] for row in rows if row["abstained_reason"]}


def paths(*stacks: Sequence[int]) -> dict[str, list[Row]]:
    """`frames` and `call_paths` of stacks of frame numbers; the path's number is its place, the function `f<n>`."""
    numbers = sorted({number for stack in stacks for number in stack})
    return {
        "frames": [{"frame_id": n, "function": f"f{n}", "file": "a.py", "line": n} for n in numbers],
        "call_paths": [
            {"call_path_id": place, "frame_ids": list(stack), "depth_count": len(stack)}
            for place, stack in enumerate(stacks)
        ],
    }
