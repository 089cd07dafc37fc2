"""The verdict on one call path's survivors (method 4): growing, bounded, one_time or inconclusive, with the reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.leaks.attributes import Association
from pipeline.leaks.trend import rise_p_value, theil_sen
from schemas.config import LeakSettings

Verdict = Literal["growing", "bounded", "one_time", "inconclusive"]
LEVEL_TOLERANCE = 1.05
EVICTION_SHARE = 0.5
STRONG_EPOCHS = 4
UNNAMED_EPOCHS = 8
STOPPED_GAPS = 4


@dataclass(slots=True)
class PathHistory:
    """One call path over `epoch_count` epochs (arrays of that length, index is the epoch).

    `allocated_bytes`, `freed_bytes`, `evicted_count` (freed after two epochs or more) and `lasting_count` (allocated
    then, and alive two epochs later) are of all its allocations; `survivors` maps an epoch to the count that lives at
    the end, `before_bytes` is what was live before the first epoch. `older_freed_count` are blocks of these sizes from
    before the window, call path unknown, that were given back late in it.
    """

    epoch_count: int
    allocated_bytes: NDArray[np.int64]
    freed_bytes: NDArray[np.int64]
    evicted_count: NDArray[np.int64]
    lasting_count: NDArray[np.int64]
    oldest_eviction: int
    before_bytes: int
    survivors: dict[int, int] = field(default_factory=dict)
    sizes: Counter[int] = field(default_factory=Counter)
    older_freed_count: int = 0

    def is_size_classes(self) -> bool:
        """Whether survivors are one block of each of several power-of-two sizes, as a caching pool keeps."""
        return len(self.sizes) >= 3 and all(n == 1 and size & (size - 1) == 0 for size, n in self.sizes.items())

    def live_bytes(self) -> NDArray[np.float64]:
        """Live bytes at each epoch's end."""
        return (self.before_bytes + np.cumsum(self.allocated_bytes - self.freed_bytes)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, why, how sure (None: no number can be given), and the slope in bytes an epoch."""

    verdict: Verdict
    reason: str
    confidence: float | None = None
    growth_bytes_per_epoch: float | None = None


def succession(successes: int, trials: int) -> float:
    """Laplace's rule of succession: probability of one more success after `successes` of `trials`."""
    return (successes + 1) / (trials + 2)


def _epochs(number: int) -> str:
    return f"{number} epoch" if number == 1 else f"{number} epochs"


def judge(
    history: PathHistory, settings: LeakSettings, *, attribute: Association | None = None, is_named: bool = True
) -> Judgement:
    """Judge survivors of one call path.

    `attribute` is the request attribute that best tells leaking epochs apart. With few surviving epochs it carries the
    verdict when every epoch that has it keeps survivors and none without it does. Epochs that nothing in the capture
    names (`is_named` False: idle or time windows) need more of them to keep survivors.
    """
    n, kept = history.epoch_count, sorted(history.survivors)
    if not kept:
        return Judgement("one_time", "allocated before the first epoch and kept since", succession(n, n))
    oldest_age = n - 1 - kept[0]
    if n < settings.min_epochs:
        return Judgement("inconclusive", f"only {_epochs(n)}, {settings.min_epochs} are needed")
    if oldest_age < settings.min_age_epochs:
        return Judgement(
            "bounded",
            f"only the youngest {_epochs(len(kept))} keep any, none older than {oldest_age}",
            succession(kept[0], kept[0]) if kept[0] else None,
        )
    if len(kept) == 1:
        return Judgement(
            "one_time",
            f"kept once, in epoch {kept[0]} of {n}, and never again in {_epochs(oldest_age)}",
            succession(oldest_age, oldest_age),
        )
    live = history.live_bytes()
    half = n // 2
    late = sum(1 for epoch in kept if epoch >= half)
    if not late:
        return Judgement(
            "bounded", f"levels off: nothing kept since epoch {kept[-1]} of {n}", succession(n - half, n - half)
        )
    if live[-1] <= live[:half].max() * LEVEL_TOLERANCE:
        return Judgement(
            "bounded",
            "levels off: live bytes at the end are no higher than in the first half",
            succession(n - half, n - half),
        )
    inflow = int(history.lasting_count[half : n - 2].sum())
    outflow = int(history.evicted_count[half:].sum())
    outliving = [epoch for epoch in kept if n - 1 - epoch > history.oldest_eviction]
    if inflow and outflow >= EVICTION_SHARE * inflow and len(outliving) < settings.min_age_epochs:
        return Judgement(
            "bounded",
            f"evicts as it fills: {outflow} given back late against {inflow} kept since half time",
            succession(outflow, max(inflow, outflow)),
        )
    if history.is_size_classes():
        return Judgement(
            "bounded",
            "a pool: one block of each power-of-two size, kept to be used again",
            succession(n - half - late, n - half),
        )
    count = sum(history.survivors.values())
    if history.older_freed_count >= EVICTION_SHARE * count:
        return Judgement(
            "inconclusive",
            f"{history.older_freed_count} blocks of these sizes from before the window were given back late in it"
            f" and {count} kept: the window is too short to tell a cache from a leak",
        )
    slope = theil_sen(live)
    if slope * n < settings.min_growth_bytes:
        return Judgement(
            "inconclusive",
            f"rises by {slope * n:.0f} bytes in all, below {settings.min_growth_bytes} (min_growth_bytes)",
        )
    p, late_p = rise_p_value(live), rise_p_value(live[half:])
    strong = STRONG_EPOCHS if is_named else UNNAMED_EPOCHS
    steady = len(kept) >= strong and p < settings.max_p_value and late_p < settings.max_p_value
    told_apart = attribute is not None and attribute.is_perfect and attribute.p_value < settings.attribute_max_p_value
    quiet, usual = n - 1 - kept[-1], (kept[-1] - kept[0]) / (len(kept) - 1)
    if not told_apart and quiet > STOPPED_GAPS * usual + 2:
        return Judgement(
            "bounded",
            f"levels off: nothing kept in the last {_epochs(quiet)}, where one in {usual:.3g} kept some before",
            succession(quiet, quiet),
        )
    if steady or told_apart:
        how = f"live bytes rise (Mann–Kendall p = {p:.2g}, {late_p:.2g} in the later half)"
        if told_apart and attribute is not None:
            how += f"; exactly those with {attribute.attribute} keep some (Fisher p = {attribute.p_value:.2g})"
            p = min(p, attribute.p_value)
        reason = f"{_epochs(len(kept))} of {n} keep some, the oldest for {_epochs(oldest_age)}; {how}"
        return Judgement("growing", reason, succession(len(kept), len(kept)) * (1 - p), slope)
    why = (
        f"only {_epochs(len(kept))} keep any"
        if len(kept) < strong
        else f"the rise may be chance, p = {max(p, late_p):.2g}"
    )
    known = "no request attribute tells them apart"
    if attribute is not None and attribute.is_perfect:
        known = f"exactly those with {attribute.attribute}, which may be chance (Fisher p = {attribute.p_value:.2g})"
    return Judgement(
        "inconclusive",
        f"{why}; {known}",
        None,
        slope,
    )
