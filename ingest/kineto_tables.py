"""Kineto's events as columns, and the columns as the rows of the raw tables, with times in ns from the trace's base.

`thread` stands for the columns of process and thread, which are filled in when the file has ended.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.kineto_columns import NO_TIME, Int64s, Whole
from ingest.kineto_names import CPU_DEVICE, OUT_OF_MEMORY, Copy, copy_of, sync_kind
from ingest.numbers import INT32_MAX, INT64_MAX, UINT64_MAX
from ingest.sink import Sink

Made = dict[str, Any]
"""Columns by name: Arrow arrays, numpy arrays of times and threads, lists of what needs a second look."""

UINT32_MAX = 2**32 - 1


def _id(key: str, high: int = INT64_MAX, kind: pa.DataType | None = None) -> Whole:
    return Whole(key, 0, high, kind or pa.int64(), True)


DEVICE = _id("device", INT32_MAX, pa.int32())
STREAM = _id("stream")
NUMBERS: dict[str, dict[str, Whole]] = {
    "gpu": {
        "device": DEVICE,
        "in_device": _id("inDevice", INT32_MAX, pa.int32()),
        "context": _id("context"),
        "in_context": _id("inContext"),
        "stream": STREAM,
        "correlation": _id("correlation"),
        "bytes": Whole("bytes"),
        "registers": _id("registers per thread", INT32_MAX, pa.int32()),
        "shared": Whole("shared memory"),
        "graph": _id("graph id"),
        "graph_node": _id("graph node id"),
    },
    "api": {
        "correlation": _id("correlation"),
        "external": _id("External id"),
        "older": _id("external id"),
        "code": Whole("Return_code", -INT64_MAX),
    },
    "sync": {
        "context": _id("context"),
        "stream": _id("stream", UINT32_MAX - 1),
        "correlation": _id("correlation"),
        "event": _id("wait_on_cuda_event_id", UINT32_MAX - 1),
    },
    "memory": {
        "address": Whole("Addr", 0, UINT64_MAX, pa.uint64()),
        "bytes": Whole("Bytes", -INT64_MAX),
        "type": Whole("Device Type"),
        "device": _id("Device Id", INT32_MAX, pa.int32()),
        "allocated": Whole("Total Allocated", -INT64_MAX),
        "reserved": Whole("Total Reserved", -INT64_MAX),
    },
    "operator": {
        "External id": _id("External id"),
        "Fwd thread id": _id("Fwd thread id"),
        "Sequence number": _id("Sequence number"),
    },
}
"""Kind of event → column → number in `args`."""
OTHERS: dict[str, tuple[str, ...]] = {
    "gpu": ("grid", "block"),
    "sync": ("cuda_sync_kind",),
    "operator": ("Call stack",),
}
"""Kind of event → keys of `args` that are taken as they are."""


def arrow_times(times: Int64s) -> pa.Array:
    """Times with nulls where there is none."""
    return pa.array(times, mask=times == NO_TIME)


def _size(value: Any) -> str | None:
    """`x,y,z` of a grid or block."""
    if isinstance(value, list) and len(value) == 3 and all(type(number) is int for number in value):
        return f"{value[0]},{value[1]},{value[2]}"
    return value[:64] if isinstance(value, str) else None


def _sizes(values: list[Any]) -> pa.Array:
    try:
        lists = pa.array(values, pa.list_(pa.int32()))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array(list(map(_size, values)), pa.string())
    return pc.binary_join(lists.cast(pa.list_(pa.string())), ",")


class KinetoTables:
    """Makes the tables of one file and counts in its sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def span(self, made: Made) -> tuple[Int64s, Int64s]:
        """Starts and ends, NO_TIME where not known."""
        starts, lengths = made["ts"], made["dur"]
        missing = lengths < 0  # NO_TIME, too
        if not missing.any() and not (starts == NO_TIME).any():
            return starts, starts + lengths
        self._sink.count("events_without_duration", int(missing.sum()))
        return starts, np.where(missing | (starts == NO_TIME), NO_TIME, starts + np.where(missing, 0, lengths))

    def gpu_ops(self, made: Made) -> pa.Table:
        """Rows of `gpu_ops`; needs `op` and `pid`, too."""
        starts, ends = self.span(made)
        copies: list[Copy] = []
        if made["op"].count("kernel") < len(starts):
            keys = list(zip(made["op"], made["name"].to_pylist(), strict=True))
            known = {key: copy_of(*key) if key[1] else Copy() for key in set(keys)}
            copies = [known[key] for key in keys]
        return pa.table(
            {
                "op": pa.array(made["op"], pa.string()),
                "name": made["name"],
                "start_ns": arrow_times(starts),
                "end_ns": arrow_times(ends),
                "device_index": pc.coalesce(made["device"], made["in_device"], made["pid"]),
                "context_id": pc.coalesce(made["context"], made["in_context"]),
                "stream_id": made["stream"],
                "correlation_id": made["correlation"],
                "size_bytes": made["bytes"],
                "grid": _sizes(made["grid"]),
                "block": _sizes(made["block"]),
                "registers_per_thread": made["registers"],
                "shared_bytes": made["shared"],
                "graph_id": made["graph"],
                "graph_node_id": made["graph_node"],
            }
            | {
                name: pa.array([copy[i] for copy in copies], pa.string())
                if copies
                else pa.nulls(len(starts), pa.string())
                for i, name in enumerate(Copy._fields)
            }
        )

    def api_calls(self, made: Made) -> tuple[pa.Table, pa.Table]:
        """Rows of `api_calls` and of `external_correlations`; needs `api`, too."""
        starts, ends = self.span(made)
        calls = pa.table(
            {
                "api": pa.array(made["api"], pa.string()),
                "name": made["name"],
                "start_ns": arrow_times(starts),
                "end_ns": arrow_times(ends),
                "thread": made["thread"],
                "correlation_id": made["correlation"],
                "return_code": made["code"],
            }
        )
        external = pc.coalesce(made["external"], made["older"])
        links = pa.table({"thread": made["thread"], "correlation_id": made["correlation"], "external_id": external})
        is_link = pc.and_(pc.is_valid(made["correlation"]), pc.fill_null(pc.greater(external, 0), False))
        return calls, links.filter(is_link)

    def sync_events(self, made: Made) -> pa.Table:
        """Rows of `sync_events`."""
        starts, ends = self.span(made)
        names = made["name"].to_pylist()
        words = [
            sync_kind(word if isinstance(word, str) else name or "")
            for word, name in zip(made["cuda_sync_kind"], names, strict=True)
        ]
        return pa.table(
            {
                "sync_kind": pa.array(words, pa.string()),
                "start_ns": arrow_times(starts),
                "end_ns": arrow_times(ends),
                "context_id": made["context"],
                "stream_id": made["stream"],
                "event_id": made["event"],
                "correlation_id": made["correlation"],
            }
        )

    def operator_texts(self, made: Made) -> pa.Array:
        """`attributes` of operators: their number, and what ties a backward operator to its forward one."""
        parts = []
        for key in NUMBERS["operator"]:
            text = pc.binary_join_element_wise(f',"{key}":', made[key].cast(pa.string()), "")
            parts.append(pc.fill_null(pc.if_else(pc.not_equal(made[key], 0), text, ""), ""))
        text = pc.binary_join_element_wise(*parts, "")
        whole = pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(text, 1), "}", "")
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), whole)

    def overheads(self, made: Made) -> pa.Table:
        """Rows of `overheads`: `Buffer Flush` becomes buffer_flush."""
        starts, ends = self.span(made)
        kinds = [(name or "unknown").strip().lower().replace(" ", "_") for name in made["name"].to_pylist()]
        spans = {"start_ns": arrow_times(starts), "end_ns": arrow_times(ends)}
        return pa.table({"overhead_kind": pa.array(kinds, pa.string())} | spans)

    def memory_events(self, made: Made) -> pa.Table:
        """Rows of `memory_events`. Bytes below 0 are given back."""
        sizes, addresses = made["bytes"], made["address"]
        is_host = pc.fill_null(pc.equal(made["type"], CPU_DEVICE), False)
        is_oom = pc.fill_null(pc.equal(made["name"], OUT_OF_MEMORY), False)
        is_freed = pc.fill_null(pc.less(sizes, 0), False)
        actions = pc.case_when(
            pc.make_struct(is_oom, pc.is_null(sizes), is_freed), *map(pa.scalar, ("oom", "other", "free", "alloc"))
        )
        unplaced = pc.sum(pc.and_(pc.is_null(addresses), pc.invert(is_oom))).as_py() or 0
        self._sink.count("memory_without_address", unplaced, detail="sizes alone: no lifetimes")
        return pa.table(
            {
                "level": pc.if_else(is_host, "host", "tensor"),
                "action": actions,
                "ts_ns": arrow_times(made["ts"]),
                "thread": made["thread"],
                "device_index": pc.if_else(is_host, pa.scalar(None, pa.int32()), made["device"]),
                "address": addresses,
                "size_bytes": pc.abs(sizes),
                "memory_kind": pc.if_else(is_host, "heap", "device"),
                "total_allocated_bytes": made["allocated"],
                "total_reserved_bytes": made["reserved"],
            }
        )
