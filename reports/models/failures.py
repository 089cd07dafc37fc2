"""Failed allocations: what was asked for, who held memory then, and what was weighed to make room."""

from __future__ import annotations

from dataclasses import dataclass

from reports.models.causes import cause_label
from reports.source import CaptureTables
from reports.text import place_text, tidy

MAX_FAILURES = 5
MAX_ROWS = 10

_REMEDIES = {
    "expandable_segments": "expandable_segments:True",
    "max_split_size_mb": "max_split_size_mb",
    "garbage_collection_threshold": "garbage_collection_threshold",
    "synchronize": "synchronise, no record_stream",
    "one_stream": "work on one stream",
    "fewer_graph_pools": "fewer or shared CUDA graph pools",
    "other_processes": "free what is outside the allocator",
    "memory_limit": "a higher memory limit",
}


@dataclass(frozen=True, slots=True)
class Holder:
    """Who held memory at the failure; bytes and tensors."""

    name: str
    bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class Weighed:
    """A setting or measure; `would_help` None: not known."""

    label: str
    would_help: bool | None
    bytes: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed allocation. Bytes; None: not known."""

    place: str
    ts_ns: int | None
    requested_bytes: int | None
    device_free_bytes: int | None
    holders: tuple[Holder, ...]
    weighed: tuple[Weighed, ...]


@dataclass(frozen=True, slots=True)
class CauseCheck:
    """One root cause that was looked for; `count` None: it could not be judged."""

    label: str
    count: int | None
    reason: str
    next_measurement: str


def read_failures(tables: CaptureTables) -> tuple[tuple[Failure, ...], int]:
    """The first failures of allocators with their explanation, and how many more there are."""
    rows = tables.rows(
        "SELECT *, count(*) OVER () AS total FROM oom_events WHERE level <> 'host' ORDER BY oom_event_id"
        f" LIMIT {MAX_FAILURES}"
    )
    found = tuple(
        Failure(
            place_text(process_id=row["process_id"], device_index=row["device_index"]),
            row["ts_ns"],
            row["requested_bytes"],
            row["device_free_bytes"],
            _holders(tables, row["oom_event_id"]),
            _weighed(tables, row["oom_event_id"]),
        )
        for row in rows
    )
    return found, rows[0]["total"] - len(rows) if rows else 0


def _holders(tables: CaptureTables, number: int) -> tuple[Holder, ...]:
    rows = tables.rows(
        f"SELECT * FROM oom_holders WHERE oom_event_id = $number ORDER BY holder_rank LIMIT {MAX_ROWS}",
        {"number": number},
    )
    return tuple(Holder(tidy(row["holder"], 300), row["held_bytes"], row["held_count"]) for row in rows)


def _weighed(tables: CaptureTables, number: int) -> tuple[Weighed, ...]:
    order = list(_REMEDIES)
    rows = tables.rows(
        f"SELECT * FROM oom_remedies WHERE oom_event_id = $number ORDER BY remedy LIMIT {2 * MAX_ROWS}",
        {"number": number},
    )
    rows.sort(key=lambda row: order.index(row["remedy"]) if row["remedy"] in order else len(order))
    return tuple(
        Weighed(
            _REMEDIES.get(row["remedy"], tidy(row["remedy"], 60)),
            row["would_help"],
            row["room_bytes"],
            tidy(row["reason"], 400),
        )
        for row in rows
    )


def read_checks(tables: CaptureTables) -> tuple[CauseCheck, ...]:
    """Every root cause that was looked for, with what became of it."""
    return tuple(
        CauseCheck(
            cause_label(row["root_cause"]),
            row["cause_count"],
            tidy(row["abstained_reason"] or row["reason"], 400),
            tidy(row["next_measurement"], 400) if row["cause_count"] is None else "",
        )
        for row in tables.rows(
            "SELECT * FROM root_cause_checks ORDER BY cause_count IS NULL, cause_count DESC, root_cause LIMIT 20"
        )
    )
