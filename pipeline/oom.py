"""Lack of memory explained (method 7): what was asked for, what was free and in which pieces, and who held the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.database import Database
from pipeline.leaks.paths import CallPathReader, PathFrame
from pipeline.wording import LIBRARY_FRAME, bytes_text, evidence_text

Row = dict[str, Any]
MAX_EVENTS = 20
MAX_HOLDERS = 3

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
GROUP BY alloc_call_path_id ORDER BY 2 DESC, 1 LIMIT ?
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

    @property
    def would_fit_in_one_piece(self) -> bool:
        """Whether the free bytes of allocator and driver would do if they were one piece."""
        if self.requested is None or self.free is None:
            return False
        return self.requested <= self.free + (self.device_free or 0) and self.requested > max(
            self.largest or 0, self.device_free or 0
        )


def out_of_memory(database: Database) -> list[OutOfMemory]:
    """The first failed allocations in order of time."""
    return [OutOfMemory(*row) for row in database.rows(_EVENTS, [MAX_EVENTS])]


def _own_frame(frames: tuple[PathFrame, ...]) -> str:
    """The innermost frame of the user's own code; the leaf where there is none."""
    texts = [frame.text() for frame in frames]
    own = [text for text in texts if not LIBRARY_FRAME.search(text)]
    return (own or texts)[-1] if texts else "an unknown call path"


def _holders(database: Database, event: OutOfMemory, paths: CallPathReader) -> list[str]:
    """Who held most at that moment, the largest first, in words."""
    if event.ts_ns is None or event.allocated is None:
        return []
    rows = database.rows(_HOLDERS, [event.process_id, event.device_index, event.ts_ns, event.ts_ns, MAX_HOLDERS])
    found = []
    for path, held, count in rows:
        frame = _own_frame(paths.frames(path) if path is not None else ())
        found.append(f"{bytes_text(held)} in {count:,} tensor{'s' if count > 1 else ''} of {frame}")
    return found


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


def _advice(event: OutOfMemory, holders: list[str]) -> str | None:
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
    if event.would_fit_in_one_piece:
        said = (
            "It would have fitted in one piece: expandable_segments:True in PYTORCH_CUDA_ALLOC_CONF lets free memory be"
            " joined; max_split_size_mb keeps large blocks whole."
        )
    elif event.pending and event.requested <= event.free + event.pending + (event.device_free or 0):
        said = "Blocks that waited for a stream would have made room: synchronise before it, or drop record_stream."
    else:
        said = "No allocator setting would have made room: what was in use has to shrink."
    return f"{said} Most was held by: {'; '.join(holders)}." if holders else said


def oom_findings(database: Database) -> list[Row]:
    """One finding a failed allocation, the first ones; of many, a last one that counts the rest. Without numbers."""
    paths = CallPathReader(database)
    found: list[Row] = []
    for event in out_of_memory(database):
        holders = _holders(database, event, paths)
        found.append(
            {
                "finding_kind": "oom",
                "severity": "critical",
                "bytes": event.requested,
                "title": _title(event),
                "evidence": evidence_text(
                    ("oom_events", f"oom_event_id = {event.oom_event_id}"), ("fragmentation", "moment = 'oom'")
                ),
                "advice": _advice(event, holders),
            }
        )
    [(total,)] = database.rows("SELECT count(*) FROM oom_events")
    if total > len(found):
        found.append(
            {
                "finding_kind": "oom",
                "severity": "critical",
                "title": f"{total - len(found):,} more failed allocations",
                "evidence": evidence_text(("oom_events", f"oom_event_id >= {len(found)}")),
            }
        )
    return found
