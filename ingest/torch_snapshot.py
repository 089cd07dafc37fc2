"""PyTorch CUDA memory snapshots: `torch.cuda.memory._dump_snapshot` and `_snapshot()` pickles.

Layouts: https://github.com/pytorch/pytorch/blob/main/torch/cuda/memory.py (`_snapshot`) and
https://github.com/pytorch/pytorch/blob/main/torch/csrc/cuda/Module.cpp (`memorySnapshot`); up to 2.0 blocks
carried a `history` list and no address, and events no `time_us`. Times are CLOCK_REALTIME in µs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import BadInput
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.torch_frames import FrameLists
from ingest.torch_state import write_state
from ingest.torch_unpickle import load_plain, paused_gc
from ingest.torch_values import (
    ADDRESS,
    BYTES,
    DEVICE,
    TIME_US,
    column,
    integers,
    is_integer,
    short_text,
    texts,
)

CHUNK_EVENTS = 128 * 1024

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


# Protocols 0 and 1 have no mark of their own: a dict or list that is put into the memo, or a call by name.
_OLD_PROTOCOLS = re.compile(rb"\(?[dl]p\d+\n|[}\]]q\x00|\(?[ci][A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n[(}\])q.p\x80-\xff]")


def sniff(head: bytes, path: Path) -> bool:
    """Any pickle: what is no snapshot, or asks for code, is refused by name in `read`."""
    if head[:1] == b"\x80" and len(head) > 1 and head[1] <= 5:
        return True
    return _OLD_PROTOCOLS.match(head) is not None


def _kinds(sink: Sink, events: list[dict[str, Any]]) -> tuple[pa.Array, pa.Array]:
    """Level and action of events, unknown ones counted."""
    names = column(events, "action")
    if set(map(type, names)) != {str}:
        names = [name if isinstance(name, str) else "?" for name in names]
    if set(names) - _ACTIONS.keys():
        unknown = [name for name in names if name not in _ACTIONS]
        sink.count("unknown_action", len(unknown), detail=short_text(unknown[0], 80))
        names = [name if name in _ACTIONS else "?" for name in names]
    coded = pa.array(names, type=pa.string()).dictionary_encode()
    words = coded.dictionary.to_pylist()
    meanings = [_ACTIONS.get(name, _OTHER) for name in words]
    levels, actions = (pa.array([meaning[part] for meaning in meanings], type=pa.string()) for part in (0, 1))
    return levels.take(coded.indices), actions.take(coded.indices)


def _whole(sink: Sink, events: list[Any]) -> list[dict[str, Any]]:
    if set(map(type, events)) == {dict}:
        return events
    whole = [event for event in events if isinstance(event, dict)]
    sink.count("event_not_a_dict", len(events) - len(whole), severity="data_loss")
    return whole


def _trace_events(sink: Sink, trace: list[Any], device: int, first: int, paths: FrameLists) -> int | None:
    """Write one device's trace, dropping it from memory on the way; returns its last time in ns."""
    last: int | None = None
    for start in range(0, len(trace), CHUNK_EVENTS):
        events = trace[start : start + CHUNK_EVENTS]
        trace[start : start + CHUNK_EVENTS] = [None] * len(events)
        whole = _whole(sink, events)
        if not whole:
            continue
        levels, actions = _kinds(sink, whole)
        time_us = integers(sink, column(whole, "time_us"), TIME_US)
        times = pc.multiply(time_us, 1000)
        if times.null_count < len(times):
            last = max(last or 0, pc.max(times).as_py())
        columns = {
            "event_index": np.arange(first + start, first + start + len(whole)),
            "level": levels,
            "action": actions,
            "ts_ns": times,
            "address": integers(sink, column(whole, "addr"), ADDRESS, pa.uint64()),
            "size_bytes": integers(sink, column(whole, "size"), BYTES),
            "stream_id": integers(sink, column(whole, "stream")),
            "call_path_id": pa.array(paths.column(column(whole, "frames")), type=pa.int64()),
            "user_metadata": texts(column(whole, "user_metadata")),
            "compile_context": texts(column(whole, "compile_context"), "N/A"),
        }
        if pc.any(pc.equal(actions, "oom")).as_py():
            columns["device_free_bytes"] = integers(sink, column(whole, "device_free"), BYTES)
        sink.write("memory_events", columns, device_index=device, memory_kind="device")
    return last


def _annotations(sink: Sink, annotations: Any) -> None:
    """Write record_function annotations as ranges: START and END of one name on one device pair last-in first-out."""
    if not isinstance(annotations, list):
        sink.count("annotations_not_a_list", severity="data_loss")
        return
    open_ranges: dict[tuple[int | None, str], list[int]] = {}
    rows: list[tuple[str, int | None, int, int | None]] = []
    for note in annotations:
        time_us = note.get("time_us") if isinstance(note, dict) else None
        if not is_integer(time_us, TIME_US):
            sink.count("annotation_damaged", severity="data_loss")
            continue
        name, now = short_text(note.get("name")), time_us * 1000
        device = note.get("device") if is_integer(note.get("device"), DEVICE) else None
        opened = open_ranges.setdefault((device, name), [])
        if note.get("stage") == "START":
            opened.append(len(rows))
            rows.append((name, device, now, None))
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
                "name": [short_text(name, 200) for name in settings],
                "setting": [short_text(value) for value in settings.values()],
            },
        )


def read(path: Path, sink: Sink) -> None:
    """Read a snapshot into memory_events, segments, blocks, ranges and allocator_settings.

    Raises UnsafeInput when the pickle asks for code and BadInput when it can't be read or is no snapshot.
    """
    snapshot = load_plain(path)
    if isinstance(snapshot, list) and all(isinstance(item, dict) and "blocks" in item for item in snapshot):
        snapshot = {"segments": snapshot}  # torch.cuda.memory_snapshot() pickled: segments alone
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
    paths = FrameLists(sink)
    first, last = 0, None
    seen = set[int]()
    with paused_gc():
        for device, trace in enumerate(traces):
            if not isinstance(trace, list):
                sink.count("trace_not_a_list", severity="data_loss")
                continue
            if trace and id(trace) in seen:
                sink.count("trace_repeated", severity="data_loss")
                continue
            seen.add(id(trace))
            ended = _trace_events(sink, trace, device, first, paths)
            last = max((t for t in (last, ended) if t is not None), default=None)
            first += len(trace)
        write_state(sink, segments, paths, last)
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
    recipe="leakpath collect torch -- python app.py",
    left_out="nothing of the known layouts; unknown keys are counted",
    reference="https://pytorch.org/docs/stable/torch_cuda_memory.html",
    tables=("memory_events", "segments", "blocks", "ranges", "allocator_settings", "frames", "call_paths"),
    sniff=sniff,
    read=read,
)
