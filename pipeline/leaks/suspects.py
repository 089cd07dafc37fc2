"""From survivor groups to `leak_suspects` and the allocation each of them rests on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pipeline.database import Database
from pipeline.leaks.attributes import Association, associations
from pipeline.leaks.epochs import NO_EPOCHS, Epochs, load_epochs
from pipeline.leaks.histories import Group, PathGroups, load_changes, load_survivors
from pipeline.leaks.kernel_caches import let_go
from pipeline.leaks.levels import load_levels
from pipeline.leaks.merging import Judged, Suspect, merge
from pipeline.leaks.older_frees import load_older_frees
from pipeline.leaks.overwritten import Explained, explain_overwritten
from pipeline.leaks.paths import CallPathReader
from pipeline.leaks.pools import processes_with_segments, without_pools
from pipeline.leaks.trend import theil_sen
from pipeline.leaks.verdicts import Judgement, judge, succession
from schemas.config import LeakSettings

NS_PER_HOUR = 3_600_000_000_000
_ORDER = {"growing": 0, "inconclusive": 1, "bounded": 2, "one_time": 3}


@dataclass(slots=True)
class Rated:
    """A suspect with what the table says of it."""

    suspect: Suspect
    epochs: Epochs
    association: Association | None
    growth_bytes_per_hour: float | None
    certain_bytes: int | None = None
    """The least that it can have leaked; None: all that it retains."""


def _no_history(epochs: Epochs, group: Group) -> Judgement:
    """The verdict of a group without a history: from before the window or the epochs, or still running."""
    if epochs.count == 0:
        return Judgement("inconclusive", "nothing in the capture repeats while the history was recorded")
    if all(s.epoch is None for s in group.survivors):
        return Judgement("one_time", "allocated before the recorded window and kept since; its time is not known")
    if all(s.epoch is not None and s.epoch >= epochs.count for s in group.survivors):
        return Judgement("inconclusive", "allocated in the epoch that was running when the recording ended")
    return Judgement(
        "one_time", "allocated before the first epoch and kept since", succession(epochs.count, epochs.count)
    )


def judge_groups(database: Database, settings: LeakSettings, paths: CallPathReader) -> list[Rated]:
    """Every group of survivors judged, merged and rated, growing suspects first."""
    epochs_by_process = load_epochs(database)
    changes, older_frees = load_changes(database), load_older_frees(database)
    with_segments = processes_with_segments(database)
    judged: list[Judged] = []
    for key, survivors in load_survivors(database).items():
        epochs = epochs_by_process.get(key.process_id, NO_EPOCHS)
        root, object_name = paths.fate(key.path_key), paths.object_name(key.path_key)
        older = older_frees.get((*key[:4], object_name if key.level == "host" else None), {})
        path = PathGroups(key, survivors, changes.get(key, []), epochs.count, older)
        judged += [
            Judged(group, without_pools(group, verdict, with_segments), root)
            for group, verdict in _judge_path(path, epochs, settings)
        ]
    judged = let_go(judged, paths.object_name)
    taken = {key for key, rows in changes.items() if any(change.allocated_bytes for change in rows)}
    judged, explained = explain_overwritten(judged, taken, load_levels(database), settings)
    rated = [_rate_explained(item) for item in explained]
    rated += [
        _rate(suspect, epochs_by_process.get(suspect.groups[0].key.process_id, NO_EPOCHS), settings)
        for suspect in merge(judged)
    ]
    return sorted(rated, key=_importance)


def _judge_path(path: PathGroups, epochs: Epochs, settings: LeakSettings) -> Iterator[tuple[Group, Judgement]]:
    """Verdicts of one call path: what stands apart, then all sizes together, or size by size where only some grow."""

    def verdict(group: Group) -> Judgement:
        if group.history is None or not epochs.count:
            return _no_history(epochs, group)
        return judge(group.history, settings, attribute=_best(epochs, group.epochs), is_named=epochs.is_named)

    for group in path.set_apart():
        yield group, verdict(group)
    regular = path.regular()
    if regular is None:
        return
    whole = verdict(regular)
    wanted, candidates = (
        ("bounded", path.evicted()) if whole.verdict == "growing" else ("growing", path.never_evicted())
    )
    apart = [(group, own) for group in candidates if (own := verdict(group)).verdict == wanted]
    rest = path.without([group for group, _ in apart]) if apart else regular
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
        if found and found[0].is_perfect and found[0].p_value < settings.attribute_max_p_value:
            name, _, value = found[0].attribute.partition("=")
            young = {e for e in group.epochs - set(old) if epochs.attributes.get(e, {}).get(name) != value}
            reason = f"no older than {oldest} epochs, by when others were given back, and without {found[0].attribute}"
            return _Young(young, Judgement("bounded", reason, succession(len(old), len(old)))) if young else None
    return None


def _best(epochs: Epochs, leaking: set[int]) -> Association | None:
    found = associations(range(epochs.count), leaking, epochs.attributes)
    return found[0] if found else None


def _rate(suspect: Suspect, epochs: Epochs, settings: LeakSettings) -> Rated:
    best = _best(epochs, suspect.epochs) if suspect.judgement.verdict == "growing" else None
    if best and best.p_value >= settings.attribute_max_p_value:
        best = None
    per_hour = None
    histories = [group.history for group in suspect.groups if group.history is not None]
    if suspect.judgement.verdict == "growing" and histories:
        live = np.sum([history.live_bytes() for history in histories], axis=0)
        slope = theil_sen(live)
        suspect.judgement = Judgement("growing", suspect.judgement.reason, suspect.judgement.confidence, slope)
        if epochs.span_ns:
            per_hour = slope * epochs.count / epochs.span_ns * NS_PER_HOUR
    return Rated(suspect, epochs, best, per_hour)


def _rate_explained(item: Explained) -> Rated:
    levels, grown = item.levels, item.growth
    epochs = Epochs("request", len(levels.levels), levels.span_ns, levels.attributes)
    per_hour = grown.bytes_per_request * epochs.count / epochs.span_ns * NS_PER_HOUR if epochs.span_ns else None
    return Rated(item.suspect, epochs, grown.association, per_hour, item.certain_bytes)


def _importance(rated: Rated) -> tuple[Any, ...]:
    suspect = rated.suspect
    return (
        _ORDER[suspect.judgement.verdict],
        -(rated.growth_bytes_per_hour or 0.0),
        -suspect.total("bytes"),
        tuple(map(str, suspect.groups[0].key)),
        suspect.groups[0].survivors[0].size,
    )
