"""The verdict on one call path's survivors (method 4): growing, bounded, one_time or inconclusive, with the reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.leaks.attributes import Association
from pipeline.leaks.calibration import calibrated
from pipeline.leaks.trend import Series, rise_p_value, theil_sen
from schemas.config import LeakSettings

Verdict = Literal["growing", "bounded", "one_time", "inconclusive"]
LEVEL_TOLERANCE = 1.05
EVICTION_SHARE = 0.5
STRONG_EPOCHS = 4
UNNAMED_EPOCHS = 8
STOPPED_GAPS = 4
LATE_EPOCHS = 9
"""From so many epochs on a rise in the later half can be significant: five values can be in 120 orders."""


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
    """A verdict, why, how sure (None: no number can be given), and the slope in bytes an epoch.

    `rule` is the rule that gave it, `evidence` how many epochs (of evictions: blocks) speak for it.
    """

    verdict: Verdict
    reason: str
    confidence: float | None = None
    growth_bytes_per_epoch: float | None = None
    rule: str = ""
    evidence: int = 0


def _epochs(number: int) -> str:
    return f"{number} epoch" if number == 1 else f"{number} epochs"


def sure(verdict: Verdict, rule: str, evidence: int, reason: str, slope: float | None = None) -> Judgement:
    """A judgement with the confidence that its rule has earned with so much evidence."""
    return Judgement(verdict, reason, calibrated(rule, evidence), slope, rule, evidence)


def unsure(rule: str, reason: str, slope: float | None = None) -> Judgement:
    """An inconclusive judgement."""
    return Judgement("inconclusive", reason, None, slope, rule)


def _level(history: PathHistory, kept: list[int], live: Series, settings: LeakSettings) -> Judgement | None:
    """Bounded where live bytes level off, or where as much is given back late as is kept."""
    n, half = history.epoch_count, history.epoch_count // 2
    late = sum(1 for epoch in kept if epoch >= half)
    if not late:
        return sure("bounded", "early", n - half, f"levels off: nothing kept since epoch {kept[-1]} of {n}")
    if live[-1] <= live[:half].max() * LEVEL_TOLERANCE:
        reason = "levels off: live bytes at the end are no higher than in the first half"
        return sure("bounded", "no_higher", n - half, reason)
    inflow = int(history.lasting_count[half : n - 2].sum())
    outflow = int(history.evicted_count[half:].sum())
    outliving = [epoch for epoch in kept if n - 1 - epoch > history.oldest_eviction]
    if inflow and outflow >= EVICTION_SHARE * inflow and len(outliving) < settings.min_age_epochs:
        reason = f"evicts as it fills: {outflow} given back late against {inflow} kept since half time"
        return sure("bounded", "evicts", outflow, reason)
    if outflow >= settings.min_age_epochs and not outliving:
        reason = f"turns over: {outflow} given back late, and nothing lives longer than those did"
        return sure("bounded", "turns_over", outflow, reason)
    if history.is_size_classes():
        reason = "a pool: one block of each power-of-two size, kept to be used again"
        return sure("bounded", "pool", len(history.sizes), reason)
    return None


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
        return sure("one_time", "before_epochs", n, "allocated before the first epoch and kept since")
    oldest_age = n - 1 - kept[0]
    if n < settings.min_epochs:
        return unsure("few_epochs", f"only {_epochs(n)}, {settings.min_epochs} are needed")
    if oldest_age < settings.min_age_epochs:
        reason = f"only the youngest {_epochs(len(kept))} keep any, none older than {oldest_age}"
        return sure("bounded", "youngest", kept[0], reason)
    if len(kept) == 1:
        reason = f"kept once, in epoch {kept[0]} of {n}, and never again in {_epochs(oldest_age)}"
        return sure("one_time", "kept_once", oldest_age, reason)
    live = history.live_bytes()
    if level := _level(history, kept, live, settings):
        return level
    count = sum(history.survivors.values())
    if history.older_freed_count >= EVICTION_SHARE * count:
        return unsure(
            "older_frees",
            f"{history.older_freed_count} blocks of these sizes from before the window were given back late in it"
            f" and {count} kept: the window is too short to tell a cache from a leak",
        )
    slope = theil_sen(live)
    if slope * n < settings.min_growth_bytes:
        return unsure(
            "slight", f"rises by {slope * n:.0f} bytes in all, below {settings.min_growth_bytes} (min_growth_bytes)"
        )
    p, late_p = rise_p_value(live), rise_p_value(live[n // 2 :])
    strong = STRONG_EPOCHS if is_named else UNNAMED_EPOCHS
    steady = len(kept) >= strong and p < settings.max_p_value and late_p < settings.max_p_value
    told_apart = attribute is not None and attribute.tells_apart(settings.attribute_max_p_value)
    quiet, usual = n - 1 - kept[-1], (kept[-1] - kept[0]) / (len(kept) - 1)
    if not told_apart and quiet > STOPPED_GAPS * usual + 2:
        reason = f"levels off: nothing kept in the last {_epochs(quiet)}, where one in {usual:.3g} kept some before"
        return sure("bounded", "stopped", quiet, reason)
    if steady or told_apart:
        how = f"live bytes rise (Mann–Kendall p = {p:.2g}, {late_p:.2g} in the later half)"
        if told_apart and attribute is not None:
            how += f"; exactly those with {attribute.attribute} keep some (Fisher p = {attribute.adjusted_p_value:.2g})"
        reason = f"{_epochs(len(kept))} of {n} keep some, the oldest for {_epochs(oldest_age)}; {how}"
        return sure("growing", "told_apart" if told_apart else "steady", len(kept), reason, slope)
    known = "no attribute tells them apart"
    if attribute is not None and attribute.is_perfect:
        chance = f"Fisher p = {attribute.adjusted_p_value:.2g}"
        known = f"exactly those with {attribute.attribute}, which may be chance ({chance})"
    if len(kept) < strong:
        return unsure("few", f"only {_epochs(len(kept))} keep any; {known}", slope)
    if p < settings.max_p_value and n < LATE_EPOCHS:
        why = f"live bytes rise (Mann–Kendall p = {p:.2g}), but of {_epochs(n)} the later half is too short to tell"
        return unsure("chance", f"{why} whether they go on rising; {LATE_EPOCHS} are needed; {known}", slope)
    return unsure("chance", f"the rise may be chance, p = {max(p, late_p):.2g}; {known}", slope)
