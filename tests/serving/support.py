"""A database with the latency relations made from a few rows, and Prometheus' own rule for quantiles."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.database import Database
from pipeline.serving import judge_serving
from schemas.config import Config
from schemas.tables import TABLES
from tests.sql.support import Row, tables

SECOND = 1_000_000_000
START = 1_796_036_318 * SECOND


def serve(temp: Path, config: Config | None = None, **rows: Sequence[Row] | str) -> Database:
    """Run all latency relations; the out tables can be read under their names."""
    database = tables(temp, **rows)

    def publish(name: str, relation: str) -> None:
        names = ", ".join(f'"{column}"' for column in TABLES[name].columns)
        database.connection.execute(f'CREATE OR REPLACE TEMP VIEW "{name}" AS SELECT {names} FROM {relation}')

    def write(name: str, made: list[dict[str, Any]]) -> None:
        from ingest.writer import to_arrow

        columns = {column: [row.get(column) for row in made] for column in TABLES[name].columns}
        database.connection.execute(f'DROP VIEW "{name}"')
        database.connection.register(name, to_arrow(TABLES[name], columns))

    judge_serving(database, config or Config(), publish, write)
    return database


def request(number: int, begin_s: float, latency_s: float | None, **more: Any) -> dict[str, Any]:
    """A logged request that arrives `begin_s` after START."""
    begin = START + round(begin_s * SECOND)
    return {
        "source": "request_log",
        "request_id": str(number),
        "arrival_ns": begin,
        "start_ns": begin,
        "end_ns": None if latency_s is None else begin + round(latency_s * SECOND),
    } | more


def bucket(metric: str, at_s: float, le: str, value: float, **labels: str) -> dict[str, Any]:
    """One bucket's sample of a scrape."""
    return sample(f"{metric}_bucket", at_s, value, le=le, **labels)


def sample(metric: str, at_s: float, value: float, **labels: str) -> dict[str, Any]:
    """One sample of a scrape."""
    return {
        "source": "prometheus",
        "metric": metric,
        "labels": json.dumps(labels, sort_keys=True),
        "ts_ns": START + round(at_s * SECOND),
        "value": value,
        "process_id": None,
        "device_index": None,
    }


def histogram_quantile(share: float, buckets: Sequence[tuple[float, float]]) -> float:
    """Prometheus' rule (promql/quantile.go, bucketQuantile) on cumulative buckets by bound, the last one +Inf."""
    total = buckets[-1][1]
    if total == 0:
        return math.nan
    rank = share * total
    place = next(i for i, (_, count) in enumerate(buckets) if count >= rank)
    if place == len(buckets) - 1:
        return buckets[-2][0]
    if place == 0 and buckets[0][0] <= 0:
        return buckets[0][0]
    start = 0.0 if place == 0 else buckets[place - 1][0]
    below = 0.0 if place == 0 else buckets[place - 1][1]
    end, count = buckets[place]
    return start + (end - start) * (rank - below) / (count - below)
