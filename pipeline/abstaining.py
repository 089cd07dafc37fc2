"""Why a capture can't be judged: what no suspect is worth when the evidence for one could not have been seen."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.database import Database
from pipeline.leaks.levels import growth, is_level, load_levels
from schemas.config import LeakSettings


def singular(kind: str) -> str:
    """The epoch kind as a reader knows it: one of a range family is a range."""
    return "range" if kind == "range family" else kind


def plural(kind: str) -> str:
    """The epoch kind in the plural: requests, ranges, idle windows."""
    return f"{singular(kind)}s"


def reason_not_judged(database: Database, settings: LeakSettings) -> str | None:
    """What was missing and what to do about it, or None when the capture could be judged."""
    [(allocations, judged)] = database.rows(
        "SELECT count(*), count(*) FILTER (alloc_ts_ns IS NOT NULL AND level IN ('tensor', 'driver', 'host'))"
        " FROM allocations"
    )
    if not allocations:
        return "no allocations were recorded: capture a memory snapshot, CUPTI records or driver calls"
    if not judged and database.rows("SELECT 1 FROM diagnostics WHERE name = 'events_without_time' LIMIT 1"):
        return "the allocator's events have no times: record with a newer PyTorch, which writes them"
    if not judged:
        return (
            "the allocator's state is known but not its history: call torch.cuda.memory._record_memory_history() "
            "before the workload"
        )
    epochs = database.rows(
        "SELECT epoch_kind, max(epoch_count) FROM (SELECT process_id, epoch_kind, count(*) AS epoch_count FROM epochs"
        " GROUP BY process_id, epoch_kind) GROUP BY epoch_kind ORDER BY 2 DESC, 1"
    )
    if not epochs:
        return "nothing repeats while allocations were recorded: add requests, steps or NVTX ranges to the capture"
    missed = _missed(database, settings)
    if missed and not missed.is_level:
        rise = f", while the allocator's level rose by {missed.rise_bytes:.0f} bytes" if missed.rise_bytes else ""
        return (
            f"the allocation history holds {missed.inside} of {missed.total} requests, the rest was overwritten or not"
            f" recorded{rise}: record with a larger max_entries"
        )
    kind, count = epochs[0]
    if count < settings.min_epochs and not missed:
        what = singular(kind) if count == 1 else plural(kind)
        return f"only {count} {what} {'was' if count == 1 else 'were'} recorded, {settings.min_epochs} are needed"
    return None


def level_requests(database: Database, settings: LeakSettings) -> int | None:
    """Requests over which the allocator's level is known not to rise, where the recorded window missed them."""
    missed = _missed(database, settings)
    return missed.total if missed and missed.is_level else None


class _Missed(NamedTuple):
    """A process whose recorded window holds too few requests, and what its allocator's level did meanwhile."""

    total: int
    inside: int
    is_level: bool
    rise_bytes: float | None


def _missed(database: Database, settings: LeakSettings) -> _Missed | None:
    rows = database.rows(
        "SELECT w.process_id, count(*) FILTER (s.start_ns < w.first_ns), count(*) FILTER (s.start_ns >= w.first_ns)"
        " FROM judged_windows AS w JOIN request_spans AS s ON s.process_id = w.process_id OR s.process_id IS NULL"
        " WHERE s.start_ns IS NOT NULL GROUP BY w.process_id ORDER BY 2 DESC, 1"
    )
    levels = load_levels(database)
    found = []
    for process, lost, inside in rows:
        if lost >= settings.min_epochs > inside:
            series = levels.get(process)
            grown = growth(series.levels, series.prompt_tokens, series.attributes, settings) if series else None
            level = series is not None and is_level(series.levels, series.prompt_tokens, settings)
            found.append(_Missed(lost + inside, inside, level, grown.bytes if grown else None))
    return min(found, key=lambda missed: missed.is_level, default=None)
