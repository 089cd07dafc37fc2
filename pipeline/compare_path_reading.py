"""Call paths of one capture for its comparison's summary."""

from __future__ import annotations

from typing import Any

from pipeline.compare_summary import MAX_PATHS, OtherRow, PathRow
from pipeline.database import Database

_SUMS = "end_bytes, end_count, peak_bytes, peak_count, allocated_bytes, allocated_count"
Unit = tuple[int, int]


def _kept(database: Database, condition: str) -> dict[tuple[Any, ...], list[Unit]]:
    """(unit, bytes) of each call path; a null unit is left out."""
    found: dict[tuple[Any, ...], list[Unit]] = {}
    for *key, unit, size in database.rows(
        "SELECT level, memory_kind, rank, path_key, unit, sum(bytes)::BIGINT FROM compare_kept"
        f" WHERE unit IS NOT NULL AND {condition} GROUP BY ALL ORDER BY ALL"
    ):
        found.setdefault(tuple(key), []).append((unit, size))
    return found


def read_paths(database: Database, frames: dict[str, int]) -> list[PathRow]:
    """The `MAX_PATHS` largest call paths; `frames` gathers their frames' names with their places."""
    kept, leaked = _kept(database, "is_live"), _kept(database, "is_leak")
    totals = {
        tuple(key): size
        for *key, size in database.rows(
            "SELECT level, memory_kind, rank, path_key, sum(bytes)::BIGINT FROM compare_kept WHERE is_leak GROUP BY ALL"
        )
    }
    rows = []
    for level, kind, rank, path, names, known, lifetimes, *sums in database.rows(
        f"SELECT level, memory_kind, rank, path_key, frames, lifetime_count, lifetimes, {_SUMS} FROM compare_paths"
        " WHERE place <= ? ORDER BY place",
        [MAX_PATHS],
    ):
        key = (level, kind, rank, path)
        half, most = (round(max(value, 0)) for value in lifetimes) if known else (None, None)
        rows.append(
            PathRow(
                level=level,
                memory_kind=kind,
                rank=rank,
                **dict(zip(_SUMS.split(", "), sums, strict=True)),
                leaked_bytes=totals.get(key, 0),
                frames=[frames.setdefault(name, len(frames)) for name in names or ()],
                lifetime_count=known,
                lifetime_p50_ns=half,
                lifetime_p95_ns=most,
                kept=kept.get(key, []),
                leaked=leaked.get(key, []),
            )
        )
    return rows


def read_others(database: Database) -> list[OtherRow]:
    """The sums of all other call paths, one a kind of memory."""
    sums = ", ".join(f"sum({name})::BIGINT" for name in _SUMS.split(", "))
    return [
        OtherRow(
            level=level,
            memory_kind=kind,
            rank=rank,
            paths_count=count,
            leaked_bytes=0,
            **dict(zip(_SUMS.split(", "), values, strict=True)),
        )
        for level, kind, rank, count, *values in database.rows(
            f"SELECT level, memory_kind, rank, count(*), {sums} FROM compare_paths WHERE place > ?"
            " GROUP BY ALL ORDER BY ALL",
            [MAX_PATHS],
        )
    ]
