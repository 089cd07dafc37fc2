"""Lifetimes in SQL against a replay in plain Python, written from the rules in words and not from the SQL.

The rules: an allocation runs from its alloc to its free (for the caching allocator requested, then completed). A free
without an alloc belongs to an allocation from before the window. An alloc at a live address means that a free was lost.
What is not freed lives. The dump decides what lives at the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.database import Database
from tests.properties.replays import EXAMPLES, Event, Key, event_rows, replay


@dataclass(frozen=True)
class Life:
    """One allocation as both sides tell it."""

    alloc_ns: int | None
    requested_ns: int | None
    free_ns: int | None
    is_before_window: bool
    is_inferred: bool


def _open_lives(events: list[Event]) -> tuple[dict[Key, list[Life]], dict[Key, Life]]:
    """Ended and open lives after the replay of tensor events."""
    ended: dict[Key, list[Life]] = defaultdict(list)
    live: dict[Key, Life] = {}
    for event in events:
        known = live.get(event.key)
        if event.action == "alloc":
            if known:
                ended[event.key].append(replace(known, free_ns=event.ts_ns, is_inferred=True))
            live[event.key] = Life(event.ts_ns, None, None, False, False)
        elif event.action == "free_requested":
            if known and known.requested_ns is None:
                live[event.key] = replace(known, requested_ns=event.ts_ns)
                continue
            if known:  # asked for twice: the address was given out again in between
                ended[event.key].append(replace(known, free_ns=event.ts_ns, is_inferred=True))
            live[event.key] = Life(None, event.ts_ns, None, True, False)
        else:
            life = live.pop(event.key, Life(None, None, None, True, False))
            ended[event.key].append(replace(life, free_ns=event.ts_ns))
    return ended, live


def _tensor_model(
    events: list[Event], dumped: dict[Key, str], devices: set[tuple[int, int]]
) -> Counter[tuple[Key, Life]]:
    """`dumped` maps blocks in use to their state, `devices` are those that were dumped."""
    ended, live = _open_lives(events)
    end_ns: dict[tuple[int, int], int] = {}
    for event in events:
        end_ns[event.key[:2]] = event.ts_ns
    for key, life in live.items():
        gone = key[:2] in devices and key not in dumped
        ended[key].append(replace(life, free_ns=end_ns[key[:2]], is_inferred=True) if gone else life)
    for key, state in dumped.items():
        if key not in live:
            asked = end_ns.get(key[:2]) if state == "active_pending_free" else None
            ended[key].append(Life(None, asked, None, True, False))
    return Counter((key, life) for key, lives in ended.items() for life in lives)


_COLUMNS = "alloc_ts_ns, free_requested_ts_ns, free_ts_ns, is_alloc_before_window, is_free_inferred"


def _tensor_rows(database: Database) -> Counter[tuple[Key, Life]]:
    rows = database.rows(f"SELECT process_id, device_index, address, {_COLUMNS} FROM tensor_lives")
    return Counter(((row[0], row[1], row[2]), Life(*row[3:])) for row in rows)


_keys = st.tuples(st.integers(1, 2), st.integers(0, 1), st.integers(1, 3).map(lambda n: n * 512))


@st.composite
def _true_history(draw: st.DrawFn) -> tuple[list[Event], dict[Key, str]]:
    """A history that an allocator could have: nothing is lost. And the blocks in use at its end."""
    events, state, now = [], dict[Key, tuple[str, int]](), 0
    for key in draw(st.lists(_keys, max_size=60)):
        now += draw(st.integers(0, 2))
        was, size = state.pop(key, ("free", 0))
        if was == "free":
            size = draw(st.integers(1, 5000))
            events.append(Event("alloc", key, now, size))
            state[key] = ("active_allocated", size)
        elif was == "active_allocated":
            events.append(Event("free_requested", key, now, size))
            state[key] = ("active_pending_free", size)
        else:
            events.append(Event("free", key, now, size))
    return events, {key: was for key, (was, _) in state.items()}


def _dump_rows(dumped: dict[Key, str], devices: set[tuple[int, int]]) -> dict[str, list[dict[str, Any]]]:
    blocks = [
        {
            "file_id": 0, "source": "torch", "dump_index": 0, "process_id": p, "device_index": d, "address": a,
            "allocated_bytes": 512, "requested_bytes": 500, "block_state": state,
        }
        for (p, d, a), state in dumped.items()
    ]  # fmt: skip
    segments = [
        {
            "file_id": 0, "source": "torch", "dump_index": 0, "clock_aligned": True, "process_id": p, "device_index": d,
            "address": 0, "total_bytes": 1 << 20,
        }
        for p, d in devices
    ]  # fmt: skip
    return {"blocks": blocks, "segments": segments}


@EXAMPLES
@given(history=_true_history())
def test_a_whole_history_is_replayed_as_it_was(database: Database, history: tuple[list[Event], dict[Key, str]]) -> None:
    events, dumped = history
    devices = {event.key[:2] for event in events}
    replay(database, "tensor_lives", memory_events=event_rows(events, "tensor"), **_dump_rows(dumped, devices))
    rows = _tensor_rows(database)
    assert rows == _tensor_model(events, dumped, devices)
    assert not any(life.is_inferred or life.is_before_window for _, life in rows)
    assert {key for key, life in rows if life.free_ns is None} == set(dumped)
    differences = database.rows("SELECT count(*) FROM tensor_lives WHERE difference LIKE '%event%block%'")
    assert differences == [(0,)]


@EXAMPLES
@given(history=_true_history(), data=st.data())
def test_lost_events_and_a_ring_buffer_that_forgot_its_start(
    database: Database, history: tuple[list[Event], dict[Key, str]], data: st.DataObject
) -> None:
    events, dumped = history
    start = data.draw(st.integers(0, len(events)))
    lost = data.draw(st.sets(st.integers(0, max(0, len(events) - 1)), max_size=10))
    kept = [event for i, event in enumerate(events) if i >= start and i not in lost]
    devices = {event.key[:2] for event in events} - data.draw(st.sets(st.tuples(st.integers(1, 2), st.integers(0, 1))))
    seen = {key: state for key, state in dumped.items() if key[:2] in devices}
    replay(database, "tensor_lives", memory_events=event_rows(kept, "tensor"), **_dump_rows(seen, devices))
    rows = _tensor_rows(database)
    assert rows == _tensor_model(kept, seen, devices)
    live = {key for key, life in rows if life.free_ns is None}
    assert {key for key in live if key[:2] in devices} == set(seen), "the dump decides what lives"


@EXAMPLES
@given(
    events=st.lists(
        st.builds(Event, st.sampled_from(["alloc", "free_requested", "free"]), _keys, st.just(0), st.integers(1, 9999)),
        max_size=50,
    ),
    dumped=st.none() | st.dictionaries(_keys, st.sampled_from(["active_allocated", "active_pending_free"])),
)
def test_any_order_of_events_has_one_reading(
    database: Database, events: list[Event], dumped: dict[Key, str] | None
) -> None:
    timed = [replace(event, ts_ns=1000 + i) for i, event in enumerate(events)]
    blocks = dumped or {}
    devices = {key[:2] for key in blocks} | ({e.key[:2] for e in timed} if dumped is not None else set())
    replay(database, "tensor_lives", memory_events=event_rows(timed, "tensor"), **_dump_rows(blocks, devices))
    rows = _tensor_rows(database)
    assert rows == _tensor_model(timed, blocks, devices)
    # Conservation, whatever was lost: allocations less frees are what lives, for each device.
    told = database.rows(
        "SELECT process_id, device_index, sum(allocated_bytes), coalesce(sum(allocated_bytes) FILTER"
        " (free_ts_ns IS NOT NULL), 0), coalesce(sum(allocated_bytes) FILTER (free_ts_ns IS NULL), 0)"
        " FROM tensor_lives GROUP BY ALL"
    )
    for process, device, allocated, freed, live in told:
        assert allocated - freed == live
        if (process, device) in devices:
            assert live == 512 * sum(key[:2] == (process, device) for key in blocks)
    overlapping = database.rows(
        "SELECT count(*) FROM (SELECT free_ts_ns, lead(alloc_ts_ns) OVER address_lives AS next_ns FROM tensor_lives"
        " WINDOW address_lives AS (PARTITION BY process_id, device_index, address ORDER BY generation))"
        " WHERE next_ns < free_ts_ns"
    )
    assert overlapping == [(0,)], "two lives of one address at once"
