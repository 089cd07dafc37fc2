"""Lack of memory explained (method 7): what was asked for, what was free and in which pieces, and who held the rest."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.database import Database
from pipeline.leaks.paths import CallPathReader, PathFrame
from pipeline.oom_remedies import SETTINGS, WORDS, Remedy, Segment, State, remedies
from pipeline.wording import LIBRARY_FRAME, bytes_text, evidence_text

Row = dict[str, Any]
MAX_EVENTS = 20
MAX_HOLDERS = 10
MAX_PATHS = 1000
TOLD_HOLDERS = 3
_PYTHON_FRAME = re.compile(r"\.py(:\d+)?\)$")

_EVENTS = """
SELECT o.oom_event_id, o.process_id, o.device_index, o.ts_ns, o.level, o.name, o.source, o.requested_bytes,
    o.device_free_bytes, s.reserved_bytes, s.allocated_bytes, s.pending_free_bytes, s.inactive_bytes,
    s.largest_free_bytes, s.free_block_count
FROM oom_events AS o
LEFT JOIN fragmentation AS s
    ON s.process_id = o.process_id AND s.device_index = o.device_index AND s.ts_ns = o.ts_ns AND s.moment = 'oom'
ORDER BY o.oom_event_id LIMIT ?
"""
_HOLDERS = """
SELECT alloc_call_path_id, sum(allocated_bytes)::BIGINT, count(*) FROM allocations
WHERE level = 'tensor' AND process_id = ? AND device_index = ? AND coalesce(alloc_ts_ns <= ?, true)
    AND coalesce(free_ts_ns > ?, true)
GROUP BY alloc_call_path_id ORDER BY 2 DESC, 1
"""
_SEGMENTS = """
SELECT oom_event_id, total_bytes, stream_id, asking_stream_id, pool_id, is_expandable, used_bytes, pending_bytes,
    largest_used_bytes, free_bytes, largest_free_bytes
FROM oom_segments ORDER BY oom_event_id, address
"""
_TOTALS = """
SELECT process_id, device_index, max(total_bytes) FROM devices WHERE device_index IS NOT NULL GROUP BY ALL
UNION ALL
SELECT NULL, device_index, max(value)::BIGINT FROM metrics
WHERE metric = 'device_memory_total_bytes' AND device_index IS NOT NULL GROUP BY ALL
"""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """One failed allocation with the caching allocator's state at that moment (None: not known). Bytes."""

    oom_event_id: int
    process_id: int | None
    device_index: int | None
    ts_ns: int | None
    level: str
    name: str | None
    source: str
    requested: int | None
    device_free: int | None
    reserved: int | None
    allocated: int | None
    pending: int | None
    free: int | None
    largest: int | None
    free_count: int | None


def out_of_memory(database: Database) -> list[OutOfMemory]:
    """The first failed allocations in order of time."""
    return [OutOfMemory(*row) for row in database.rows(_EVENTS, [MAX_EVENTS])]


def own_frame(frames: tuple[PathFrame, ...]) -> str:
    """The innermost frame of the user's own Python, else of the user's own code; the leaf where there is none."""
    texts = [frame.text() for frame in frames]
    own = [text for text in texts if not LIBRARY_FRAME.search(text)]
    python = [text for text in own if _PYTHON_FRAME.search(text)]
    return (python or own or texts)[-1] if texts else "an unknown call path"


def holders(database: Database, event: OutOfMemory, paths: CallPathReader) -> list[Row]:
    """Rows of `oom_holders` of one failure: who held most at that moment, by the innermost frame of the user's own."""
    if event.ts_ns is None or event.allocated is None:
        return []
    rows = database.rows(_HOLDERS, [event.process_id, event.device_index, event.ts_ns, event.ts_ns])
    paths.prefetch(row[0] for row in rows[:MAX_PATHS] if row[0] is not None)
    held: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for number, (path, size, count) in enumerate(rows):
        who = own_frame(paths.frames(path) if path is not None else ()) if number < MAX_PATHS else "other call paths"
        held[who] += size
        counts[who] += count
    most = sorted(held, key=lambda who: (-held[who], who))
    return [
        {
            "oom_event_id": event.oom_event_id,
            "holder_rank": rank,
            "holder": who,
            "held_bytes": held[who],
            "held_count": counts[who],
        }
        for rank, who in enumerate(most[:MAX_HOLDERS], 1)
    ]


def _holder_text(row: Row) -> str:
    count = row["held_count"]
    return f"{bytes_text(row['held_bytes'])} in {count:,} tensor{'s' if count > 1 else ''} of {row['holder']}"


def _title(event: OutOfMemory) -> str:
    if event.level == "host":
        return f"The kernel ran out of memory and killed {event.name or 'process'} ({event.process_id})"
    asked = f"{bytes_text(event.requested)} asked for" if event.requested is not None else f"{event.name} failed"
    parts = [
        f"Out of memory on device {event.device_index}: {asked}"
        if event.device_index is not None
        else f"Out of memory: {asked}"
    ]
    if event.device_free is not None:
        parts.append(f"{bytes_text(event.device_free)} free on the device")
    if event.reserved is not None and event.allocated is not None and event.free is not None:
        parts.append(
            f"the allocator held {bytes_text(event.reserved)}, {bytes_text(event.allocated)} of it in use,"
            f" {bytes_text(event.free)} free in {event.free_count} blocks"
            + (f", the largest {bytes_text(event.largest)}" if event.largest else "")
        )
    return ", ".join(parts)


def _advice(event: OutOfMemory, held: list[Row], weighed: list[Remedy]) -> str | None:
    if event.level == "host":
        return "Look at the host's memory over time (cgroup and process samples) for who grew."
    if event.requested is None or event.free is None:
        return (
            "Record the allocator's history (leakpath collect torch) to see what was free, and who held the rest."
            if event.free is None
            else None
        )
    room = (event.reserved or 0) + (event.device_free or 0)
    if event.device_free is not None and event.requested > room:
        return f"Even an empty allocator would have had {bytes_text(room)} only: the request itself has to shrink."
    settings = [one for one in weighed if one.remedy in SETTINGS]
    others = [one for one in weighed if one.remedy not in SETTINGS]
    said = [f"{WORDS[one.remedy]} would have made room: {one.reason}." for one in settings if one.would_help]
    if not said:
        why = "; ".join(f"{one.remedy}: {one.reason}" for one in settings)
        said = [f"No allocator setting would have made room ({why})."]
    said += [f"{WORDS[one.remedy]} would have helped: {one.reason}." for one in others if one.would_help]
    if not any(one.would_help for one in weighed):
        said.append("What was in use has to shrink.")
    if held:
        said.append(f"Most was held by: {'; '.join(_holder_text(row) for row in held[:TOLD_HOLDERS])}.")
    return " ".join(said)


def _weighed(
    event: OutOfMemory, segments: list[Segment], settings: Mapping[str, str], total: int | None
) -> list[Remedy]:
    """What would have helped; nothing without the request's size and the allocator's state."""
    if event.level == "host" or event.requested is None or event.free is None or event.reserved is None:
        return []
    used = event.reserved - event.free
    whole = Segment(
        event.reserved, None, None, None, False, used, event.pending or 0, used, event.free, event.largest or 0
    )
    state = State(event.requested, event.device_free or 0, segments or [whole])
    return remedies(state, settings, reserved=event.reserved, device_total=total)


@dataclass(frozen=True, slots=True)
class Explained:
    """Failed allocations explained: rows of `oom_holders` and `oom_remedies`, and findings without numbers."""

    holders: list[Row]
    remedies: list[Row]
    findings: list[Row]


def explain_failures(database: Database) -> Explained:
    """The first failed allocations, each with who held memory and what would have helped; `oom_segments` is there."""
    paths = CallPathReader(database)
    segments: dict[int, list[Segment]] = defaultdict(list)
    for number, *row in database.rows(_SEGMENTS):
        segments[number].append(Segment(*row))
    settings: dict[Any, dict[str, str]] = defaultdict(dict)
    for process, name, value in database.rows("SELECT process_id, name, setting FROM allocator_settings"):
        settings[process][name] = value
    totals = {(process, device): total for process, device, total in database.rows(_TOTALS)}
    found = Explained([], [], [])
    for event in out_of_memory(database):
        held = holders(database, event, paths)
        total = totals.get((event.process_id, event.device_index)) or totals.get((None, event.device_index))
        weighed = _weighed(event, segments[event.oom_event_id], settings[event.process_id], total)
        found.holders.extend(held)
        found.remedies.extend(
            {
                "oom_event_id": event.oom_event_id,
                "remedy": one.remedy,
                "would_help": one.would_help,
                "room_bytes": one.room,
                "reason": one.reason,
            }
            for one in weighed
        )
        found.findings.append(_finding(event, _advice(event, held, weighed)))
    [(count,)] = database.rows("SELECT count(*) FROM oom_events")
    if count > len(found.findings):
        found.findings.append(_rest(count, len(found.findings)))
    return found


def _finding(event: OutOfMemory, advice: str | None) -> Row:
    where = f"oom_event_id = {event.oom_event_id}"
    return {
        "finding_kind": "oom",
        "severity": "critical",
        "bytes": event.requested,
        "title": _title(event),
        "evidence": evidence_text(
            ("oom_events", where), ("oom_remedies", where), ("oom_holders", where), ("fragmentation", "moment = 'oom'")
        ),
        "advice": advice,
    }


def _rest(count: int, told: int) -> Row:
    return {
        "finding_kind": "oom",
        "severity": "critical",
        "title": f"{count - told:,} more failed allocations",
        "evidence": evidence_text(("oom_events", f"oom_event_id >= {told}")),
    }
