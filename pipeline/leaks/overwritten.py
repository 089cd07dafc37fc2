"""Which call path explains growth that was overwritten: old survivors on a path that the window still takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.leaks.calibration import succession
from pipeline.leaks.histories import Group, PathKey, Survivors
from pipeline.leaks.levels import Growth, Levels, growth
from pipeline.leaks.merging import Judged, Suspect
from pipeline.leaks.verdicts import Judgement
from schemas.config import LeakSettings

MIN_COUNT = 3
EXPLAINED = (0.5, 1.5)


@dataclass(slots=True)
class Candidate:
    """Survivors of a call path that the window still takes: from before the window, and from within."""

    key: PathKey
    root: int | None
    older: list[Survivors] = field(default_factory=list)
    younger: list[Survivors] = field(default_factory=list)

    @property
    def older_bytes(self) -> int:
        return sum(s.bytes for s in self.older)

    @property
    def older_count(self) -> int:
        return sum(s.count for s in self.older)


@dataclass(slots=True)
class Explained:
    """A suspect made from lost growth: the levels it is read from, and the least it can have leaked."""

    suspect: Suspect
    levels: Levels
    growth: Growth
    certain_bytes: int


def explain(grown: Growth, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The call path whose older survivors make up the growth, and those kept as often below the same root.

    Empty when none does, or when several could.
    """
    low, high = EXPLAINED[0] * grown.bytes, EXPLAINED[1] * grown.bytes + grown.noise_bytes
    fitting = sorted(
        (c for c in candidates if c.older_bytes <= high), key=lambda c: (-c.older_bytes, tuple(map(str, c.key)))
    )
    if not fitting:
        return []
    lead = fitting[0]
    alike = (lead.older_count, lead.root, lead.key[:4])
    chosen = [c for c in fitting if (c.older_count, c.root, c.key[:4]) == alike]
    rivals = [c for c in fitting if c not in chosen and c.older_bytes >= low]
    return chosen if low <= sum(c.older_bytes for c in chosen) <= high and not rivals else []


def certain_bytes(grown: Growth, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> int:
    """Lower bound of what the chosen paths leaked: the growth less noise and all that other paths could hold of it."""
    others = sum(c.older_bytes for c in candidates if c not in chosen)
    held = sum(c.older_bytes for c in chosen)
    return max(0, min(held, int(grown.bytes - grown.noise_bytes) - others))


def _growing(grown: Growth) -> Judgement:
    reason = (
        "allocated before the recorded window, on a call path still taken in it; meanwhile the allocator's level rose"
        f" by {grown.bytes:.0f} bytes over {grown.request_count} requests (Mann–Kendall p = {grown.p_value:.2g},"
        f" {grown.late_p_value:.2g} in the later half)"
    )
    p = max(grown.p_value, grown.late_p_value)
    if grown.association is not None:
        chance = grown.association.adjusted_p_value
        reason += f", after requests with {grown.association.attribute} (Fisher p = {chance:.2g})"
        p = min(p, chance)
    # A witness fewer than a recorded history has: the level says that memory grew, the dump which path can hold it.
    confidence = succession(grown.request_count // 2, grown.request_count // 2) * (1 - p) * 0.9
    return Judgement("growing", reason, confidence, grown.bytes_per_request)


def _open(grown: Growth | None) -> Judgement:
    lost = "allocated before the recorded window, on a call path still taken in it"
    if grown is None:
        return Judgement("inconclusive", f"{lost}: whether one came with each epoch was overwritten")
    return Judgement(
        "inconclusive",
        f"{lost}; the allocator's level rose by {grown.bytes:.0f} bytes over {grown.request_count} requests meanwhile,"
        " and which call path holds them was overwritten",
    )


def _candidates(judged: Sequence[Judged], taken: set[PathKey]) -> dict[PathKey, Candidate]:
    """Call paths with enough older survivors to have grown (not weights and workspaces), and not judged growing yet."""
    found: dict[PathKey, Candidate] = {}
    growing = {item.group.key for item in judged if item.judgement.verdict == "growing"}
    for item in judged:
        key = item.group.key
        if key in taken and key not in growing:
            candidate = found.setdefault(key, Candidate(key, item.root))
            candidate.older += [*item.group.before_window, *(s for s in item.group.survivors if s.epoch is None)]
            candidate.younger += [s for s in item.group.survivors if s.epoch is not None and s.epoch >= 0]
    return {key: candidate for key, candidate in found.items() if candidate.older_count >= MIN_COUNT}


def explain_overwritten(
    judged: Sequence[Judged],
    taken: set[PathKey],
    levels: Mapping[int | None, Levels],
    settings: LeakSettings,
) -> tuple[list[Judged], list[Explained]]:
    """Verdicts on survivors whose allocation was overwritten.

    `taken` are call paths that allocate within the window, `levels` the series of the requests before it, a process.
    Returns all groups, less those that became suspects of their own, and these.
    """
    candidates = _candidates(judged, taken)
    rest, found = list(judged), list[Explained]()
    for process in sorted({key.process_id for key in candidates}, key=str):
        own = [c for key, c in candidates.items() if key.process_id == process and key.level == "tensor"]
        series = levels.get(process)
        grown = growth(series.levels, series.prompt_tokens, series.attributes, settings) if series else None
        known = sum(
            s.bytes
            for item in judged
            if item.judgement.verdict == "growing" and item.group.key.process_id == process
            for s in item.group.before_window
        )
        chosen = explain(grown, own) if grown and known < EXPLAINED[0] * grown.bytes else []
        for item in rest:
            key = item.group.key
            if key in candidates and key.process_id == process and item.group.survivors[0].epoch is None:
                item.judgement = _open(grown)
        if grown and series and chosen:
            keys = {candidate.key for candidate in chosen}
            rest = [item for item in rest if item.group.key not in keys]
            verdict = _growing(grown)
            members = [Judged(Group(c.key, [*c.older, *c.younger]), verdict, c.root) for c in chosen]
            suspect = Suspect(members, verdict, set(grown.leaking))
            found.append(Explained(suspect, series, grown, certain_bytes(grown, chosen, own)))
    return rest, found
