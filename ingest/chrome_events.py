"""Events of the Trace Event Format that any program writes: pairs, instants, counters, names of processes, samples."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson

from ingest.callpaths import Frame, clean_text
from ingest.chrome_pairs import Half, Pairs
from ingest.kineto_columns import NO_TIME, Columns, arguments, pick, whole_number
from ingest.kineto_rows import Events, KinetoRows
from ingest.rowbatch import RowBatch
from ingest.sink import Sink

MAX_ATTRIBUTES = 2000
MAX_PROCESSES = 10_000
MAX_STACK = 1000

BEGINS, ENDS = ("B", "b", "S"), ("E", "e", "F")
INSTANTS = ("i", "I", "R", "n")
FLOWS = ("s", "t", "f")


def attributes(args: dict[str, Any]) -> str | None:
    """`args` as JSON text with sorted keys; None when there are none, they are too long, or they are no JSON."""
    if not args:
        return None
    try:
        text = orjson.dumps(args, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, orjson.JSONEncodeError):
        return None
    return text if len(text) <= MAX_ATTRIBUTES else None


def _text(value: Any, limit: int = 256) -> str | None:
    return None if value is None or value == "" else clean_text(value if isinstance(value, str) else str(value), limit)


class ChromeEvents:
    """Takes such events of one file. `times_are_late` holds what waits for the base of times: counters and samples."""

    def __init__(self, sink: Sink, columns: Columns, rows: KinetoRows) -> None:
        self._sink, self._columns, self._rows = sink, columns, rows
        self._lists: dict[str, dict[str, list[Any]]] = {}
        self._pairs = Pairs(sink, self._emit)
        self._order = 0
        self._counters: list[tuple[str, str | None, int, float, int | None]] = []
        self._names: dict[int, dict[str, str]] = {}
        self.metrics = RowBatch(sink, "metrics", ("metric", "labels", "ts_ns", "value", "process_id"))
        self.others: Counter[str] = Counter()

    def pairs(self, events: Events) -> None:
        """B and E, b and e events."""
        threads = self._rows.threads.numbers(pick(events, "pid"), pick(events, "tid")).tolist()
        times = self._columns.times(pick(events, "ts"), "ts").tolist()
        halves = []
        for event, thread, ts_ns, args in zip(events, threads, times, arguments(events), strict=True):
            self._order += 1
            phase, domain = str(event.get("ph")), _text(event.get("cat"))
            if ts_ns == NO_TIME:
                self._sink.count("events_without_time", severity="data_loss")
                continue
            is_async = phase not in "BE"
            key = ("async", domain, str(event.get("id", event.get("id2")))) if is_async else ("thread", thread)
            is_begin = phase in BEGINS
            text = attributes(args) if is_begin else None
            halves.append(Half(key, ts_ns, self._order, is_begin, _text(event.get("name")), thread, domain, text))
        self._pairs.add(halves)

    def _emit(self, begin: Half, end_ns: int) -> None:
        kind = "start_end" if isinstance(begin.key, tuple) and begin.key[0] == "async" else "push_pop"
        self._add(kind, begin.name or "", begin.ts_ns, end_ns, begin.thread, begin.domain, begin.text)

    def _add(
        self, kind: str, name: str, ts_ns: int, end_ns: int, thread: int, domain: str | None, text: str | None
    ) -> None:
        lists = self._lists.setdefault(kind, {})
        row = (name, ts_ns, end_ns, thread, domain, text)
        for column, value in zip(("name", "ts_ns", "end_ns", "thread", "domain", "text"), row, strict=True):
            lists.setdefault(column, []).append(value)
        if len(lists["name"]) >= 16 * 1024:
            self._rows.ranges(kind, self._lists.pop(kind))

    def instants(self, events: Events) -> None:
        threads = self._rows.threads.numbers(pick(events, "pid"), pick(events, "tid")).tolist()
        times = self._columns.times(pick(events, "ts"), "ts").tolist()
        for event, thread, ts_ns, args in zip(events, threads, times, arguments(events), strict=True):
            if ts_ns == NO_TIME:
                self._sink.count("events_without_time", severity="data_loss")
            else:
                name = _text(event.get("name"), 4096) or ""
                self._add("mark", name, ts_ns, ts_ns, thread, _text(event.get("cat")), attributes(args))

    def counters(self, events: Events) -> None:
        """C events: a series for each number in `args`."""
        times = self._columns.times(pick(events, "ts"), "ts").tolist()
        for event, ts_ns, args in zip(events, times, arguments(events), strict=True):
            name = _text(event.get("name")) or "counter"
            process = whole_number(event.get("pid"))
            for key, value in args.items():
                if isinstance(value, int | float) and not isinstance(value, bool) and ts_ns != NO_TIME:
                    series: dict[str, str] = {} if key in ("", "value", name) else {"series": clean_text(key, 256)}
                    if not isinstance(event.get("pid"), int) and event.get("pid"):
                        series["track"] = _text(event["pid"]) or ""
                    labels = orjson.dumps(series, option=orjson.OPT_SORT_KEYS).decode() if series else None
                    self._counters.append((name, labels, ts_ns, float(value), process))
                else:
                    self._sink.count("counter_values_left_out", detail=f"{name}: {key[:40]}")

    def names(self, events: Events) -> None:
        """M events: names of processes; all others are counted."""
        for event, args in zip(events, arguments(events), strict=True):
            process = whole_number(event.get("pid"))
            name = event.get("name")
            if process is not None and 0 <= process < 2**63 and name in ("process_name", "process_labels"):
                if len(self._names) < MAX_PROCESSES or process in self._names:
                    value = args.get("name" if name == "process_name" else "labels")
                    self._names.setdefault(process, {})[name] = _text(value) or ""
            else:
                self.others["M"] += 1

    def finish(
        self, base_ns: int, *, is_kineto: bool, rank: int | None, host: str | None, trailer: dict[str, Any]
    ) -> None:
        """Write what waited for the end; before `KinetoRows.finish`, which writes the ranges."""
        self._pairs.finish()
        for kind, lists in self._lists.items():
            self._rows.ranges(kind, lists)
        for metric, labels, ts_ns, value, process in self._counters:
            self.metrics.add(metric, labels, ts_ns + base_ns, value, process)
        self.metrics.flush()
        # Kineto writes each device as a process, too: labelled GPU 0, where the real one is labelled CPU.
        processes = {
            number: texts
            for number, texts in self._names.items()
            if not is_kineto or texts.get("process_labels", "CPU").startswith("CPU")
        }
        if processes:
            named = [texts.get("process_name") for texts in processes.values()]
            self._sink.write("processes", {"process_id": list(processes), "process_name": named}, rank=rank, host=host)
        for phase, count in self.others.items():
            self._sink.count("other_events", count, detail=f"ph {phase}")
        self._samples(trailer, base_ns)

    def _samples(self, trailer: dict[str, Any], base_ns: int) -> None:
        """`samples` with their `stackFrames`: stacks that the tracing program sampled."""
        samples, frames = trailer.get("samples"), trailer.get("stackFrames")
        if not isinstance(samples, list) or not samples:
            return
        frames = frames if isinstance(frames, dict) else {}
        columns = ("event", "ts_ns", "process_id", "thread_id", "cpu_index", "sample_count", "weight", "call_path_id")
        batch = RowBatch(self._sink, "stack_samples", columns)
        whole = [sample for sample in samples if isinstance(sample, dict)]
        self._sink.count("samples_not_objects", len(samples) - len(whole), severity="data_loss")
        times = self._columns.times(pick(whole, "ts"), "ts").tolist()
        known: dict[str, int | None] = {}
        for sample, ts_ns in zip(whole, times, strict=True):
            leaf = str(sample.get("sf"))
            if leaf not in known:
                known[leaf] = self._path(leaf, frames)
            process, thread, cpu, weight = (whole_number(sample.get(key)) for key in ("pid", "tid", "cpu", "weight"))
            batch.add(
                _text(sample.get("name")) or "sample",
                None if ts_ns == NO_TIME else ts_ns + base_ns,
                *(value if value is not None and 0 <= value < 2**63 else None for value in (process, thread)),
                cpu if cpu is not None and 0 <= cpu < 2**31 else None,
                1,
                weight if weight is not None and abs(weight) < 2**63 else None,
                known[leaf],
            )
        batch.flush()

    def _path(self, leaf: str, frames: dict[str, Any]) -> int | None:
        path: list[Frame] = []
        seen: set[str] = set()
        while leaf in frames and leaf not in seen and len(path) < MAX_STACK:
            seen.add(leaf)
            frame = frames[leaf] if isinstance(frames[leaf], dict) else {}
            path.append(Frame(_text(frame.get("name"), 4096) or "?", module=_text(frame.get("category"))))
            leaf = str(frame.get("parent"))
        return self._sink.call_paths.call_path(path[::-1])
