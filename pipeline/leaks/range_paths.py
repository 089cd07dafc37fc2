"""Survivors that no call path gives away, judged by the range path they were allocated in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipeline.database import Database
from pipeline.leaks.epochs import NO_EPOCHS, Epochs
from pipeline.leaks.histories import Change, Group, PathKey, Survivors, build_history
from pipeline.leaks.merging import Judged, Suspect
from pipeline.leaks.path_verdicts import best
from pipeline.leaks.verdicts import Judgement, judge
from schemas.config import LeakSettings

OPEN_RULES = ("kept_once", "few", "chance", "slight")
"""Verdicts that rest on too few epochs of the one call path: those of a whole range may tell more."""


LEVELS = ("tensor", "driver")


class Place(NamedTuple):
    """What is judged as one: a range path of one process, device, level and memory kind."""

    process_id: int | None
    device_index: int | None
    level: str
    memory_kind: str
    range_key: int


def load_range_evictions(database: Database) -> dict[Place, list[Change]]:
    """What other call paths of a range path gave back late."""
    database.run("leaks", "range_evictions")
    found: dict[Place, list[Change]] = defaultdict(list)
    for row in database.rows(
        "SELECT process_id, device_index, level, memory_kind, range_key, CAST(NULL AS BIGINT), epoch_index,"
        " allocated_bytes, freed_bytes, evicted_count, evicted_age, lasting_count FROM range_evictions ORDER BY ALL"
    ):
        found[Place(*row[:5])].append(Change(*row[5:]))
    return dict(found)


def load_range_names(database: Database) -> dict[int, str]:
    """Range paths of survivors by their number."""
    return dict(database.rows("SELECT DISTINCT range_key, range_path FROM epoch_lives WHERE is_live AND range_key > 0"))


def _is_open(item: Judged) -> bool:
    """Whether the call path alone says too little: few epochs, or only young ones of a path that gave none back."""
    history = item.group.history
    if item.judgement.rule == "youngest":
        return history is not None and not history.freed_bytes.any()
    return item.judgement.rule in OPEN_RULES


def _in_epochs(rows: Sequence[Survivors], epochs: Epochs) -> dict[int, list[Survivors]]:
    """Survivors of complete epochs by range path."""
    found: dict[int, list[Survivors]] = defaultdict(list)
    for s in rows:
        if s.range_key is not None and s.epoch is not None and 0 <= s.epoch < epochs.count:
            found[s.range_key].append(s)
    return found


def _less(item: Judged, taken: Sequence[Survivors]) -> Judged | None:
    """A judged group without survivors that another suspect took; None where none are left."""
    gone = set(map(id, taken))
    rows = [s for s in item.group.survivors if id(s) not in gone]
    if not rows and not item.group.before_window:
        return None
    rest = Group(item.group.key, rows or item.group.before_window, item.group.history)
    rest.before_window = item.group.before_window if rows else []
    return replace(item, group=rest)


def _by_range(
    changes: Mapping[PathKey, Sequence[Change]], keys: set[PathKey]
) -> dict[tuple[PathKey, int | None], list[Change]]:
    found: dict[tuple[PathKey, int | None], list[Change]] = defaultdict(list)
    for key in keys:
        for change in changes.get(key, ()):
            found[(key, change.range_key)].append(change)
    return found


def judge_ranges(
    judged: Sequence[Judged],
    changes: Mapping[PathKey, Sequence[Change]],
    evictions: Mapping[Place, Sequence[Change]],
    epochs_by_process: Mapping[int | None, Epochs],
    names: Mapping[int, str],
    settings: LeakSettings,
) -> tuple[list[Judged], list[Suspect]]:
    """Suspects made of several call paths below one range path, and all other groups, less what went into them.

    A leak whose call path differs from epoch to epoch (a stack that shows a loop's turn, a callback, generated code)
    leaves too little on each. Its range path still repeats. Only survivors whose own verdict is open are asked;
    `evictions` are what call paths without any gave back late in the same range path.
    """
    places: dict[Place, list[tuple[int, list[Survivors]]]] = defaultdict(list)
    kept: dict[tuple[PathKey, int | None], list[Survivors]] = defaultdict(list)
    for number, item in enumerate(judged):
        key = item.group.key
        for s in item.group.survivors:
            kept[(key, s.range_key)].append(s)
        if key.path_key >= 0 and key.level in LEVELS and _is_open(item):
            epochs = epochs_by_process.get(key.process_id, NO_EPOCHS)
            for range_key, rows in _in_epochs(item.group.survivors, epochs).items():
                places[Place(*key[:4], range_key)].append((number, rows))
    suspects, taken = list[Suspect](), defaultdict[int, list[Survivors]](list)
    own = _by_range(changes, {judged[number].group.key for parts in places.values() for number, _ in parts})
    for place, parts in sorted(places.items(), key=lambda entry: tuple(map(str, entry[0]))):
        paths = sorted({judged[number].group.key for number, _ in parts})
        if len(paths) < 2:
            continue
        asked = {id(s) for _, rows in parts for s in rows}
        others = [s for key in paths for s in kept[(key, place.range_key)] if id(s) not in asked]
        epochs = epochs_by_process.get(place.process_id, NO_EPOCHS)
        made = [change for key in paths for change in own[(key, place.range_key)]]
        made += evictions.get(place, ())
        suspect = _judge(judged, parts, made, others, epochs, settings)
        if suspect is not None:
            _name(suspect, place, len(paths), names)
            suspects.append(suspect)
            for number, rows in parts:
                taken[number] += rows
    rest = [_less(item, taken[number]) if number in taken else item for number, item in enumerate(judged)]
    return [item for item in rest if item is not None], suspects


def _judge(
    judged: Sequence[Judged],
    parts: Sequence[tuple[int, list[Survivors]]],
    changes: Sequence[Change],
    others: Sequence[Survivors],
    epochs: Epochs,
    settings: LeakSettings,
) -> Suspect | None:
    rows = [s for _, rows in parts for s in rows]
    history = build_history(rows, changes, others, epochs.count)
    history.older_freed_count = max(
        (h.older_freed_count for number, _ in parts if (h := judged[number].group.history)), default=0
    )
    kept = {s.epoch for s in rows if s.epoch is not None}
    verdict = judge(history, settings, attribute=best(epochs, kept), is_named=False)
    if verdict.verdict != "growing":
        return None
    ordered = sorted(parts, key=lambda part: (-sum(s.bytes for s in part[1]), judged[part[0]].group.key.path_key))
    members = [
        Judged(Group(judged[number].group.key, list(rows)), verdict, judged[number].root) for number, rows in ordered
    ]
    members[0].group.history = history
    return Suspect(members, verdict, kept, range_key=parts[0][1][0].range_key)


def _name(suspect: Suspect, place: Place, path_count: int, names: Mapping[int, str]) -> None:
    name = names.get(place.range_key, "?")
    reason = f"{path_count} call paths of the range {name} taken together: {suspect.judgement.reason}"
    verdict: Judgement = replace(suspect.judgement, reason=reason)
    suspect.judgement = verdict
    for member in suspect.members:
        member.judgement = verdict
