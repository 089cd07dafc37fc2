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
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.callpaths import Frame
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


class _CallPathCache:
    """Call path numbers of frame lists. PyTorch shares the frame dicts, so their identities are the key."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._known: dict[tuple[int, ...], tuple[int | None, Any]] = {}
        self._last: tuple[Any, int | None] = (None, None)

    def of(self, frames: Any) -> int | None:
        if frames is self._last[0]:
            return self._last[1]
        if not isinstance(frames, list):
            self._sink.count("frames_not_a_list", severity="data_loss") if frames else None
            return None
        key = tuple(map(id, frames))
        found = self._known.get(key)
        if found is None:
            number = self._sink.call_paths.call_path(self._frames(frames))
            found = self._known[key] = (number, frames)  # holding `frames` keeps the identities valid
        self._last = (frames, found[0])
        return found[0]

    def _frames(self, frames: list[Any]) -> Iterator[Frame]:
        for frame in reversed(frames):
            if not isinstance(frame, dict):
                self._sink.count("frame_not_a_dict", severity="data_loss")
                continue
            line = frame.get("line")
            file = str(frame.get("filename") or "")
            yield Frame(
                str(frame.get("name") or "??"),
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


def _texts(values: list[Any], absent: str = "") -> list[str | None]:
    return [None if value is None or value == absent else str(value)[:4096] for value in values]


def _trace_events(sink: Sink, trace: list[Any], device: int, first: int, paths: _CallPathCache) -> int | None:
    """Write one device's trace, dropping it from memory on the way; returns its last time in ns."""
    last: int | None = None
    for start in range(0, len(trace), CHUNK_EVENTS):
        events = trace[start : start + CHUNK_EVENTS]
        trace[start : start + CHUNK_EVENTS] = [None] * len(events)
        whole = [event for event in events if isinstance(event, dict)]
        sink.count("event_not_a_dict", len(events) - len(whole), severity="data_loss")
        if not whole:
            continue
        names = [name if isinstance(name, str) else "?" for name in _column(whole, "action")]
        known = [_ACTIONS.get(name, _OTHER) for name in names]
        for name in {name for name in names if name not in _ACTIONS}:
            sink.count("unknown_action", names.count(name), detail=name[:80])
        time_us = _integers(sink, _column(whole, "time_us"), pa.int64(), (0, 2**63 // 1000 - 1))
        times = pc.multiply(time_us, 1000)
        if times.null_count < len(times):
            last = max(last or 0, pc.max(times).as_py())
        sink.write(
            "memory_events",
            {
                "event_index": pa.array(range(first + start, first + start + len(whole)), type=pa.int64()),
                "level": [level for level, _ in known],
                "action": [action for _, action in known],
                "ts_ns": times,
                "address": _integers(sink, _column(whole, "addr"), pa.uint64(), _UINT64),
                "size_bytes": _integers(sink, _column(whole, "size"), pa.int64(), _INT64),
                "stream_id": _integers(sink, _column(whole, "stream"), pa.int64(), _INT64),
                "device_free_bytes": _integers(sink, _column(whole, "device_free"), pa.int64(), _INT64),
                "call_path_id": pa.array([paths.of(frames) for frames in _column(whole, "frames")], type=pa.int64()),
                "user_metadata": _texts(_column(whole, "user_metadata")),
                "compile_context": _texts(_column(whole, "compile_context"), "N/A"),
            },
            device_index=device,
            memory_kind="device",
        )
    return last


def _pool(segment: dict[str, Any]) -> str | None:
    pool = segment.get("segment_pool_id")
    return ",".join(str(part) for part in pool) if isinstance(pool, tuple | list) else None


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
            sink.count("unknown_block_state", severity="data_loss", detail=str(state)[:80])
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
        name, device, now = str(note.get("name")), note.get("device"), time_us * 1000
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
                "name": [str(name)[:200] for name in settings],
                "setting": [str(value)[:2000] for value in settings.values()],
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
