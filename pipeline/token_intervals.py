"""Does the token interval grow with the position? A slope within requests, so that slow and fast ones do not mix.

The seasonal Kendall slope (Hirsch, Slack and Smith 1982, https://doi.org/10.1029/WR018i001p00107) with each request
as a season: the median over all pairs of tokens of one request; its confidence interval is that of Gilbert 1987, from
the variance of Kendall's S summed over requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.database import Database
from schemas.config import SymptomSettings

Series = NDArray[np.float64]
MAX_REQUESTS = 200
MAX_TOKENS = 80
MIN_PAIRS = 30
MIN_POSITIONS = 4
_Z = 1.959964


@dataclass(frozen=True, slots=True)
class Trend:
    """Nanoseconds that a position adds, with a 95 % interval; `name` is level, linear or superlinear.

    `start_ns` is the median interval at the lowest positions, `growth_ratio` the slope over all positions against it.
    """

    name: str
    slope_ns: float
    low_ns: float
    high_ns: float
    start_ns: float
    growth_ratio: float
    positions: int


def seasonal_slope(requests: list[tuple[Series, Series]]) -> tuple[float, float, float] | None:
    """Slope of y over x within requests, and the ends of its 95 % interval; None with fewer than MIN_PAIRS pairs."""
    slopes, variance = [], 0.0
    for x, y in requests:
        count = len(x)
        low, high = np.triu_indices(count, 1)
        apart = x[high] != x[low]
        slopes.append((y[high] - y[low])[apart] / (x[high] - x[low])[apart])
        variance += count * (count - 1) * (2 * count + 5) / 18
    pairs = np.sort(np.concatenate(slopes)) if slopes else np.array([])
    if len(pairs) < MIN_PAIRS:
        return None
    reach = _Z * np.sqrt(variance)
    ends = np.clip([(len(pairs) - reach) / 2, (len(pairs) + reach) / 2], 0, len(pairs) - 1)
    return float(np.median(pairs)), float(pairs[int(np.floor(ends[0]))]), float(pairs[int(np.ceil(ends[1]))])


def trend_of(requests: list[tuple[Series, Series]], settings: SymptomSettings) -> Trend | None:
    """The trend of intervals (y, ns) over positions (x); None when there is too little to tell."""
    positions = np.unique(np.concatenate([x for x, _ in requests])) if requests else np.array([])
    found = seasonal_slope(requests)
    if found is None or len(positions) < MIN_POSITIONS:
        return None
    slope, low, high = found
    first = positions[max(1, len(positions) // 10) - 1]
    start = float(np.median(np.concatenate([y[x <= first] for x, y in requests])))
    span = float(positions[-1] - positions[0])
    ratio = slope * span / start if start > 0 else float("inf")
    name = "level"
    if low > 0 and ratio >= settings.interval_growth_min_ratio:
        middle = float(positions[len(positions) // 2])
        early = seasonal_slope([(x[x <= middle], y[x <= middle]) for x, y in requests])
        late = seasonal_slope([(x[x >= middle], y[x >= middle]) for x, y in requests])
        is_bent = early is not None and late is not None and late[1] > early[2] and late[0] > 1.5 * early[0]
        name = "superlinear" if is_bent else "linear"
    return Trend(name, slope, low, high, start, ratio, len(positions))


def interval_trend(database: Database, process_id: int | None, model: str, settings: SymptomSettings) -> Trend | None:
    """The trend of one process and model, over at most MAX_REQUESTS requests, the longest, and MAX_TOKENS of each."""
    rows = database.rows(
        "SELECT number, token_index, interval_ns FROM ("
        " SELECT *, row_number() OVER (PARTITION BY number ORDER BY token_index) - 1 AS place FROM ("
        "  SELECT r.number, r.held, coalesce(s.token_index, s.place) AS token_index, s.interval_ns"
        "  FROM token_steps AS s JOIN ("
        "   SELECT request_number, count(*) AS held,"
        "    row_number() OVER (ORDER BY count(*) DESC, request_number) AS number FROM token_steps"
        "   WHERE interval_ns IS NOT NULL AND process_id IS NOT DISTINCT FROM ? AND model = ? GROUP BY request_number"
        "   ORDER BY number LIMIT ?) AS r USING (request_number)"
        "  WHERE s.interval_ns IS NOT NULL))"
        " WHERE held <= ? OR place * ?::BIGINT // held > (place - 1) * ?::BIGINT // held ORDER BY number, token_index",
        [process_id, model, MAX_REQUESTS, MAX_TOKENS, MAX_TOKENS, MAX_TOKENS],
    )
    if not rows:
        return None
    numbers, positions, intervals = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    pairs = zip(np.split(positions, cuts), np.split(intervals, cuts), strict=True)
    return trend_of([(x, y) for x, y in pairs if len(x) > 1], settings)
