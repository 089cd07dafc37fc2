"""Groups that share a root and survive together are one suspect with members."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.leaks.histories import Group
from pipeline.leaks.verdicts import Judgement

SAME_FATE = 0.7


@dataclass(slots=True)
class Judged:
    """A group, its verdict, and the frame that members share: the root, of kernel objects the cache, or None."""

    group: Group
    judgement: Judgement
    root: int | None


@dataclass(slots=True)
class Suspect:
    """Judged groups that are read as one; the first member has the most bytes.

    `range_key` stands for the range path whose call paths were judged together, if they were.
    """

    members: list[Judged]
    judgement: Judgement
    epochs: set[int] = field(default_factory=set)
    range_key: int | None = None

    @property
    def groups(self) -> list[Group]:
        return [member.group for member in self.members]

    def total(self, what: str) -> int:
        """Sum of `count`, `bytes` or `requested_bytes` over all members' survivors."""
        return sum(group.total(what) for group in self.groups)


def jaccard(one: set[int], other: set[int]) -> float:
    """Shared part of two sets, 0 to 1."""
    union = one | other
    return len(one & other) / len(union) if union else 0.0


def _fits(suspect: Suspect, judged: Judged) -> bool:
    """Whether a group survives in the suspect's epochs, in the same process, place and kind, below the same root."""
    lead = suspect.members[0]
    one, other = lead.group.key, judged.group.key
    if one[:4] != other[:4] or lead.root != judged.root:
        return False
    if judged.judgement.verdict == "growing":
        return jaccard(suspect.epochs, judged.group.epochs) >= SAME_FATE
    own = judged.group.epochs
    return judged.judgement.verdict == "inconclusive" and len(own) >= 2 and own <= suspect.epochs


def merge(judged: list[Judged]) -> list[Suspect]:
    """Suspects, growing groups merged by shared root and fate; inconclusive ones join a suspect they survive with."""

    def weight(item: Judged) -> tuple[int, tuple[str, ...]]:
        return (-item.group.total("bytes"), tuple(map(str, item.group.key)))

    suspects: list[Suspect] = []
    rest: list[Judged] = []
    for item in sorted(judged, key=weight):
        if item.judgement.verdict != "growing":
            rest.append(item)
            continue
        home = next((s for s in suspects if _fits(s, item)), None)
        if home is None:
            suspects.append(Suspect([item], item.judgement, set(item.group.epochs)))
        else:
            home.members.append(item)
            home.epochs |= item.group.epochs
    for item in rest:
        home = next((s for s in suspects if s.judgement.verdict == "growing" and _fits(s, item)), None)
        if home is None:
            suspects.append(Suspect([item], item.judgement, set(item.group.epochs)))
        else:
            home.members.append(item)
    return suspects
