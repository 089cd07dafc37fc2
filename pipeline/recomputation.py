"""Work that is done again for every earlier token: calls a token that rise with the position (method 10).

Kendall's S within requests (each request a season: Hirsch, Slack and Smith 1982,
https://doi.org/10.1029/WR018i001p00107) with ties in its variance, so that requests of different length do not mix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

from pipeline.database import Database
from schemas.config import HotspotSettings

Numbers = NDArray[np.float64]
MIN_TOKENS = 12


@dataclass(frozen=True, slots=True)
class Rising:
    """A name whose calls a token rise: means at the first and last third of the positions, one-sided p-value,
    times the names that were tried."""

    process_id: int
    name: str
    call_path_id: int | None
    early: float
    late: float
    p_value: float
    calls: int


def rise(requests: Iterable[Numbers]) -> float:
    """One-sided p-value that values rise along each series. Series: values in order of position."""
    score = variance = 0.0
    for values in requests:
        n = len(values)
        later, earlier = np.tril_indices(n, -1)
        score += float(np.sign(values[later] - values[earlier]).sum())
        ties = np.unique(values, return_counts=True)[1].astype(np.float64)
        variance += (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if variance <= 0 or score <= 0:
        return 1.0
    return 0.5 * erfc((score - 1) / sqrt(2 * variance))


def rising_calls(database: Database, settings: HotspotSettings) -> list[Rising]:
    """Names whose calls a token rise with the position, of `token_windows` and `token_calls`, the steepest first."""
    windows = database.rows("SELECT DISTINCT process_id, request_number, position FROM token_windows ORDER BY ALL")
    place = {window: number for number, window in enumerate(windows)}
    spans: dict[int, list[slice]] = {}
    for (process, _), group in groupby(enumerate(windows), key=lambda item: item[1][:2]):
        numbers = [number for number, _ in group]
        spans.setdefault(process, []).append(slice(numbers[0], numbers[-1] + 1))
    rows = database.rows(
        "SELECT process_id, name, request_number, position, calls, call_path_id FROM token_calls ORDER BY ALL"
    )
    found = []
    for (process, name), called in groupby(rows, key=lambda row: row[:2]):
        counts, paths = np.zeros(len(windows)), Counter[int | None]()
        for _, _, request, position, calls, path in called:
            counts[place[process, request, position]] = calls
            paths[path] += calls
        series = [counts[span] for span in spans[process]]
        if sum(map(len, series)) >= MIN_TOKENS and any(values.min() < values.max() for values in series):
            found.append(_trend(process, name, paths, series))
    risen = [replace(row, p_value=min(1.0, row.p_value * len(found))) for row in found]
    return sorted((row for row in risen if _is_rising(row, settings)), key=lambda row: (row.early - row.late, row.name))


def _trend(process: int, name: str, paths: Counter[int | None], series: list[Numbers]) -> Rising:
    """Calls of a name, `paths` by call path, `series` in order of position a request."""
    early = float(np.mean(np.concatenate([values[: len(values) // 3] for values in series])))
    late = float(np.mean(np.concatenate([values[-(len(values) // 3) :] for values in series])))
    return Rising(process, name, paths.most_common(1)[0][0], early, late, rise(series), paths.total())


def _is_rising(row: Rising, settings: HotspotSettings) -> bool:
    return (
        row.late >= row.early * (1 + settings.recomputation_min_ratio)
        and row.late - row.early >= settings.recomputation_min_calls
        and row.p_value <= settings.max_p_value
    )


def reason_not_judged(database: Database) -> str | None:
    """What is missing to tell whether work is done again with the position, None when nothing is."""
    [(tokens, named, windows, calls)] = database.rows(
        "SELECT (SELECT count(*) FROM tokens), (SELECT count(*) FROM token_steps WHERE interval_ns IS NOT NULL"
        " AND process_id IS NOT NULL), (SELECT count(*) FROM token_windows), (SELECT count(*) FROM token_calls)"
    )
    if not tokens:
        return "no times of tokens: which position a call belongs to is not known"
    if not named:
        return "the token log names no process"
    if windows < MIN_TOKENS:
        return "too few tokens of a request that waits alone, on the capture's clock"
    return None if calls else "no calls were recorded while tokens were made (operators, ranges or kernel launches)"
