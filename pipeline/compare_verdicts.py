"""What one compared quantity comes to: improved, regressed, unchanged, or inconclusive with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipeline.compare_intervals import Interval

Verdict = Literal["improved", "regressed", "unchanged", "inconclusive"]
Scope = Literal["check", "setting", "capture", "call_path"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One row of `comparison`. Null values are not known; a null verdict means that no direction is better."""

    scope: Scope
    quantity: str
    unit: str | None = None
    baseline: float | None = None
    candidate: float | None = None
    baseline_text: str | None = None
    candidate_text: str | None = None
    interval: Interval | None = None
    verdict: Verdict | None = None
    reason: str | None = None
    level: str | None = None
    memory_kind: str | None = None
    rank: int | None = None
    path: tuple[str, ...] | None = None

    @property
    def change(self) -> float | None:
        """Candidate - baseline."""
        if self.baseline is None or self.candidate is None:
            return None
        return self.candidate - self.baseline

    @property
    def change_ratio(self) -> float | None:
        """The change as a share of the baseline; null where that is zero."""
        return self.change / self.baseline if self.change is not None and self.baseline else None


def judge(
    change: float, interval: Interval | None, margin: float, *, is_more_better: bool
) -> tuple[Verdict, str | None]:
    """Verdict on a change that may be `margin` either way, with the reason where it is not plain.

    With an interval: unchanged when it lies within the margin; improved or regressed when it excludes no change and the
    change itself passes the margin. Without one (nothing varies) the change alone decides.
    """
    better: Verdict = "improved" if (change > 0) == is_more_better else "regressed"
    if interval is None:
        if abs(change) <= margin:
            return "unchanged", "as counted: it happens once and varies with no epoch"
        return better, "as counted: it happens once and varies with no epoch"
    if interval.low >= -margin and interval.high <= margin:
        return "unchanged", None
    if abs(change) > margin and (interval.low > 0 or interval.high < 0):
        return better, None
    return "inconclusive", "epochs differ among themselves by more than the captures do: record more of them"
