"""Stalls and gaps (method 8): the relations of `pipeline/sql/stalls` in their order, and their settings."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.database import Database
from schemas.stall_settings import StallSettings

TABLES = ("sync_stalls", "stall_costs", "device_activity", "idle_gaps", "stream_pairs")
_RELATIONS = (
    "call_files",
    "gpu_devices",
    "launch_calls",
    "hot_windows",
    "stall_calls",
    "eager_ranges",
    "sync_stalls_made",
    "stall_costs_made",
    "device_gaps",
    "device_activity_made",
    "idle_gaps_made",
    "stream_pairs_made",
)


def judge_stalls(database: Database, settings: StallSettings, publish: Callable[[str, str], None]) -> None:
    """Make the tables of stalls and gaps; `publish` writes a relation as a table."""
    values = {
        "warm_up_epochs": settings.warm_up_epochs,
        "hot_min_launches": settings.hot_min_launches,
        "context_min_ns": round(settings.context_min_seconds * 1e9),
        "eager_min_peers": settings.eager_min_peers,
        "eager_min_kernels": settings.eager_min_kernels,
        "idle_gap_min_ns": round(settings.gap_min_seconds * 1e9),
        "max_gaps": settings.max_gaps,
        "burst_gap_ns": round(settings.burst_gap_seconds * 1e9),
        "lockstep_streams": settings.lockstep_streams,
        "lockstep_min_bursts": settings.lockstep_min_bursts,
        "lockstep_tolerance": settings.lockstep_tolerance_ratio,
        "lockstep_min_ratio": settings.lockstep_min_ratio,
    }
    for name, value in values.items():
        database.connection.execute(f"SET VARIABLE {name} = ?", [value])
    for relation in _RELATIONS:
        database.run("stalls", relation)
    for name in TABLES:
        publish(name, f"{name}_made")
    for relation in _RELATIONS:
        database.connection.execute(f"DROP TABLE {relation}")
