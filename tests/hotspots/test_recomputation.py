"""Calls a token against the position: what rises is found, what does not is left, what can't be told says why."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.hotspot_findings import hotspot_findings
from pipeline.recomputation import rise
from schemas.config import HotspotSettings
from tests.hotspots.support import Row, hotspots, of_kind, reasons

Calls = Callable[[int], int]


def _generated(requests: int, tokens: int, calls: dict[str, Calls], gap_ns: int = 1000) -> dict[str, list[Row]]:
    """Requests one after another; each token's time holds `calls` by name and position."""
    made: dict[str, list[Row]] = {"tokens": [], "ranges": [], "clock_alignments": []}
    now = 0
    for request in range(requests):
        for position in range(tokens):
            inside = now + 1
            for name, count in calls.items():
                for _ in range(count(position)):
                    made["ranges"].append(
                        {"name": name, "range_kind": "operator", "start_ns": inside, "end_ns": inside + 1, "file_id": 1}
                    )
                    inside += 2
            now = max(now + gap_ns, inside)
            made["tokens"].append({"request_id": str(request), "token_index": position, "ts_ns": now})
        now += 5000
    made["clock_alignments"] = [
        {"file_id": n, "clock": "realtime", "method": "declared_realtime", "anchor_count": 0, "outlier_count": 0}
        | {"drift_ratio": 0.0, "is_disagreement": False}
        for n in (0, 1)
    ]
    return made


def _rising(rows: list[Row]) -> dict[str, tuple[float, float]]:
    return {
        row["name"]: (row["calls_per_token_early"], row["calls_per_token_late"])
        for row in of_kind(rows, "recomputation")
    }


def test_an_operator_called_for_every_earlier_token_is_found(tmp_path: Path) -> None:
    calls: dict[str, Calls] = {"aten::cos": lambda p: p + 1, "aten::mm": lambda p: 8, "aten::rare": lambda p: p % 2}
    database, rows = hotspots(tmp_path, **_generated(4, 20, calls))
    assert set(_rising(rows)) == {"aten::cos"}
    early, late = _rising(rows)["aten::cos"]
    # positions 1 to 19 have a token before them: 2, 3, … 20 calls
    assert (early, late) == (np.mean(range(2, 8)), np.mean(range(15, 21)))
    [finding] = hotspot_findings(database, HotspotSettings())
    assert finding["finding_kind"] == "hotspot"
    assert "aten::cos is called 4.5 times a token at first and 17.5 times" in finding["title"]


def test_what_begins_past_the_trained_length_is_found(tmp_path: Path) -> None:
    calls: dict[str, Calls] = {"aten::outer": lambda p: 2 * (p > 12), "aten::mm": lambda p: 3}
    _, rows = hotspots(tmp_path, **_generated(3, 24, calls))
    assert set(_rising(rows)) == {"aten::outer"}


def test_chance_and_falling_calls_do_not_rise(tmp_path: Path) -> None:
    chance = random.Random(3)
    calls: dict[str, Calls] = {f"n{x}": lambda p: chance.randint(0, 6) for x in "abcdef"}
    calls["falling"] = lambda p: 30 - p
    _, rows = hotspots(tmp_path, **_generated(5, 20, calls))
    assert _rising(rows) == {}
    assert "recomputation" not in reasons(rows)


def test_longer_requests_that_call_more_do_not_rise(tmp_path: Path) -> None:
    """Each request's calls are level; only that the longer ones have more would look like a rise over all."""
    given = _generated(1, 10, {"f": lambda p: 2})
    later = _generated(1, 30, {"f": lambda p: 9})
    shift = 10**7
    for table in ("tokens", "ranges"):
        for row in later[table]:
            row |= {key: row[key] + shift for key in ("start_ns", "end_ns", "ts_ns") if key in row}
            row |= {"request_id": "9"} if table == "tokens" else {}
        given[table] += later[table]
    _, rows = hotspots(tmp_path, **given)
    assert _rising(rows) == {}


def test_tokens_of_requests_that_overlap_belong_to_neither(tmp_path: Path) -> None:
    one = _generated(1, 20, {"f": lambda p: p})
    two = [row | {"request_id": "b", "ts_ns": row["ts_ns"] + 300} for row in one["tokens"]]
    _, rows = hotspots(tmp_path, **one | {"tokens": [*one["tokens"], *two]})
    assert "waits alone" in reasons(rows)["recomputation"]


@pytest.mark.parametrize(
    ("without", "reason"),
    [
        ("tokens", "no times of tokens"),
        ("ranges", "no calls were recorded"),
        ("clock_alignments", "too few tokens"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, without: str, reason: str) -> None:
    _, rows = hotspots(tmp_path, **_generated(3, 20, {"f": lambda p: p}) | {without: []})
    assert reason in reasons(rows)["recomputation"]


def test_kernel_launches_count_where_no_operators_were_recorded(tmp_path: Path) -> None:
    given: dict[str, Any] = _generated(3, 20, {"f": lambda p: p + 1})
    ranges = given.pop("ranges")
    given["api_calls"] = [
        {"api": "runtime", "name": "cudaLaunchKernel", "start_ns": r["start_ns"], "end_ns": r["end_ns"], "file_id": 1}
        | {"correlation_id": n}
        for n, r in enumerate(ranges)
    ]
    given["gpu_ops"] = [
        {"op": "kernel", "name": "rope", "start_ns": r["end_ns"], "end_ns": r["end_ns"] + 1, "file_id": 1}
        | {"correlation_id": n}
        for n, r in enumerate(ranges)
    ]
    _, rows = hotspots(tmp_path, **given)
    assert set(_rising(rows)) == {"rope"}


@pytest.mark.parametrize("values", [(1, 2, 3, 4, 5), (1, 1, 2, 2, 3), (0, 3, 1, 2, 5), (2, 2, 2, 1, 3)])
def test_the_p_value_is_near_that_of_all_orders(values: tuple[int, ...]) -> None:
    """Against every permutation: the share of orders with a score as high."""

    def score(order: tuple[int, ...]) -> int:
        return sum((b > a) - (b < a) for a, b in itertools.combinations(order, 2))

    orders = list(itertools.permutations(values))
    exact = sum(score(order) >= score(values) for order in orders) / len(orders)
    assert rise([np.array(values, float)]) == pytest.approx(exact, abs=0.07)
