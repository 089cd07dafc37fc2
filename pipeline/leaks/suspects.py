"""From survivor groups to `leak_suspects` and the allocation each of them rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.database import Database
from pipeline.leaks.attributes import Association, associations
from pipeline.leaks.epochs import NO_EPOCHS, Epochs, load_epochs
from pipeline.leaks.histories import load_changes, load_survivors
from pipeline.leaks.kernel_caches import let_go
from pipeline.leaks.levels import load_levels
from pipeline.leaks.merging import Judged, Suspect, merge
from pipeline.leaks.older_frees import load_older_frees
from pipeline.leaks.overwritten import Explained, explain_overwritten
from pipeline.leaks.path_groups import PathGroups
from pipeline.leaks.path_verdicts import judge_path
from pipeline.leaks.paths import CallPathReader
from pipeline.leaks.pools import processes_with_segments, without_pools
from pipeline.leaks.range_paths import judge_ranges, load_range_evictions, load_range_names
from pipeline.leaks.trend import theil_sen
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
            for group, verdict in judge_path(path, epochs, settings)
        ]
    judged = let_go(judged, paths.object_name)
    ranges = load_range_names(database)
    judged, of_ranges = judge_ranges(
        judged, changes, load_range_evictions(database), epochs_by_process, ranges, settings
    )
    taken = {key for key, rows in changes.items() if any(change.allocated_bytes for change in rows)}
    judged, explained = explain_overwritten(judged, taken, load_levels(database), settings)
    rated = [_rate_explained(item) for item in explained]
    rated += [
        _rate(suspect, epochs_by_process.get(suspect.groups[0].key.process_id, NO_EPOCHS), ranges, settings)
        for suspect in (*of_ranges, *merge(judged))
    ]
    return sorted(rated, key=_importance)


def _own_ranges(suspect: Suspect, ranges: Mapping[int, str]) -> set[str]:
    """Names of the ranges that the survivors were allocated in: of course these come with them."""
    keys = {s.range_key for group in suspect.groups for s in group.survivors if s.range_key is not None}
    return {name for key in keys for name in ranges.get(key, "").split(" > ")}


def _rate(suspect: Suspect, epochs: Epochs, ranges: Mapping[int, str], settings: LeakSettings) -> Rated:
    told = None
    if suspect.judgement.verdict == "growing":
        known = associations(range(epochs.count), suspect.epochs, epochs.told())
        own = {f"range {name}=present" for name in _own_ranges(suspect, ranges)}
        told = next((a for a in known if a.attribute not in own), None)
    if told and told.adjusted_p_value >= settings.attribute_max_p_value:
        told = None
    per_hour = None
    histories = [group.history for group in suspect.groups if group.history is not None]
    if suspect.judgement.verdict == "growing" and histories:
        live = np.sum([history.live_bytes() for history in histories], axis=0)
        slope = theil_sen(live)
        suspect.judgement = replace(suspect.judgement, growth_bytes_per_epoch=slope)
        if epochs.span_ns:
            per_hour = slope * epochs.count / epochs.span_ns * NS_PER_HOUR
    return Rated(suspect, epochs, told, per_hour)


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
