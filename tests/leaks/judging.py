"""The leak judgement on rows written by hand: allocations, ranges and metrics in, judged groups out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.database import Database
from pipeline.leaks.paths import CallPathReader
from pipeline.leaks.suspects import Rated, judge_groups
from schemas.config import LeakSettings
from tests.sql.support import run, tables

Row = Mapping[str, Any]
EPOCHS = ("host_ends", "judged_moments", "judged_windows", "named_epochs", "unnamed_epochs", "epochs_made")
SURVIVORS = (
    "judged_allocations",
    "epoch_lives",
    "survivor_groups",
    "path_epochs",
    "older_frees",
    "request_levels",
)
STEP = 1_000_000


def steps(count: int, name: str = "step:{}", **facts: Any) -> list[Row]:
    """Ranges that repeat, a millisecond apart, one after another."""
    return [
        {"name": name.format(i), "start_ns": i * STEP, "end_ns": (i + 1) * STEP - 1, "thread_id": 1} | facts
        for i in range(count)
    ]


def life(path: int, begin: float, end: float | None = None, **facts: Any) -> Row:
    """An allocation on a call path, from one step to another (as fractions); None: it lives at the end."""
    return {
        "alloc_call_path_id": path, "alloc_ts_ns": int(begin * STEP),
        "free_ts_ns": None if end is None else int(end * STEP),
        "allocated_bytes": 4096, "requested_bytes": 4096, "address": path * 2**20 + int(begin * 64) * 4096,
        "is_alloc_before_window": False, "is_free_inferred": False, "is_size_estimated": False,
        "generation": 0,
    } | facts  # fmt: skip


def epochs_of(temp: Path, allocations: Iterable[Row], **rows: Iterable[Row]) -> Database:
    """A database with the epochs of hand-made allocations."""
    listed = [{"allocation_id": number} | dict(row) for number, row in enumerate(allocations)]
    database = tables(temp, allocations=listed, **rows)
    database.connection.execute("SET VARIABLE time_windows = 20")
    run(database, "correlate", "request_ranges")
    run(database, "correlate", "range_nesting")
    run(database, "leaks", *EPOCHS)
    database.connection.execute("CREATE OR REPLACE VIEW epochs AS SELECT * FROM epochs_made")
    return database


def rated(temp: Path, allocations: Iterable[Row], **rows: Iterable[Row]) -> list[Rated]:
    """Judged groups of hand-made allocations."""
    database = epochs_of(temp, allocations, **rows)
    run(database, "leaks", *SURVIVORS)
    return judge_groups(database, LeakSettings(), CallPathReader(database))


def verdicts(found: Iterable[Rated]) -> dict[int, str]:
    """Verdict by call path."""
    return {group.key.path_key: item.suspect.judgement.verdict for item in found for group in item.suspect.groups}
