"""Whether two captures can be compared: the same workload on the same device, and under which allocator settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from pipeline.compare_summary import Summary
from pipeline.compare_verdicts import Compared
from schemas.compare_settings import CompareSettings

Kind = Literal["totals", "growth", "speed"]
"""Kinds of quantities: bytes over the whole capture, what leaks an epoch, and times."""


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks' rows, and for each kind of quantity that can't be compared the reason."""

    rows: tuple[Compared, ...]
    blocked: dict[Kind, str]

    @property
    def is_comparable(self) -> bool:
        return not self.blocked


def check(baseline: Summary, candidate: Summary, settings: CompareSettings) -> Checks:
    """Compare what the captures did, not how they fared."""
    both = (baseline, candidate)
    everything: tuple[Kind, ...] = ("totals", "growth", "speed")
    rows: list[Compared] = []
    blocked: dict[Kind, str] = {}

    def note(row: Compared, kinds: tuple[Kind, ...]) -> None:
        rows.append(row)
        if row.verdict == "inconclusive" and row.reason:
            for kind in kinds:
                blocked[kind] = "; ".join(filter(None, (blocked.get(kind), row.reason)))

    def number(name: str, value: Callable[[Summary], float | None], limit: float, kinds: tuple[Kind, ...]) -> None:
        note(_number(name, value(baseline), value(candidate), limit), kinds)

    def text(name: str, value: Callable[[Summary], str], kinds: tuple[Kind, ...]) -> None:
        note(_text(name, *(value(side) or None for side in both)), kinds)

    text("model", lambda side: ", ".join(side.requests.models), everything)
    text("device", lambda side: ", ".join(side.devices), ("totals", "speed"))
    text("epoch kind", lambda side: side.epochs.kind or "", everything)
    limit = settings.max_token_difference_ratio
    number("prompt tokens a request", lambda side: _share(side.requests.prompt_tokens, side), limit, everything)
    number("output tokens a request", lambda side: _share(side.requests.output_tokens, side), limit, everything)
    limit = settings.max_count_difference_ratio
    number("requests", lambda side: float(side.requests.count) or None, limit, ("totals",))
    number("epochs", lambda side: float(side.epochs.count) or None, limit, ("totals",))
    return Checks(tuple(rows), blocked)


def _share(tokens: int | None, side: Summary) -> float | None:
    return tokens / side.requests.count if tokens is not None and side.requests.count else None


def _number(name: str, baseline: float | None, candidate: float | None, limit: float) -> Compared:
    row = Compared("check", name, "count", baseline, candidate)
    if baseline is None or candidate is None:
        return _half_known(row, baseline is None, candidate is None)
    if abs(candidate - baseline) <= limit * max(baseline, candidate):
        return replace(row, verdict="unchanged")
    told = f"{name}: {baseline:,.4g} against {candidate:,.4g}, more than {limit:.0%} apart"
    return replace(row, verdict="inconclusive", reason=told)


def _text(name: str, baseline: str | None, candidate: str | None) -> Compared:
    row = Compared("check", name, baseline_text=baseline, candidate_text=candidate)
    if baseline is None or candidate is None:
        return _half_known(row, baseline is None, candidate is None)
    if baseline == candidate:
        return replace(row, verdict="unchanged")
    return replace(row, verdict="inconclusive", reason=f"{name}: {baseline[:60]} against {candidate[:60]}")


def _half_known(row: Compared, is_baseline_missing: bool, is_candidate_missing: bool) -> Compared:
    """What neither capture tells is taken for equal; what one of them tells can't be."""
    if is_baseline_missing and is_candidate_missing:
        return replace(row, reason="not known in either")
    side = "baseline" if is_baseline_missing else "candidate"
    return replace(row, verdict="inconclusive", reason=f"{row.quantity}: not known in the {side}")


def setting_rows(baseline: Summary, candidate: Summary) -> list[Compared]:
    """Allocator settings that differ, as the snapshots tell them; none where a capture has no snapshot's settings."""
    if not baseline.settings or not candidate.settings:
        return []
    names = sorted({*baseline.settings, *candidate.settings})
    pairs = ((name, baseline.settings.get(name), candidate.settings.get(name)) for name in names)
    return [
        Compared(scope="setting", quantity=name, baseline_text=before, candidate_text=after)
        for name, before, after in pairs
        if before != after
    ]
