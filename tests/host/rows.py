"""Hand-made samples of a host's memory, and what is concluded from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.database import Database
from pipeline.host_pressure import pressure_effects
from schemas.host_settings import HostSettings
from tests.sql.support import tables

Row = Mapping[str, Any]
SECOND = 10**9
SETTINGS = HostSettings()


def sample(ts: int, metric: str, value: float, **labels: str) -> Row:
    """One sample of a host series; `process_id` and `clock_aligned` are facts of the row, the rest labels."""
    facts: dict[str, Any] = {"process_id": None, "device_index": None, "source": "host"}
    if "aligned" in labels:
        facts["clock_aligned"] = labels.pop("aligned") == "yes"
    if "pid" in labels:
        facts["process_id"] = int(labels.pop("pid"))
    return facts | {"ts_ns": ts, "metric": metric, "value": value, "labels": json.dumps(labels) if labels else None}


def cgroup(second: int, *, max_hits: int = 0, stalled: float = 0.0, held: int = 100, name: str = "/pod") -> list[Row]:
    """One sample of a cgroup with a limit of 1000 bytes: hits of the limit and seconds stalled so far."""
    ts = second * SECOND
    return [
        sample(ts, "cgroup_memory_current_bytes", held, cgroup=name),
        sample(ts, "cgroup_memory_max_bytes", 1000, cgroup=name),
        sample(ts, "cgroup_memory_events_total", max_hits, cgroup=name, event="max"),
        sample(ts, "cgroup_memory_events_total", 0, cgroup=name, event="oom_kill"),
        sample(ts, "memory_pressure_seconds_total", stalled, cgroup=name, stalled="some"),
    ]


def request(number: int, start: float, took: float) -> Row:
    """One request, in seconds."""
    start_ns, latency_ns = round(start * SECOND), round(took * SECOND)
    return {
        "request_id": str(number),
        "start_ns": start_ns,
        "end_ns": start_ns + latency_ns,
        "latency_ns": latency_ns,
        "is_request_id_inferred": False,
    }


def pressure(
    folder: Path, metrics: Iterable[Row], requests: Iterable[Row] = (), settings: HostSettings = SETTINGS
) -> tuple[Database, list[dict[str, Any]]]:
    """The database with `host_pressure_made`, and the rows of `pressure_effects`."""
    database = tables(folder, metrics=list(metrics), request_spans=list(requests))
    for name in ("pressure_windows", "stalled_min_ratio"):
        database.connection.execute(f"SET VARIABLE {name} = ?", [getattr(settings, name)])
    for relation in ("pressure_samples", "host_pressure_made", "pressed_requests"):
        database.run("host", relation)
    return database, pressure_effects(database, settings)
