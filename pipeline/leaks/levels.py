"""Growth that the recorded window lost, read from the allocator's level at each request (method 2 and 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pipeline.database import Database
from pipeline.leaks.attributes import Association, associations
from pipeline.leaks.epochs import load_request_attributes
from pipeline.leaks.trend import Series, rise_p_value, theil_sen
from schemas.config import LeakSettings

CLEAR_OF_NOISE = 2.0
STEADY_SHARE = 0.5
LEVEL_P_VALUE = 0.1


@dataclass(slots=True)
class Levels:
    """The allocator's level in bytes at each request that began before the recorded window, in order of time."""

    levels: list[int] = field(default_factory=list)
    prompt_tokens: list[int | None] = field(default_factory=list)
    attributes: dict[int, dict[str, str]] = field(default_factory=dict)
    starts_ns: list[int] = field(default_factory=list)

    @property
    def span_ns(self) -> int:
        return self.starts_ns[-1] - self.starts_ns[0] if self.starts_ns else 0


def load_levels(database: Database) -> dict[int | None, Levels]:
    """Levels of each process from `request_levels`."""
    known = load_request_attributes(database)
    found: dict[int | None, Levels] = {}
    for process, request, start, level, tokens in database.rows(
        "SELECT process_id, request_id, start_ns, level_bytes, prompt_tokens FROM request_levels WHERE is_lost"
        " ORDER BY process_id, start_ns, request_id"
    ):
        series = found.setdefault(process, Levels())
        attributes = known.get((process, request)) or known.get((None, request))
        if attributes:
            series.attributes[len(series.levels)] = attributes
        series.levels.append(level)
        series.prompt_tokens.append(tokens)
        series.starts_ns.append(start)
    return found


@dataclass(frozen=True, slots=True)
class Growth:
    """A rise of the level over `request_count` requests, all begun before the recorded window.

    `bytes` is what it rose by from the first to the last, `noise_bytes` its largest
    fall on the way, from a peak to a later low. `leaking` are
    the requests after which it rose by clearly more than that (CLEAR_OF_NOISE). `association` tells them apart, where
    something does.
    """

    request_count: int
    bytes: float
    noise_bytes: float
    bytes_per_request: float
    p_value: float
    late_p_value: float
    leaking: frozenset[int]
    association: Association | None


def without_own_share(levels: Series, tokens: Sequence[int | None]) -> Series:
    """Levels less what each request holds itself for its prompt, at the median bytes a token between neighbours.

    Left alone where prompt lengths are not known, do not differ, or do not explain the levels' changes.
    """
    if any(count is None for count in tokens):
        return levels
    lengths = np.array(tokens, dtype=np.float64)
    change, longer = np.diff(levels), np.diff(lengths)
    if np.count_nonzero(longer) < 3:
        return levels
    a_token = float(np.median(change[longer != 0] / longer[longer != 0]))
    own: Series = levels - a_token * (lengths - lengths.min())
    return own if np.abs(np.diff(own)).mean() < np.abs(change).mean() else levels


def growth(
    levels: Sequence[int],
    tokens: Sequence[int | None],
    attributes: Mapping[int, Mapping[str, str]],
    settings: LeakSettings,
) -> Growth | None:
    """The rise of the levels (one a request, in order), or None when they do not rise beyond chance.

    It must rise over all requests and in the later half, there at least half as fast as before and by clearly more
    than it ever fell, or rise after exactly those requests that have an attribute. A cache that fills to its limit
    does neither: its level wanders up and down with the sizes of its entries.
    """
    if len(levels) < settings.min_epochs:
        return None
    series = without_own_share(np.array(levels, dtype=np.float64), tokens)
    steps = np.diff(series)
    noise = float((np.maximum.accumulate(series) - series).max())
    leaking = frozenset(int(i) for i in np.flatnonzero(steps > CLEAR_OF_NOISE * noise))
    found = associations(range(len(steps)), set(leaking), attributes) if leaking else []
    told_apart = bool(found) and found[0].tells_apart(settings.attribute_max_p_value)
    half = len(series) // 2
    p, late_p = rise_p_value(series), rise_p_value(series[half:])
    steady = p < settings.max_p_value and late_p < settings.max_p_value
    late_slope = theil_sen(series[half:])
    steady = steady and late_slope >= STEADY_SHARE * theil_sen(series[:half])
    steady = steady and late_slope * (len(series) - half) > CLEAR_OF_NOISE * noise
    slope = theil_sen(series)
    rise = float(series[-1] - series[0])
    if slope * len(levels) < settings.min_growth_bytes or rise <= 0:
        return None
    if not told_apart and not steady:
        return None
    known = found[0] if found and found[0].adjusted_p_value < settings.attribute_max_p_value else None
    return Growth(len(levels), rise, noise, slope, p, late_p, leaking, known)


def is_level(levels: Sequence[int], tokens: Sequence[int | None], settings: LeakSettings) -> bool:
    """Whether the levels are known not to rise: not by more than they fell, in the later half, nor by its trend.

    Not the opposite of `growth`: few requests may show neither.
    """
    if len(levels) < settings.min_epochs:
        return False
    series = without_own_share(np.array(levels, dtype=np.float64), tokens)
    late = series[len(series) // 2 :]
    noise = float((np.maximum.accumulate(series) - series).max())
    return bool(late[-1] - late[0] <= noise) and rise_p_value(late) > LEVEL_P_VALUE
