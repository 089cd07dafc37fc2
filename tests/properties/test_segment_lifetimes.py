"""Segments in SQL against a replay of every unit of a small address space on its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from pipeline.database import Database
from tests.properties.replays import EXAMPLES, Event, event_rows, replay

_UNITS = 12
_UNIT = 4096


@dataclass(frozen=True)
class Piece:
    """One life of one unit of address space."""

    place: tuple[int, int, int]
    alloc_ns: int | None
    free_ns: int | None
    is_before_window: bool
    is_inferred: bool


_ranges = st.tuples(st.integers(0, _UNITS - 1), st.integers(1, 6)).map(lambda r: (r[0], min(r[1], _UNITS - r[0])))
_steps = st.lists(
    st.tuples(st.sampled_from(["alloc", "map", "free", "unmap"]), st.integers(1, 2), st.integers(0, 1), _ranges),
    max_size=25,
)


def _segment_model(
    events: list[tuple[int, str, int, int, tuple[int, int]]],
    dumped: set[tuple[int, int, int]],
    devices: set[tuple[int, int]],
) -> Counter[Piece]:
    pieces: list[Piece] = []
    live: dict[tuple[int, int, int], Piece] = {}
    end_ns: dict[tuple[int, int], int] = {}
    for now, action, process, device, (start, length) in events:
        end_ns[process, device] = now
        for unit in range(start, start + length):
            place = (process, device, unit)
            known = live.pop(place, None)
            if action in ("alloc", "map"):
                if known:
                    pieces.append(replace(known, free_ns=now, is_inferred=True))
                live[place] = Piece(place, now, None, False, False)
            else:
                pieces.append(replace(known or Piece(place, None, None, True, False), free_ns=now))
    for place, piece in live.items():
        gone = place[:2] in devices and place not in dumped
        pieces.append(replace(piece, free_ns=end_ns[place[:2]], is_inferred=True) if gone else piece)
    pieces += [Piece(place, None, None, True, False) for place in dumped - set(live)]
    return Counter(pieces)


@EXAMPLES
@given(steps=_steps, data=st.data())
def test_expandable_segments_grow_and_shrink_in_any_way(
    database: Database, steps: list[tuple[str, int, int, tuple[int, int]]], data: st.DataObject
) -> None:
    events = [(100 + i, *step) for i, step in enumerate(steps)]
    rows = event_rows(
        [
            Event(action, (process, device, start * _UNIT), now, length * _UNIT)
            for now, action, process, device, (start, length) in events
        ],
        "segment",
    )
    held = data.draw(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 1), _ranges), max_size=4))
    segments, dumped = [], set[tuple[int, int, int]]()
    for process, device, (start, length) in held:
        units = {(process, device, unit) for unit in range(start, start + length)}
        if units & dumped:  # an allocator never holds two segments at one address
            continue
        dumped |= units
        segments.append(
            {
                "file_id": 0, "source": "torch", "dump_index": 0, "clock_aligned": True, "process_id": process,
                "device_index": device, "address": start * _UNIT, "total_bytes": length * _UNIT,
            }
        )  # fmt: skip
    replay(database, "segment_lives", memory_events=rows, segments=segments)
    lives = database.rows(
        "SELECT process_id, device_index, address, allocated_bytes, alloc_ts_ns, free_ts_ns, is_alloc_before_window,"
        " is_free_inferred FROM segment_lives"
    )
    found = Counter(
        Piece((process, device, unit), *rest)
        for process, device, address, size, *rest in lives
        for unit in range(address // _UNIT, (address + size) // _UNIT)
    )
    assert found == _segment_model(events, dumped, {place[:2] for place in dumped})
    assert sum(row[3] for row in lives if row[5] is None and row[:2] in {p[:2] for p in dumped}) == len(dumped) * _UNIT
    told = [row for row in lives if row[4] is not None and not row[7]]  # both ends known from events
    ends = {(*row[:2], *row[4:], row[2] + row[3]) for row in told}
    assert not [row for row in told if (*row[:2], *row[4:], row[2]) in ends], "pieces that end together are one row"
