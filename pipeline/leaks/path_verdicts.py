"""Verdicts on one call path: as a whole, or part by part where sizes, ranges or epochs differ in fate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pipeline.leaks.attributes import Association, associations
from pipeline.leaks.epochs import Epochs
from pipeline.leaks.histories import Group
from pipeline.leaks.path_groups import Part, PathGroups
from pipeline.leaks.verdicts import Judgement, judge, sure, unsure
from schemas.config import LeakSettings

_PARTS: tuple[Part, ...] = ("size", "range_key")


def _no_history(epochs: Epochs, group: Group) -> Judgement:
    """The verdict of a group without a history: from before the window or the epochs, or still running."""
    if epochs.count == 0:
        return unsure("no_epochs", "nothing in the capture repeats while the history was recorded")
    if all(s.epoch is None for s in group.survivors):
        return Judgement("one_time", "allocated before the recorded window and kept since; its time is not known")
    if all(s.epoch is not None and s.epoch >= epochs.count for s in group.survivors):
        return unsure("running", "allocated in the epoch that was running when the recording ended")
    return sure("one_time", "before_epochs", epochs.count, "allocated before the first epoch and kept since")


def judge_path(path: PathGroups, epochs: Epochs, settings: LeakSettings) -> Iterator[tuple[Group, Judgement]]:
    """Verdicts of one call path: what stands apart, then the rest together, or part by part where only some grow."""

    def verdict(group: Group) -> Judgement:
        if group.history is None or not epochs.count:
            return _no_history(epochs, group)
        return judge(group.history, settings, attribute=best(epochs, group.epochs), is_named=epochs.is_named)

    for group in path.set_apart():
        yield group, verdict(group)
    regular = path.regular()
    if regular is None:
        return
    whole = verdict(regular)
    apart: list[tuple[Group, Judgement]] = []
    rest: Group | None = regular
    for part in _PARTS:
        wanted, candidates = (
            ("bounded", path.evicted(part)) if whole.verdict == "growing" else ("growing", path.never_evicted(part))
        )
        apart = [(group, own) for group in candidates if (own := verdict(group)).verdict == wanted]
        if apart:
            rest = path.without([group for group, _ in apart], part)
            break
    yield from apart
    if rest is None:
        return
    own = verdict(rest) if apart else whole
    if own.verdict == "growing" and (young := _young(rest, epochs, settings)):
        rest, split = path.split_epochs(rest, young.epochs)
        own = verdict(rest)
        yield split, young.judgement
    yield rest, own


class _Young(NamedTuple):
    epochs: set[int]
    judgement: Judgement


def _young(group: Group, epochs: Epochs, settings: LeakSettings) -> _Young | None:
    """Survivors of a growing group that may be given back yet: young ones without what tells the old ones apart.

    Of a cache whose cancelled sessions are never evicted, the last sessions live as well. What outlived every
    eviction tells which attribute leaks.
    """
    if group.history is None or not group.history.oldest_eviction:
        return None
    # What is held now may be older than anything evicted yet, when few requests have pushed it since.
    for oldest in (group.history.oldest_eviction, 2 * group.history.oldest_eviction):
        old = range(max(0, epochs.count - 1 - oldest))
        found = associations(old, group.epochs & set(old), epochs.attributes)
        if found and found[0].tells_apart(settings.attribute_max_p_value):
            name, _, value = found[0].attribute.partition("=")
            young = {e for e in group.epochs - set(old) if epochs.attributes.get(e, {}).get(name) != value}
            reason = f"no older than {oldest} epochs, by when others were given back, and without {found[0].attribute}"
            return _Young(young, sure("bounded", "young", len(old), reason)) if young else None
    return None


def best(epochs: Epochs, leaking: set[int]) -> Association | None:
    """The attribute that best tells these epochs from the rest."""
    found = associations(range(epochs.count), leaking, epochs.attributes)
    return found[0] if found else None
