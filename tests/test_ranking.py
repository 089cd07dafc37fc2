"""The order of findings over all kinds."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pipeline.ranking import ranked


def _row(kind: str, severity: str, **facts: Any) -> dict[str, Any]:
    return {"finding_kind": kind, "severity": severity} | facts


@pytest.mark.parametrize(
    "expected",
    [
        [("leak", "critical"), ("oom", "critical"), ("kv_blocks", "critical"), ("slo", "warning"), ("clock", "info")],
        # the answer about memory leads even where something else is louder
        [("no_leak", "info"), ("cuda_context", "warning"), ("slo", "warning"), ("data_loss", "warning")],
        [("abstained", "info"), ("symptom", "warning"), ("idle_gap", "warning"), ("clock", "warning")],
        [("fragmentation", "warning"), ("data_loss", "warning"), ("no_leak", "info"), ("stall", "info")],
    ],
    ids=["critical", "no leak", "abstained", "fragmented"],
)
def test_severity_then_kind_whatever_order_they_came_in(expected: list[tuple[str, str]]) -> None:
    for given in itertools.permutations(expected):
        found = ranked(_row(*one) for one in given)
        assert [(row["finding_kind"], row["severity"]) for row in found] == expected
        assert [row["finding_id"] for row in found] == list(range(len(expected)))


def test_bytes_times_confidence_decide_between_like_kinds() -> None:
    rows = [
        _row("cuda_context", "warning", bytes=500, confidence=0.9),
        _row("fragmentation", "warning", bytes=800, confidence=0.5),
        _row("ledger", "warning", bytes=2000),  # nobody says how sure: half
        _row("fragmentation", "warning", bytes=10_000, confidence=0.1),
    ]
    # the answer first, the rest by 1000, 450 and 400
    assert [row["bytes"] for row in ranked(rows)] == [10_000, 2000, 500, 800]


def test_one_kind_keeps_the_order_of_who_found_it() -> None:
    leaks = [_row("leak", "critical", bytes=size, confidence=0.5) for size in (5, 900, 70)]
    assert [row["bytes"] for row in ranked(leaks)] == [5, 900, 70]


def test_nothing_is_nothing() -> None:
    assert ranked([]) == []
