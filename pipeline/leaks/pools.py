"""Driver allocations that may be a caching allocator's segments: growth there is no leak until a snapshot says so."""

from __future__ import annotations

from pipeline.database import Database
from pipeline.leaks.histories import Group
from pipeline.leaks.verdicts import Judgement

SEGMENT_STEP_BYTES = 2 * 1024 * 1024
"""PyTorch takes segments in whole multiples of this (kSmallBuffer, kRoundLarge in CUDACachingAllocator.h)."""


def processes_with_segments(database: Database) -> set[int | None]:
    """Processes whose caching allocator is known from a snapshot."""
    return {row[0] for row in database.rows("SELECT DISTINCT process_id FROM allocations WHERE level = 'segment'")}


def without_pools(group: Group, judgement: Judgement, with_segments: set[int | None]) -> Judgement:
    """The judgement, or an abstention where growing driver allocations may be segments nobody recorded."""
    key = group.key
    if judgement.verdict != "growing" or key.level != "driver" or key.process_id in with_segments:
        return judgement
    if key.memory_kind != "device" or any(s.size % SEGMENT_STEP_BYTES for s in group.survivors):
        return judgement
    return Judgement(
        "inconclusive",
        f"grows, but all {group.total('count')} are whole multiples of 2 MiB as a caching allocator's segments are,"
        " and no memory snapshot tells them apart: take one",
        None,
        judgement.growth_bytes_per_epoch,
    )
