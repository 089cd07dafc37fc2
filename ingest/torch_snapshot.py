"""PyTorch CUDA memory snapshots: `torch.cuda.memory._dump_snapshot` and `_snapshot()` pickles.

Layouts: https://github.com/pytorch/pytorch/blob/main/torch/cuda/memory.py (`_snapshot`) and
https://github.com/pytorch/pytorch/blob/main/torch/csrc/cuda/Module.cpp (`memorySnapshot`); up to 2.0 blocks
carried a `history` list and no address, and events no `time_us`. Times are CLOCK_REALTIME in µs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from operator import itemgetter
from pathlib import Path
from reprlib import Repr
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.callpaths import Frame, clean_text
from ingest.errors import BadInput
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.torch_unpickle import load_plain, paused_gc

CHUNK_EVENTS = 128 * 1024
_INT64 = (-(2**63), 2**63 - 1)
_UINT64 = (0, 2**64 - 1)

_ACTIONS = {
    "alloc": ("tensor", "alloc"),
    "free_requested": ("tensor", "free_requested"),
    "free_completed": ("tensor", "free"),
    "segment_alloc": ("segment", "alloc"),
    "segment_free": ("segment", "free"),
    "segment_map": ("segment", "map"),
    "segment_unmap": ("segment", "unmap"),
    "oom": ("tensor", "oom"),
    "snapshot": ("tensor", "snapshot"),
}
_OTHER = ("tensor", "other")
_STATES = ("active_allocated", "active_pending_free", "inactive")


def sniff(head: bytes, path: Path) -> bool:
    """Any pickle: what is no snapshot, or asks for code, is refused by name in `read`."""
    if head[:1] == b"\x80" and len(head) > 1 and head[1] <= 5:
        return True
    return re.match(rb"(c[\w.]+\n[\w.]+\n|\(?[dl]p\d+\n|\((i[\w.]+\n|dp\d))", head) is not None


def _is_flat(frames: list[Any]) -> bool:
    """Whether frames are dicts of plain values: comparing anything with them then takes bounded time."""
    plain = (str, int, type(None))
    return all(type(frame) is dict and all(isinstance(value, plain) for value in frame.values()) for frame in frames)


class _CallPathCache:
    """Call path numbers of frame lists.

    PyTorch pickles a list an event, and shares the frame dicts. A few frames' identities pick candidates, and list
    comparison, which stops at identical items, decides.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._known: dict[tuple[int, ...], list[tuple[list[Any], int | None]]] = {}

    def of(self, frames: Any) -> int | None:
        """Call path of one frame list, None without frames."""
        return self.column([frames])[0]

    def column(self, values: Sequence[Any]) -> list[int | None]:
        """Call paths of many frame lists; neighbours often share one list (free_requested and free_completed)."""
        known, found = self._known, []
        last, number = None, None
        for frames in values:
            if frames is not last:
                last, number = frames, None
                if isinstance(frames, list) and frames:
                    n = len(frames)
                    key = (
                        n,
                        id(frames[0]),
                        id(frames[n // 4]),
                        id(frames[n // 2]),
                        id(frames[-(n // 4) - 1]),
                        id(frames[-1]),
                    )
                    for other, known_number in known.get(key, ()):
                        if frames == other:
                            number = known_number
                            break
                    else:
                        number = self._sink.call_paths.call_path(self._frames(frames))
                        if _is_flat(frames):
                            known.setdefault(key, []).append((frames, number))
                elif frames:
                    self._sink.count("frames_not_a_list", severity="data_loss")
            found.append(number)
        return found

    def _frames(self, frames: list[Any]) -> Iterator[Frame]:
        for frame in reversed(frames):
            if not isinstance(frame, dict):
                self._sink.count("frame_not_a_dict", severity="data_loss")
                continue
            line = frame.get("line")
            name, file = frame.get("name"), frame.get("filename")
            file = file if isinstance(file, str) else ""
            yield Frame(
                name if isinstance(name, str) and name else "??",
                file if file not in ("", "??") else None,
                line if isinstance(line, int) and 0 < line < 2**31 else None,
            )


def _column(events: Sequence[dict[str, Any]], key: str) -> list[Any]:
    try:
        return list(map(itemgetter(key), events))
    except KeyError:
        return [event.get(key) for event in events]


def _integers(sink: Sink, values: list[Any], kind: pa.DataType, limits: tuple[int, int]) -> pa.Array:
    """Arrow integers; what is no integer of that width becomes null and is counted."""
    try:
        return pa.array(values, type=kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError):
        low, high = limits
        good = [v if type(v) is int and low <= v <= high else None for v in values]
        sink.count(
            "value_not_an_integer",
            sum(g is None and v is not None for g, v in zip(good, values, strict=True)),
            severity="data_loss",
        )
        return pa.array(good, type=kind)


_bounded = Repr()
_bounded.maxlevel, _bounded.maxdict, _bounded.maxlist, _bounded.maxtuple = 3, 64, 64, 64
_bounded.maxstring = _bounded.maxother = _bounded.maxlong = 4000


def _short(value: Any) -> str:
    """Text of any value; nesting is cut, since a few bytes of pickle can nest lists that take forever to print."""
    return value if isinstance(value, str) else _bounded.repr(value)


def _texts(values: list[Any], absent: str = "") -> pa.Array | list[str | None]:
    if set(map(type, values)) <= {str, type(None)} and set(values) <= {None, absent}:
        return pa.nulls(len(values), pa.string())
    return [None if value is None or value == absent else clean_text(_short(value)) for value in values]


def _kinds(sink: Sink, events: list[dict[str, Any]]) -> tuple[pa.Array, pa.Array]:
    """Level and action of events, unknown ones counted."""
    names = _column(events, "action")
    if set(map(type, names)) != {str}:
        names = [name if isinstance(name, str) else "?" for name in names]
    coded = pa.array(names, type=pa.string()).dictionary_encode()
    words = coded.dictionary.to_pylist()
    for name in words:
        if name not in _ACTIONS:
            sink.count("unknown_action", names.count(name), detail=name[:80])
    meanings = [_ACTIONS.get(name, _OTHER) for name in words]
    levels, actions = (pa.array([meaning[part] for meaning in meanings], type=pa.string()) for part in (0, 1))
    return levels.take(coded.indices), actions.take(coded.indices)


def _whole(sink: Sink, events: list[Any]) -> list[dict[str, Any]]:
    if set(map(type, events)) == {dict}:
        return events
    whole = [event for event in events if isinstance(event, dict)]
    sink.count("event_not_a_dict", len(events) - len(whole), severity="data_loss")
    return whole


def _trace_events(sink: Sink, trace: list[Any], device: int, first: int, paths: _CallPathCache) -> int | None:
    """Write one device's trace, dropping it from memory on the way; returns its last time in ns."""
    last: int | None = None
    for start in range(0, len(trace), CHUNK_EVENTS):
        events = trace[start : start + CHUNK_EVENTS]
        trace[start : start + CHUNK_EVENTS] = [None] * len(events)
        whole = _whole(sink, events)
        if not whole:
            continue
        levels, actions = _kinds(sink, whole)
        time_us = _integers(sink, _column(whole, "time_us"), pa.int64(), (0, 2**63 // 1000 - 1))
        times = pc.multiply(time_us, 1000)
        if times.null_count < len(times):
            last = max(last or 0, pc.max(times).as_py())
        columns = {
            "event_index": np.arange(first + start, first + start + len(whole)),
            "level": levels,
            "action": actions,
            "ts_ns": times,
            "address": _integers(sink, _column(whole, "addr"), pa.uint64(), _UINT64),
            "size_bytes": _integers(sink, _column(whole, "size"), pa.int64(), _INT64),
            "stream_id": _integers(sink, _column(whole, "stream"), pa.int64(), _INT64),
            "call_path_id": pa.array(paths.column(_column(whole, "frames")), type=pa.int64()),
            "user_metadata": _texts(_column(whole, "user_metadata")),
            "compile_context": _texts(_column(whole, "compile_context"), "N/A"),
        }
        if pc.any(pc.equal(actions, "oom")).as_py():
            columns["device_free_bytes"] = _integers(sink, _column(whole, "device_free"), pa.int64(), _INT64)
        sink.write("memory_events", columns, device_index=device, memory_kind="device")
    return last


def _pool(segment: dict[str, Any]) -> str | None:
    pool = segment.get("segment_pool_id")
    if not isinstance(pool, tuple | list) or not all(type(part) is int for part in pool):
        return None
    return ",".join(map(str, pool))


def _blocks_of(segment: dict[str, Any], sink: Sink, paths: _CallPathCache) -> Iterator[dict[str, Any]]:
    """Rows of one segment's blocks; old layouts give no address: blocks tile the segment in order."""
    address = segment.get("address")
    offset = 0
    for block in segment.get("blocks") or ():
        if not isinstance(block, dict):
            sink.count("block_not_a_dict", severity="data_loss")
            continue
        size = block.get("size")
        history = block.get("history")
        newest = history[0] if isinstance(history, list) and history and isinstance(history[0], dict) else {}
        if isinstance(history, list) and len(history) > 1:
            sink.count("older_history_entries", len(history) - 1, detail="earlier users of a block, without times")
        state = block.get("state")
        if state == "active_awaiting_free":  # its name up to PyTorch 2.0
            state = "active_pending_free"
        if state not in _STATES:
            sink.count("unknown_block_state", severity="data_loss", detail=_short(state)[:80])
            state = "inactive"
        is_live = state != "inactive"
        placed = address + offset if isinstance(address, int) else None
        yield {
            "segment_address": address,
            "address": block.get("address", placed),
            "allocated_bytes": size,
            "requested_bytes": block.get("requested_size", newest.get("real_size")) if is_live else None,
            "block_state": state,
            "call_path_id": paths.of(block.get("frames", newest.get("frames"))) if is_live else None,
        }
        offset += size if isinstance(size, int) else 0


def _state(sink: Sink, segments: list[Any], paths: _CallPathCache, dumped_ns: int | None) -> None:
    """Write `segments` and `blocks`: the allocator at the dump."""
    segment_rows: list[dict[str, Any]] = []
    block_rows: list[dict[str, Any]] = []
    for segment in segments:
        if not isinstance(segment, dict):
            sink.count("segment_not_a_dict", severity="data_loss")
            continue
        shared = {
            "device_index": segment.get("device", 0),
            "stream_id": segment.get("stream"),
            "pool_id": _pool(segment),
        }
        kind = segment.get("segment_type")
        segment_rows.append(
            shared
            | {
                "ts_ns": dumped_ns,
                "address": segment.get("address"),
                "total_bytes": segment.get("total_size"),
                "allocated_bytes": segment.get("allocated_size"),
                "active_bytes": segment.get("active_size"),
                "requested_bytes": segment.get("requested_size"),
                "segment_type": kind if isinstance(kind, str) else None,
                "is_expandable": bool(segment.get("is_expandable", False)),
                "call_path_id": paths.of(segment.get("frames")),
            }
        )
        block_rows += [shared | row for row in _blocks_of(segment, sink, paths)]
    for table, rows in (("segments", segment_rows), ("blocks", block_rows)):
        if rows:
            sink.write(table, {name: _typed(sink, name, [row[name] for row in rows]) for name in rows[0]}, dump_index=0)


_WIDTHS: dict[str, tuple[pa.DataType, tuple[int, int]]] = {
    "address": (pa.uint64(), _UINT64),
    "segment_address": (pa.uint64(), _UINT64),
    "device_index": (pa.int32(), (0, 2**31 - 1)),
}


def _typed(sink: Sink, name: str, values: list[Any]) -> list[Any] | pa.Array:
    if name in ("segment_type", "pool_id", "is_expandable", "block_state"):
        return values
    return _integers(sink, values, *_WIDTHS.get(name, (pa.int64(), _INT64)))


def _annotations(sink: Sink, annotations: list[Any]) -> None:
    """Write record_function annotations as ranges: START and END of one name on one device pair last-in first-out."""
    open_ranges: dict[tuple[Any, str], list[int]] = {}
    rows: list[tuple[str, int | None, int, int | None]] = []
    for note in annotations:
        time_us = note.get("time_us") if isinstance(note, dict) else None
        if not isinstance(time_us, int) or not 0 <= time_us < 2**63 // 1000:
            sink.count("annotation_damaged", severity="data_loss")
            continue
        name, device, now = _short(note.get("name")), note.get("device"), time_us * 1000
        opened = open_ranges.setdefault((device, name), [])
        if note.get("stage") == "START":
            opened.append(len(rows))
            rows.append((name, device if isinstance(device, int) and 0 <= device < 2**31 else None, now, None))
        elif opened:
            row = opened.pop()
            rows[row] = (*rows[row][:3], now)
        else:
            sink.count("annotation_end_without_start", detail=name[:80])
    sink.count("annotation_without_end", sum(end is None for *_, end in rows))
    if rows:
        columns = zip(*rows, strict=True)
        sink.write(
            "ranges",
            {"event_index": list(range(len(rows)))}
            | dict(zip(("name", "device_index", "start_ns", "end_ns"), map(list, columns), strict=True)),
            domain="torch",
        )


def _settings(sink: Sink, settings: Any) -> None:
    if isinstance(settings, dict) and settings:
        sink.write(
            "allocator_settings",
            {
                "name": [_short(name)[:200] for name in settings],
                "setting": [_short(value)[:2000] for value in settings.values()],
            },
        )


def read(path: Path, sink: Sink) -> None:
    """Read a snapshot into memory_events, segments, blocks, ranges and allocator_settings.

    Raises UnsafeInput when the pickle asks for code and BadInput when it can't be read or is no snapshot.
    """
    snapshot = load_plain(path)
    if isinstance(snapshot, list):  # torch.cuda.memory_snapshot() pickled: segments alone
        snapshot = {"segments": snapshot}
    if not isinstance(snapshot, dict) or not ({"segments", "device_traces"} & set(snapshot)):
        raise BadInput(
            "a pickle, but not a PyTorch memory snapshot",
            where=str(path),
            todo="expected a dict with `segments` and `device_traces`",
        )
    traces = snapshot.get("device_traces") or []
    segments = snapshot.get("segments") or []
    if not isinstance(traces, list) or not isinstance(segments, list):
        raise BadInput("`segments` or `device_traces` is not a list", where=str(path), todo="take the snapshot again")
    paths = _CallPathCache(sink)
    first, last = 0, None
    with paused_gc():
        for device, trace in zip(count(), traces, strict=False):
            if not isinstance(trace, list):
                sink.count("trace_not_a_list", severity="data_loss")
                continue
            ended = _trace_events(sink, trace, device, first, paths)
            last = max((t for t in (last, ended) if t is not None), default=None)
            first += len(trace)
        _state(sink, segments, paths, last)
    if not first:
        sink.count(
            "no_memory_history",
            detail="the snapshot holds the allocator's state but no events; "
            "call torch.cuda.memory._record_memory_history() before the workload",
        )
    elif last is None:
        sink.count(
            "events_without_time", first, detail="no time_us (PyTorch 2.0 or older): order is known, time is not"
        )
        sink.clock = "unknown"
    _annotations(sink, snapshot.get("external_annotations") or [])
    _settings(sink, snapshot.get("allocator_settings"))


IMPORTER = Importer(
    name="torch_snapshot",
    priority=10,
    title="PyTorch CUDA memory snapshot",
    source="torch",
    clock="realtime",
    versions="PyTorch 1.13 to 2.11 (history and trace layouts)",
    produced_by="torch.cuda.memory._record_memory_history() and _dump_snapshot(), or `leakpath collect torch`",
    reference="https://pytorch.org/docs/stable/torch_cuda_memory.html",
    tables=("memory_events", "segments", "blocks", "ranges", "allocator_settings", "frames", "call_paths"),
    sniff=sniff,
    read=read,
)
