"""The host's memory as a step of the analysis: pressure beside latency, and NUMA nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.database import Database, table_path
from pipeline.host_pressure import publish_pressure
from pipeline.leaks.tables import write_rows
from pipeline.numa import publish_numa
from schemas.config import Config
from schemas.tables import TABLES

Row = dict[str, Any]


def judge_host(database: Database, capture_dir: Path, config: Config, publish: Callable[[str, str], None]) -> list[Row]:
    """Publish `host_pressure`, `pressure_effects`, `numa_memory` and `numa_traffic`; returns their findings."""

    def write(name: str, rows: list[Row]) -> None:
        write_rows(capture_dir, name, rows)
        database.view(TABLES[name], [table_path(capture_dir, name)])

    return [
        *publish_pressure(database, config, publish, write),
        *publish_numa(database, config, publish, write),
    ]
