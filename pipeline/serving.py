"""Requests and tokens (method 9): what a token costs, percentiles, objectives over windows, the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pipeline.database import Database
from pipeline.leaks.levels import without_own_share
from pipeline.leaks.trend import rise_p_value, theil_sen
from pipeline.token_intervals import Trend, interval_trend
from schemas.capture import SLO_TARGETS
from schemas.config import Config, SloSettings

Row = dict[str, Any]
_MIN_LEVELS = 4
_LEVELS = {"rss": "rss_bytes", "device": "device_allocated_bytes"}


def capture_targets(database: Database) -> dict[str, float]:
    """Targets that capture.yaml gives itself."""
    return dict(database.rows("SELECT name, value FROM capture_notes WHERE fact = 'slo'"))


def set_targets(database: Database, settings: SloSettings) -> None:
    """Give the SQL its targets: capture.yaml's before those of the settings."""
    targets = {name: getattr(settings, name) for name in SLO_TARGETS} | capture_targets(database)
    values: dict[str, Any] = {
        "latency_p99_ns": targets["latency_p99_seconds"] * 1e9,
        "short_latency_p95_ns": targets["short_latency_p95_seconds"] * 1e9,
        "first_token_p95_ns": targets["first_token_p95_seconds"] * 1e9,
        "max_error_ratio": targets["max_error_ratio"],
        "max_truncation_ratio": targets["max_truncation_ratio"],
        "requests_per_second": targets["requests_per_second"],
        "short_tokens": settings.short_tokens,
        "window_seconds": settings.window_seconds,
        "window_requests": settings.window_requests,
        "min_requests": settings.min_requests,
        "error_statuses": list(settings.error_statuses),
        "truncated_statuses": list(settings.truncated_statuses),
    }
    for name, value in values.items():
        database.connection.execute(f"SET VARIABLE {name} = ?", [value])


def judge_serving(
    database: Database, config: Config, publish: Callable[[str, str], None], write: Callable[[str, list[Row]], None]
) -> None:
    """Make request_latency, slo, pareto and token_memory. `publish` writes a relation as a table, `write` rows."""
    set_targets(database, config.slo)
    for relation in (
        "served_requests",
        "server_steps",
        "slo_windows",
        "server_quantiles",
        "request_latency_made",
        "slo_made",
        "pareto_made",
        "token_steps",
        "token_costs",
    ):
        database.run("latency", relation)
    publish("request_latency", "request_latency_made")
    publish("slo", "slo_made")
    publish("pareto", "pareto_made")
    write("token_memory", token_memory_rows(database, config))


def expected_bytes(facts: Mapping[str, float]) -> int | None:
    """Bytes of keys and values a token takes in one process; None when a fact is missing."""
    parts = facts.get("tensor_parallel_size", 1)
    if given := facts.get("kv_bytes_per_token"):
        return round(given / parts)
    needed = ("num_layers", "num_kv_heads", "head_dim", "dtype_bytes")
    if any(name not in facts for name in needed):
        return None
    layers, heads, size, width = (facts[name] for name in needed)
    return round(2 * layers * math.ceil(heads / parts) * size * width)


def model_facts(database: Database) -> dict[str, dict[str, float]]:
    """What capture.yaml says of each model."""
    found: dict[str, dict[str, float]] = {}
    for model, name, value in database.rows("SELECT text_value, name, value FROM capture_notes WHERE fact = 'model'"):
        found.setdefault(model, {})[name] = value
    return found


def _facts_of(model: str, known: Mapping[str, dict[str, float]]) -> Mapping[str, float]:
    """Facts of a model; where the log names no model and the notes only one, that one's."""
    if not model and len(known) == 1:
        return next(iter(known.values()))
    return known.get(model, {})


def _levels(database: Database, side: str) -> dict[int | None, Row]:
    """Of each process, how the lowest level of each request changes over its requests."""
    column = _LEVELS[side]
    series: dict[int | None, list[tuple[int, int | None]]] = {}
    for process, level, tokens in database.rows(
        f"SELECT process_id, min({column}), max(prompt_tokens) FROM token_steps WHERE {column} IS NOT NULL"
        " GROUP BY process_id, request_number ORDER BY process_id, min(ts_ns), request_number"
    ):
        series.setdefault(process, []).append((level, tokens))
    found = {}
    for process, values in series.items():
        levels = np.array([level for level, _ in values], dtype=np.float64)
        if side == "device":
            levels = without_own_share(levels, [tokens for _, tokens in values])
        row: Row = {"first_level_bytes": round(levels[0]), "last_level_bytes": round(levels[-1])}
        if len(levels) >= _MIN_LEVELS:
            row |= {"kept_bytes_per_request": theil_sen(levels), "kept_p_value": rise_p_value(levels)}
        found[process] = row
    return found


def _trend_columns(trend: Trend | None) -> Row:
    if trend is None:
        return {}
    return {
        "interval_slope_ns": trend.slope_ns,
        "interval_slope_low_ns": trend.low_ns,
        "interval_slope_high_ns": trend.high_ns,
        "interval_trend": trend.name,
    }


def token_memory_rows(database: Database, config: Config) -> list[Row]:
    """Rows of `token_memory`."""
    names = [row[0] for row in database.rows("SELECT column_name FROM (DESCRIBE token_costs)")]
    facts, levels = model_facts(database), {side: _levels(database, side) for side in _LEVELS}
    trends: dict[tuple[int | None, str], Trend | None] = {}
    rows = []
    for values in database.rows("SELECT * FROM token_costs ORDER BY process_id NULLS FIRST, model, memory_side"):
        row: Row = dict(zip(names, values, strict=True))
        level_count = row.pop("level_count")
        key = (row["process_id"], row["model"])
        if key not in trends:
            trends[key] = interval_trend(database, *key, config.symptoms)
        row |= _trend_columns(trends[key])
        side = row["memory_side"]
        if side == "device":
            row["expected_bytes_per_token"] = expected_bytes(_facts_of(row["model"], facts))
            if row["expected_bytes_per_token"] and row["token_count"]:
                row["actual_to_expected_ratio"] = row["bytes_per_token_p50"] / row["expected_bytes_per_token"]
        row |= levels[side].get(row["process_id"], {})
        row["abstained_reason"] = _missing(row, level_count)
        rows.append(row)
    return rows


def _missing(row: Row, level_count: int) -> str | None:
    """What the row does not know, and why."""
    reasons = []
    if not level_count:
        reasons.append("no token has the level of this memory")
    elif not row["token_count"]:
        reasons.append("no two tokens of a request follow each other without another request beginning or ending")
    if row["memory_side"] == "device" and level_count and row["expected_bytes_per_token"] is None:
        reasons.append("expected bytes: capture.yaml does not give the model's layers, heads, head size and bytes")
    if "interval_trend" not in row:
        reasons.append("interval against position: too few tokens or positions")
    return "; ".join(reasons) or None
