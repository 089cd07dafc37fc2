"""State of the caching allocator over time and at the last dump: what it reserved and what it can still give."""

from __future__ import annotations

from dataclasses import dataclass

from reports.source import CaptureTables, Row
from reports.text import place_text, tidy

MAX_ROWS = 16


@dataclass(frozen=True, slots=True)
class PoolState:
    """Segments of one process, device, pool and type; `place` is None for the row that sums the rest. Bytes."""

    place: str | None
    segments_count: int | None
    reserved_bytes: int | None
    allocated_bytes: int | None
    pending_bytes: int | None
    free_bytes: int | None
    free_count: int | None
    largest_free_bytes: int | None

    @property
    def scatter_ratio(self) -> float | None:
        """1 − largest free block / all free bytes: 0 when the free bytes are one block. None with nothing free."""
        if not self.free_bytes or self.largest_free_bytes is None:
            return None
        return 1 - self.largest_free_bytes / self.free_bytes


@dataclass(frozen=True, slots=True)
class AllocatorState:
    """All pools together, then one row a pool, the largest first."""

    total: PoolState
    pools: tuple[PoolState, ...]


@dataclass(frozen=True, slots=True)
class AllocatorMoment:
    """One moment of one process and device: `label` says which. Bytes; ratios 0 to 1."""

    label: str
    place: str
    ts_ns: int
    reserved_bytes: int
    allocated_bytes: int
    pending_bytes: int
    free_bytes: int
    free_in_use_bytes: int
    free_count: int
    largest_free_bytes: int | None
    scatter_ratio: float | None
    rounding_ratio: float | None
    private_bytes: int | None
    private_free_bytes: int | None


def read_moments(tables: CaptureTables) -> tuple[AllocatorMoment, ...]:
    """The allocator's fullest and most scattered moments, those without memory left, and the end."""
    return tuple(
        AllocatorMoment(
            row["label"],
            place_text(process_id=row["process_id"], device_index=row["device_index"]) or "all",
            row["ts_ns"],
            row["reserved_bytes"],
            row["allocated_bytes"],
            row["pending_free_bytes"],
            row["inactive_bytes"],
            row["inactive_split_bytes"],
            row["free_block_count"],
            row["largest_free_bytes"],
            row["external_fragmentation_ratio"],
            row["internal_fragmentation_ratio"],
            row["private_reserved_bytes"],
            row["private_inactive_bytes"],
        )
        for row in tables.query("allocator_moments", limit=MAX_ROWS)
    )


def read_allocator(tables: CaptureTables) -> AllocatorState | None:
    """Allocator state of the last dump; None when no snapshot with segments was captured."""
    rows = tables.query("allocator_pools", limit=MAX_ROWS)
    if not rows:
        return None
    total = _state("all pools", rows[0], "all_")
    pools = [_state(_place(row), row) for row in rows]
    if rows[0]["pools"] > len(rows):
        pools.append(_rest(total, pools))
    return AllocatorState(total, tuple(pools))


def _place(row: Row) -> str:
    parts = [place_text(process_id=row["process_id"], device_index=row["device_index"])]
    parts += [f"pool {tidy(row['pool_id'], 40)}"] if row["pool_id"] is not None else []
    parts += [f"{tidy(row['segment_type'], 20)} segments"] if row["segment_type"] else []
    return ", ".join(filter(None, parts)) or "all"


_COLUMNS = ("segments", "reserved", "allocated", "pending", "free", "free_count", "largest")


def _state(place: str, row: Row, prefix: str = "") -> PoolState:
    values = [row[prefix + name] for name in _COLUMNS]
    return PoolState(place, *(None if value is None else int(value) for value in values))


def _rest(total: PoolState, shown: list[PoolState]) -> PoolState:
    def left(name: str) -> int:
        return (getattr(total, name) or 0) - sum(getattr(pool, name) or 0 for pool in shown)

    return PoolState(
        None,
        left("segments_count"),
        left("reserved_bytes"),
        left("allocated_bytes"),
        left("pending_bytes"),
        left("free_bytes"),
        left("free_count"),
        None,
    )
