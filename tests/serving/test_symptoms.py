"""Symptoms of the model, the cache and the network in small logs, and the healthy logs beside them."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pipeline.objectives import missed_objectives
from pipeline.symptoms import symptom_findings
from schemas.config import Config, SloSettings
from tests.serving.support import SECOND, START, request, serve


def _tokens(interval_s: Any, count: int = 10, length: int = 80) -> list[dict[str, Any]]:
    """Tokens of requests one after another; `interval_s` gives the wait before a token of a request."""
    rows, now = [], float(START)
    for number in range(count):
        for index in range(length):
            now += interval_s(number, index) * SECOND
            rows.append({"source": "tokens", "request_id": str(number), "token_index": index, "ts_ns": round(now)})
    return rows


def _titles(temp: Path, config: Config | None = None, **rows: Any) -> list[tuple[str, str]]:
    settings = config or Config()
    database = serve(temp, settings, **rows)
    found = [*symptom_findings(database, settings.symptoms), *missed_objectives(database, settings.slo)]
    for finding in found:
        for part in json.loads(finding["evidence"]):
            assert database.rows(f"SELECT count(*) FROM {part['table']} WHERE {part['where']}")[0][0] > 0
    return [(finding["severity"], finding["title"]) for finding in found]


def test_intervals_that_grow_point_to_the_model(tmp_path: Path) -> None:
    chance = random.Random(1)
    rows = _tokens(lambda _, index: 0.02 + 0.001 * index + chance.gauss(0, 0.0005))
    [(severity, title)] = _titles(tmp_path, tokens=rows)
    assert severity == "warning"
    assert title.startswith("Model: the time between tokens grows with the position: 1 ms more a token")
    assert "up to position 79" in title


def test_pauses_point_to_the_cache(tmp_path: Path) -> None:
    rows = _tokens(lambda number, index: 0.02 + (1.5 if index == 40 and number % 3 == 0 else 0))
    [(severity, title)] = _titles(tmp_path, tokens=rows)
    assert severity == "warning"
    assert title.startswith("Cache: answers pause in the middle: 4 pauses in 4 requests, 6.08 s together")
    assert "the longest 1.52 s (request " in title and "against 20 ms between tokens" in title


@pytest.mark.parametrize(("busy", "severity", "layer"), [(0.01, "info", "Host"), (0.6, "warning", "Cache")])
def test_a_device_that_idles_meanwhile_points_to_the_host(
    busy: float, severity: str, layer: str, tmp_path: Path
) -> None:
    """In each of 4 pauses of 1.52 s one operation takes a share of it; others frame all tokens."""
    rows = _tokens(lambda number, index: 0.02 + (1.5 if index == 40 and number % 3 == 0 else 0))
    waits = [(a["ts_ns"], b["ts_ns"]) for a, b in pairwise(rows) if b["ts_ns"] - a["ts_ns"] > SECOND]
    ops = [{"start_ns": start, "end_ns": start + round(busy * (end - start))} for start, end in waits]
    ops += [{"start_ns": at, "end_ns": at + 1} for at in (START - SECOND, rows[-1]["ts_ns"] + SECOND)]
    [(found, title)] = _titles(tmp_path, tokens=rows, gpu_ops=ops)
    assert (found, title.split(":")[0]) == (severity, layer)
    assert title.endswith(f"the device worked for {busy:.2%} of that time")


@pytest.mark.parametrize(
    "wait",
    [
        lambda _, index: 0.02,
        lambda number, index: 0.02 + (1.5 if index == 1 else 0),  # what is built at each request's start
        lambda number, index: 0.02 + (1.5 if index == 40 and number == 5 else 0),  # once
        lambda number, index: 0.02 + (0.15 if index == 40 else 0),  # too short to be seen
    ],
)
def test_healthy_tokens_say_nothing(wait: Any, tmp_path: Path) -> None:
    assert _titles(tmp_path, tokens=_tokens(wait)) == []


def _symptoms(temp: Path, rows: list[dict[str, Any]]) -> list[str]:
    return [title for severity, title in _titles(temp, requests=rows) if severity == "warning"]


def _served(chance: random.Random, count: int = 200, longest: float = 20) -> list[dict[str, Any]]:
    return [request(n, n, chance.uniform(0.1, longest), status="200") for n in range(count)]


@pytest.mark.parametrize("status", ["499", "504"])
def test_answers_cut_at_one_time_point_to_the_network(status: str, tmp_path: Path) -> None:
    chance = random.Random(4)
    rows = _served(chance) + [request(f"c{n}", n, 30 + chance.uniform(0, 0.2), status=status) for n in range(12)]
    [title] = _symptoms(tmp_path, rows)
    assert title.startswith(f"Network: 12 of 12 cut answers (status {status}) end after 30.")
    assert "the longest other took 19." in title


def test_cancelling_clients_are_no_network(tmp_path: Path) -> None:
    chance = random.Random(4)
    cancelled = [request(f"c{n}", n, chance.uniform(0.1, 30), status="499") for n in range(40)]
    assert _symptoms(tmp_path / "spread", _served(chance) + cancelled) == []
    same = [request(f"c{n}", n, 10 + chance.uniform(0, 0.1), status="499") for n in range(12)]
    assert _symptoms(tmp_path / "others last longer", _served(chance) + same) == []
    quick = [request(f"c{n}", n, 0.15, status="499") for n in range(12)]
    assert _symptoms(tmp_path / "quick", _served(chance, longest=0.14) + quick) == []


def test_missed_objectives_are_loud_only_against_own_targets(tmp_path: Path) -> None:
    rows = [request(number, number / 10, 4.0, status="200") for number in range(200)]
    missed = "Objective missed: P99 latency in 1 of 1 windows, at worst 4 s against"
    assert _titles(tmp_path / "default", requests=rows) == [("info", f"{missed} 1.8 s")]
    config = Config(slo=SloSettings(latency_p99_seconds=2.0))
    assert _titles(tmp_path / "settings", config, requests=rows) == [("warning", f"{missed} 2 s")]
    notes = [{"fact": "slo", "name": "latency_p99_seconds", "value": 3.0}]
    assert _titles(tmp_path / "notes", requests=rows, capture_notes=notes) == [("warning", f"{missed} 3 s")]


def test_a_period_is_told_before_during_and_after(tmp_path: Path) -> None:
    rows = [request(number, number, 1.0, status="503" if 400 <= number < 500 else "200") for number in range(1000)]
    times = {"start_ns": START + 400 * SECOND, "end_ns": START + 500 * SECOND}
    notes = [{"fact": "period", "name": "drill", "text_value": "fault_injection"} | times]
    titles = [title for _, title in _titles(tmp_path, requests=rows, capture_notes=notes) if title.startswith("Period")]
    assert titles == [
        "Period drill: error ratio: before 0 (met), during 1 (missed), after 0 (met);"
        " P99 latency: before 1 s (met), during 1 s (met), after 1 s (met);"
        " truncation ratio: before 0 (met), during 0 (met), after 0 (met)"
    ]
