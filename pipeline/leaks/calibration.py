"""How often a verdict is right, by the rule that gave it and how much speaks for it (docs/calibration.md)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import yaml

EDGES = (4, 8, 16, 32)
"""Evidence is counted in five bins: fewer than 4, then from each of these on."""
_FILE = Path(__file__).with_name("calibration.yaml")


def succession(successes: int, trials: int) -> float:
    """Laplace's rule of succession: probability of one more success after `successes` of `trials`."""
    return (successes + 1) / (trials + 2)


def bin_of(evidence: int) -> int:
    """Number of the bin of so much evidence, 0 to 4."""
    return bisect_right(EDGES, evidence)


@cache
def counts() -> Mapping[str, Sequence[tuple[int, int]]]:
    """Right verdicts and all verdicts of each rule, a bin of evidence, on the histories of the fit."""
    rows: dict[str, list[list[int]]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return {rule: [(right, total) for right, total in bins] for rule, bins in rows.items()}


@cache
def _by_bin(rule: str) -> tuple[float, ...] | None:
    """Confidence by bin, never falling with more evidence: bins that would are pooled (isotonic regression)."""
    if rule not in counts():
        return None
    pooled: list[tuple[int, int, int]] = []
    for right, total in counts()[rule]:
        pooled.append((right, total, 1))
        while len(pooled) > 1 and _must_pool(pooled[-2], pooled[-1]):
            (a, b, c), (d, e, f) = pooled[-2:]
            pooled[-2:] = [(a + d, b + e, c + f)]
    return tuple(succession(right, total) for right, total, width in pooled for _ in range(width))


def _must_pool(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return succession(*other[:2]) < succession(*one[:2])


def calibrated(rule: str, evidence: int) -> float:
    """Probability that a verdict by this rule with so much evidence is right; of rules never fitted, by succession."""
    known = _by_bin(rule)
    return succession(evidence, evidence) if known is None else known[bin_of(evidence)]
