"""Kineto (torch.profiler) traces, and the Chrome traces of other programs, by the same reader.

The writer: https://github.com/pytorch/kineto/blob/main/libkineto/src/output_json.cpp (events, header, base time) and
https://github.com/pytorch/pytorch/blob/main/torch/csrc/autograd/profiler_kineto.cpp (`args` of operators and of
`[memory]`). `ts` and `dur` are µs, since 2024 with thousandths and counted from `baseTimeNanoseconds`, which may stand
behind the events; before, from 1970. Events of a device have the device for their pid.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from ingest.chrome_events import BEGINS, ENDS, FLOWS, INSTANTS, ChromeEvents, attributes
from ingest.kineto_columns import Columns, Whole, arguments, pick, whole_number
from ingest.kineto_names import (
    ANNOTATIONS,
    API_CALLS,
    GPU_OPS,
    GPU_RANGES,
    MEMORY,
    OPERATORS,
    OUT_OF_MEMORY,
    OVERHEADS,
    PYTHON,
    SYNCS,
    WINDOWS,
)
from ingest.kineto_rows import Events, KinetoRows
from ingest.kineto_sniff import is_kineto, is_trace
from ingest.kineto_spool import system_memory
from ingest.kineto_stream import EventStream
from ingest.kineto_tables import DEVICE
from ingest.kineto_typed import FORMS, TypedBlock, as_objects, is_flow
from ingest.numbers import OLDEST_REALTIME_NS
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.torch_unpickle import paused_gc

MAX_BASE_NS = 2**62
NS_TIMES_FROM = 1e16
"""No µs are so many (the year 2286): a trace with such times counts ns."""


def sniff(head: bytes, path: Path) -> bool:
    """A trace with Kineto's keys or categories."""
    return is_trace(head) and is_kineto(head)


def _groups(events: Events, key: str) -> list[tuple[Any, Events]]:
    """Events by their value at `key`, in the order of first sight."""
    values = pick(events, key)
    first = values[0] if values else None
    if (first is None or isinstance(first, str)) and values.count(first) == len(values):
        return [(first, events)] if events else []
    groups: dict[Any, Events] = defaultdict(list)
    for value, event in zip(values, events, strict=True):
        groups[value if value is None or isinstance(value, str) else str(value)].append(event)
    return list(groups.items())


class _Reader:
    def __init__(self, sink: Sink, *, is_kineto: bool) -> None:
        self._sink, self._is_kineto = sink, is_kineto
        self._columns = Columns(sink)
        self._rows = KinetoRows(sink, self._columns, lowest_pid=int(is_kineto))
        self._chrome = ChromeEvents(sink, self._columns, self._rows)
        self._first_ns: int | None = None

    @property
    def takes_typed(self) -> bool:
        """Whether blocks decoded by type may come: once the first time told its unit, if that is µs."""
        return self._first_ns is not None and self._columns.ns_per_unit > 1

    def add_typed(self, block: TypedBlock) -> None:
        for of_type, events in block.groups():
            if (form := FORMS[of_type]) is not None:
                self._rows.take_typed(form, events)
            elif is_flow(of_type):
                self._flows(len(events))
            else:
                category, objects = as_objects(of_type, events)
                self._complete(category, objects)

    def _flows(self, count: int) -> None:
        self._sink.count("flow_events", count, detail="arrows between events: correlation ids say the same")

    def add(self, events: Events) -> None:
        if self._first_ns is None:
            self._find_unit(events)
        for category, of_category in _groups(events, "cat"):
            for phase, group in _groups(of_category, "ph"):
                self._route(phase, category, group)

    def _find_unit(self, events: Events) -> None:
        for event in events:
            value = event.get("ts")
            if event.get("ph") == "M" or not isinstance(value, int | float | str):
                continue
            try:
                first = float(value)
            except (ValueError, OverflowError):
                continue
            if 0 < first < 2.0**63:
                self._columns.ns_per_unit = 1 if first > NS_TIMES_FROM else 1000
                self._first_ns = int(first * self._columns.ns_per_unit)
                return

    def _route(self, phase: Any, category: Any, events: Events) -> None:
        rows, chrome = self._rows, self._chrome
        if phase == "X":
            self._complete(category, events)
        elif phase in FLOWS:
            self._flows(len(events))
        elif phase in INSTANTS:
            memory = [event for event in events if event.get("name") in (MEMORY, OUT_OF_MEMORY)]
            if memory:
                rows.take("memory", memory)
            if len(memory) < len(events):
                chrome.instants([event for event in events if event.get("name") not in (MEMORY, OUT_OF_MEMORY)])
        elif phase in BEGINS or phase in ENDS:
            chrome.pairs(events)
        elif phase == "C":
            chrome.counters(events)
        elif phase == "M":
            chrome.names(events)
        elif isinstance(phase, str) and len(phase) == 1:
            chrome.others[phase] += len(events)
        else:
            self._sink.count(
                "events_without_phase", len(events), severity="data_loss", detail=f"ph is {str(phase)[:40]}"
            )

    def _complete(self, category: Any, events: Events) -> None:
        """X events: a start and a duration."""
        rows = self._rows
        if category in PYTHON:
            rows.take("python", events)
        elif category in OPERATORS:
            rows.take("operator", events)
        elif category in GPU_OPS:
            rows.take("gpu", events, op=GPU_OPS[category])
        elif category in API_CALLS:
            rows.take("api", events, api=API_CALLS[category])
        elif category in SYNCS:
            rows.take("sync", events)
        elif category in OVERHEADS:
            rows.take("overhead", events)
        elif category in WINDOWS:
            self._sink.count("profiler_windows", len(events), detail="how long the profiler ran")
        else:
            kind = "gpu" if category in GPU_RANGES else "annotation" if self._is_kineto else "push_pop"
            domain = None if category in (*GPU_RANGES, *ANNOTATIONS) else category
            texts = [attributes(args) for args in arguments(events)]
            rows.annotations(kind, events, texts, domain)

    def finish(self, header: dict[str, Any], trailer: dict[str, Any]) -> None:
        keys = header | trailer
        base = whole_number(keys.get("baseTimeNanoseconds")) or 0
        is_absolute = (self._first_ns or 0) >= OLDEST_REALTIME_NS
        if is_absolute or not 0 < base < MAX_BASE_NS:
            base = 0
        self._sink.clock = "realtime" if base or is_absolute else "unknown"
        version = keys.get("schemaVersion")
        self._sink.format_version = str(version)[:40] if version is not None else None
        distributed = keys.get("distributedInfo")
        rank = whole_number(distributed.get("rank")) if isinstance(distributed, dict) else None
        self._sink.rank = rank if rank is not None and 0 <= rank < 2**31 else None
        host = keys.get("host_name", keys.get("hostname"))
        self._sink.host = host[:256] if isinstance(host, str) and host else None
        self._devices(keys.get("deviceProperties"))
        self._chrome.finish(base, is_kineto=self._is_kineto, rank=self._sink.rank, host=self._sink.host, trailer=keys)
        self._rows.finish(base)

    def _devices(self, properties: Any) -> None:
        devices = [each for each in properties if isinstance(each, dict)] if isinstance(properties, list) else []
        if not devices:
            return
        columns = self._columns
        versions = [(whole_number(d.get("computeMajor")), whole_number(d.get("computeMinor"))) for d in devices]
        self._sink.write(
            "devices",
            {
                "device_index": columns.integers([d.get("id") for d in devices], DEVICE),
                "name": columns.texts([d.get("name") for d in devices]),
                "total_bytes": columns.integers([d.get("totalGlobalMem") for d in devices], Whole("totalGlobalMem")),
                "compute_capability": [None if None in pair else f"{pair[0]}.{pair[1]}" for pair in versions],
                "multiprocessor_count": columns.integers([d.get("numSms") for d in devices], Whole("numSms")),
            },
        )


def read_trace(path: Path, sink: Sink, *, is_kineto: bool) -> None:
    """Read a trace into the tables of its events. Raises BadInput when there is no array of events in it."""
    stream, reader = EventStream(path, sink), _Reader(sink, is_kineto=is_kineto)
    with paused_gc(), system_memory():
        for events in stream:
            if isinstance(events, TypedBlock):
                reader.add_typed(events)
            else:
                reader.add(events)
            if reader.takes_typed:
                stream.take_typed()
        reader.finish(stream.header, stream.trailer)


def read(path: Path, sink: Sink) -> None:
    """Read a Kineto trace; damage is counted event by event. Raises BadInput when it holds no events."""
    read_trace(path, sink, is_kineto=True)


IMPORTER = Importer(
    name="kineto",
    priority=21,
    title="PyTorch profiler trace (Kineto)",
    source="kineto",
    clock="realtime",
    versions="schemaVersion 1 and the bare arrays before it, 2020 to 2026: NVIDIA, AMD, others and CPU alone",
    produced_by="torch.profiler, on-demand traces of dynolog",
    recipe="torch.profiler.profile(profile_memory=True, with_stack=True), then prof.export_chrome_trace(path)",
    left_out="shapes and inputs of operators, occupancy, flow arrows; Python calls beyond the stacks of what they did",
    reference="https://github.com/pytorch/kineto/blob/main/libkineto/src/output_json.cpp",
    tables=(
        "memory_events",
        "gpu_ops",
        "api_calls",
        "sync_events",
        "external_correlations",
        "ranges",
        "overheads",
        "metrics",
        "devices",
        "processes",
        "stack_samples",
        "frames",
        "call_paths",
    ),
    sniff=sniff,
    read=read,
)
