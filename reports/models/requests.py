"""Requests and tokens: percentiles by model and status, latency over time, objectives, and what a token costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reports.models.findings import Finding
from reports.source import CaptureTables, Row
from reports.text import duration_text, place_text, tidy

MAX_ROWS = 24
SLICES = 60
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 880, 190, 70, 34, 24, 150

OBJECTIVES = {
    "latency_p99": "P99 latency",
    "short_latency_p95": "P95 latency, short requests",
    "first_token_p95": "P95 time to first token",
    "error_ratio": "failed",
    "truncation_ratio": "answers cut",
}


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """One row of the table; durations in ns, None where not known. `who` and `status` are as a person reads them."""

    who: str
    status: str
    request_count: int | None
    p50_ns: int | None
    p95_ns: int | None
    p99_ns: int | None
    max_ns: int | None
    first_token_p95_ns: int | None
    queue_p95_ns: int | None
    error_ratio: float | None
    truncation_ratio: float | None


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective over the windows of a source; `value` and `target` as text."""

    name: str
    by: str
    when: str
    target: str
    worst: str
    met: int
    missed: int
    abstained: int
    reason: str


@dataclass(frozen=True, slots=True)
class TokenCost:
    """Bytes and time a token of one process, model and side of memory."""

    who: str
    side: str
    token_count: int
    mean: float | None
    deviation: float | None
    p95: float | None
    expected: int | None
    ratio: float | None
    kept: float | None
    kept_p_value: float | None
    interval_p50_ns: int | None
    trend: str
    missing: str


@dataclass(frozen=True, slots=True)
class LatencyMark:
    """One slice of time in pixels: from the median up to the highest."""

    x: float
    y_median: float
    y_highest: float
    is_bad: bool
    label: str


@dataclass(frozen=True, slots=True)
class LatencyChart:
    """Latency over time on a logarithmic scale. Sizes in pixels; `ticks` are (y, label), `times` (x, label)."""

    marks: tuple[LatencyMark, ...]
    ticks: tuple[tuple[float, str], ...]
    times: tuple[tuple[float, str], ...]
    start_ns: int
    summary: str


@dataclass(frozen=True, slots=True)
class Requests:
    """The whole section; `*_left_out` count what the page's bounds left out."""

    groups: tuple[RequestGroup, ...]
    groups_left_out: int
    chart: LatencyChart | None
    objectives: tuple[Objective, ...]
    objectives_left_out: int
    tokens: tuple[TokenCost, ...]
    tokens_left_out: int
    symptoms: tuple[Finding, ...]


def read_requests(tables: CaptureTables, findings: list[Finding]) -> Requests:
    """All blocks of the section; those without rows are empty."""
    groups = tables.query("request_measures", limit=MAX_ROWS)
    objectives = tables.query("objectives", limit=MAX_ROWS)
    tokens = tables.query("token_costs", limit=MAX_ROWS)
    return Requests(
        tuple(_group(row) for row in groups),
        _left_out(groups),
        _chart(tables.query("latency_series", slices=SLICES)),
        tuple(_objective(row) for row in objectives),
        _left_out(objectives),
        tuple(_token_cost(row) for row in tokens),
        _left_out(tokens),
        tuple(finding for finding in findings if finding.kind == "symptom"),
    )


def _left_out(rows: list[Row]) -> int:
    return rows[0]["total"] - len(rows) if rows else 0


def _group(row: Row) -> RequestGroup:
    if row["source"] == "prometheus":
        when = "since the server started" if row["is_since_start"] else "between scrapes"
        who = f"{tidy(row['server'], 20)} histograms, {when}"
    else:
        who = tidy(row["source"].replace("_", " "), 40)
    if row["model"]:
        who += f", {tidy(row['model'], 60)}"
    status = "–" if row["source"] == "prometheus" else "all" if row["status"] is None else tidy(row["status"], 40)
    return RequestGroup(
        who,
        status or "none logged",
        row["request_count"],
        row["p50_ns"],
        row["p95_ns"],
        row["p99_ns"],
        row["max_ns"],
        row["first_token_p95_ns"],
        row["queue_p95_ns"],
        row["error_ratio"],
        row["truncation_ratio"],
    )


def _value(value: float | None, unit: str | None) -> str:
    if value is None:
        return "not known"
    return duration_text(value * 1e9) if unit == "seconds" else f"{value * 100:.3g} %"


def _objective(row: Row) -> Objective:
    name = row["objective"]
    return Objective(
        OBJECTIVES.get(name, tidy(name, 40)),
        tidy(row["metric"] if row["source"] == "prometheus" else row["source"].replace("_", " "), 60),
        f"{row['around']} {tidy(row['period'], 60)}"
        if row["period"] is not None
        else "since the server started"
        if row["around"]
        else "sliding windows",
        _value(row["target"], row["unit"]),
        _value(row["worst"], row["unit"]),
        row["met"],
        row["missed"],
        row["abstained"],
        tidy(row["reason"], 160) if row["abstained"] else "",
    )


def _token_cost(row: Row) -> TokenCost:
    place = place_text(process_id=row["process_id"]) or "all processes"
    trend = {"level": "level", "linear": "grows", "superlinear": "grows faster and faster"}
    slope = row["interval_slope_ns"]
    said = trend.get(row["interval_trend"] or "", "not known")
    if slope is not None and row["interval_trend"] != "level":
        low, high = duration_text(row["interval_slope_low_ns"]), duration_text(row["interval_slope_high_ns"])
        said += f", {duration_text(slope)} a token ({low} to {high})"
    return TokenCost(
        place + (f", {tidy(row['model'], 60)}" if row["model"] else ""),
        {"rss": "RSS", "device": "device"}.get(row["memory_side"], tidy(row["memory_side"], 20)),
        row["token_count"] or 0,
        row["bytes_per_token_mean"],
        row["bytes_per_token_deviation"],
        row["bytes_per_token_p95"],
        row["expected_bytes_per_token"],
        row["actual_to_expected_ratio"],
        row["kept_bytes_per_request"],
        row["kept_p_value"],
        row["interval_p50_ns"],
        said,
        tidy(row["abstained_reason"], 300),
    )


def _chart(rows: list[Row]) -> LatencyChart | None:
    """Slices of time as bars from the median to the highest latency; None with fewer than two."""
    if len(rows) < 2:
        return None
    values = [max(1.0, float(row[name])) for row in rows for name in ("p50_ns", "max_ns")]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)

    def y(value: float) -> float:
        return round(BOTTOM - (math.log10(max(1.0, value)) - low) / (high - low) * (BOTTOM - TOP), 1)

    start, length = rows[0]["first_ns"], rows[0]["length_ns"]
    step = (WIDTH - LEFT - RIGHT) / SLICES
    marks = tuple(
        LatencyMark(
            round(LEFT + row["slice"] * step + 1, 1),
            y(row["p50_ns"]),
            y(row["max_ns"]),
            row["bad_count"] > 0,
            f"after {duration_text(length * row['slice'] / SLICES)}: {row['request_count']:,} begun, median"
            f" {duration_text(row['p50_ns'])}, highest {duration_text(row['max_ns'])}, {row['bad_count']:,} failed or"
            " cut",
        )
        for row in rows
    )
    every = max(1, math.ceil((high - low) / 6))
    ticks = tuple((y(10.0**power), duration_text(10.0**power)) for power in range(low, high + 1, every))
    times = tuple(
        (round(LEFT + part * (WIDTH - LEFT - RIGHT) / 4, 1), duration_text(length * part / 4) if part else "0")
        for part in range(5)
    )
    highest = max(row["max_ns"] for row in rows)
    count, bad = sum(row["request_count"] for row in rows), sum(row["bad_count"] for row in rows)
    summary = (
        f"{count:,} requests over {duration_text(length)}; highest latency {duration_text(highest)};"
        f" {bad:,} failed or cut"
    )
    return LatencyChart(marks, ticks, times, start, summary)
