"""Kineto's events to rows of the raw tables: collected by kind, spooled, and written when the file has ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.kineto_columns import NO_TIME, Columns, Int64s, arguments, distinct, pick
from ingest.kineto_names import STEP
from ingest.kineto_paths import NO_PATH, Paths
from ingest.kineto_spans import Int32s, Lookup, Spans
from ingest.kineto_spool import Spool
from ingest.kineto_tables import DEVICE, NUMBERS, STREAM, KinetoTables, Made, arrow_times
from ingest.kineto_threads import Threads
from ingest.kineto_typed import Form
from ingest.kineto_values import Values
from ingest.sink import Sink

Events = list[dict[str, Any]]

BATCH_ROWS = 4 * 1024
GROUP_ROWS = 64 * 1024
TABLES = ("memory_events", "api_calls", "external_correlations", "gpu_ops", "sync_events", "ranges", "overheads")


class KinetoRows:
    """Takes events of one kind at a time; `finish` writes the rows."""

    def __init__(self, sink: Sink, columns: Columns, *, lowest_pid: int) -> None:
        self._sink, self._columns = sink, columns
        self._tables = KinetoTables(sink)
        self.threads = Threads(sink, lowest_pid)
        self._paths = Paths(sink)
        self._spans = Spans(self._paths, sink.parts)
        self._spools = {table: Spool(sink.parts) for table in TABLES}
        self._waiting: dict[str, dict[str, list[Any]]] = {}
        self._values = Values(columns, self._paths, self.threads)
        self._counts: Counter[str] = Counter()
        self._cpu_threads: set[int] = set()
        self._last_memory_ns, self._memory_is_sorted = NO_TIME, True

    def take(self, kind: str, events: Events, **constants: str) -> None:
        """Events of a kind: gpu (with `op`), api (with `api`), sync, memory, overhead, python or operator."""
        self._settle(kind)
        for name, values in self._values.of_objects(kind, events, constants).items():
            self._waiting[kind][name].append(values)
        self._counts[kind] += len(events)
        if self._counts[kind] >= BATCH_ROWS:
            self._write(kind)

    def take_typed(self, form: Form, events: list[Any]) -> None:
        """Events of one category decoded by type."""
        self._values.add(form, events)
        self._counts[form.kind] += len(events)
        if self._counts[form.kind] >= BATCH_ROWS:
            self._write(form.kind)

    def _settle(self, kind: str) -> None:
        """Put the events that came by type among the parts."""
        waiting = self._waiting.setdefault(kind, defaultdict(list))
        for name, part in self._values.parts(kind).items():
            waiting[name].append(part)

    def _joined(self, kind: str, name: str, parts: list[Any]) -> Any:
        """The parts of a column as one."""
        if name in ("ts", "dur"):
            return self._columns.nanoseconds(parts, name)
        if name == "name":
            return self._columns.shortened(parts)
        if isinstance(parts[0], pa.Array):
            return self._columns.limited(parts, NUMBERS[kind].get(name, DEVICE))
        return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else list(chain.from_iterable(parts))

    def ranges(self, kind: str, rows: dict[str, list[Any]]) -> None:
        """Ranges with their text ready: `name`, `ts_ns`, `end_ns`, `thread`, `domain`, `text`."""
        made: Made = {name: self._columns.texts(rows[name]) for name in ("name", "domain", "text")}
        made["thread"] = np.array(rows["thread"], np.int32)
        self._put_ranges(kind, made, np.array(rows["ts_ns"], np.int64), np.array(rows["end_ns"], np.int64))

    def annotations(self, kind: str, events: Events, texts: list[str | None], domain: Any) -> None:
        """Ranges of `kind`, and steps among them."""
        columns = self._columns
        made: Made = {name: columns.times(pick(events, name), name) for name in ("ts", "dur")}
        made |= {"name": columns.texts(pick(events, "name")), "text": columns.texts(texts)}
        made["domain"] = None if domain is None else columns.texts([domain] * len(events))
        if kind == "gpu":
            args = arguments(events)
            devices = [
                pid if device is None else device
                for device, pid in zip(pick(args, "device"), pick(events, "pid"), strict=True)
            ]
            streams = [
                tid if stream is None else stream
                for stream, tid in zip(pick(args, "stream"), pick(events, "tid"), strict=True)
            ]
            made |= {"device": columns.integers(devices, DEVICE), "stream": columns.integers(streams, STREAM)}
            made["thread"] = np.zeros(len(events), np.int32)
        else:
            made["thread"] = self.threads.numbers(pick(events, "pid"), pick(events, "tid"))
            self._cpu_threads.update(distinct(made["thread"]))
        self._put_ranges(kind, made, *self._tables.span(made))

    def _put_ranges(self, kind: str, made: Made, starts: Int64s, ends: Int64s) -> None:
        names = made["name"]
        is_step = pc.fill_null(pc.starts_with(names, "ProfilerStep"), False)
        if kind != "gpu" and pc.any(is_step).as_py():
            kinds = pa.array(["step" if name and STEP.match(name) else kind for name in names.to_pylist()])
        else:
            kinds = pa.repeat(pa.scalar(kind), len(names))
        empty = {"domain": pa.string(), "text": pa.string(), "device": pa.int32(), "stream": pa.int64()}
        domain, text, device, stream = (
            pa.nulls(len(names), t) if made.get(n) is None else made[n] for n, t in empty.items()
        )
        self._spools["ranges"].add(
            pa.table(
                {
                    "range_kind": kinds,
                    "name": names,
                    "domain": domain,
                    "start_ns": arrow_times(starts),
                    "end_ns": arrow_times(ends),
                    "thread": made["thread"],
                    "device_index": device,
                    "stream_id": stream,
                    "attributes": text,
                }
            )
        )

    def _write(self, kind: str) -> None:
        self._counts[kind] = 0
        self._settle(kind)
        made = {name: self._joined(kind, name, parts) for name, parts in self._waiting.pop(kind).items()}
        if "thread" in made:
            self._cpu_threads.update(distinct(made["thread"]))
        if kind == "gpu":
            self._spools["gpu_ops"].add(self._tables.gpu_ops(made))
        elif kind == "api":
            calls, links = self._tables.api_calls(made)
            self._spools["api_calls"].add(calls)
            self._spools["external_correlations"].add(links)
        elif kind == "sync":
            self._spools["sync_events"].add(self._tables.sync_events(made))
        elif kind == "overhead":
            self._spools["overheads"].add(self._tables.overheads(made))
        elif kind == "memory":
            self._write_memory(self._tables.memory_events(made))
        elif kind == "python":
            self._spans.add(made["thread"], *self._tables.span(made), made["frame"], None)
        else:
            self._write_operators(made)

    def _write_memory(self, rows: pa.Table) -> None:
        times = pc.fill_null(rows["ts_ns"], NO_TIME).to_numpy()
        is_sorted = times[0] >= self._last_memory_ns and bool((times[1:] >= times[:-1]).all())
        self._memory_is_sorted = self._memory_is_sorted and is_sorted
        self._last_memory_ns = int(times[-1])
        self._spools["memory_events"].add(rows)

    def _write_operators(self, made: Made) -> None:
        starts, ends = self._tables.span(made)
        bases = None
        if any(made["Call stack"]):
            stacks = self._paths.stacks
            bases = np.array(
                [stacks[text] if isinstance(text, str) and text else NO_PATH for text in made["Call stack"]], np.int32
            )
        self._spans.add(made["thread"], starts, ends, made["frame"], bases)
        self._put_ranges("operator", made | {"text": self._tables.operator_texts(made)}, starts, ends)

    def finish(self, base_ns: int) -> None:
        """Write all rows, their times moved by `base_ns`."""
        for kind in self._counts:
            if self._counts[kind]:
                self._write(kind)
        found = self._find_paths()
        for table, spool in self._spools.items():
            written = 0
            for rows, paths in self._ordered(table, found.get(table)):
                columns = {name: rows[name] for name in rows.column_names if name != "thread"}
                for name in ("ts_ns", "start_ns", "end_ns"):
                    if name in columns and base_ns:
                        columns[name] = pc.add(columns[name], pa.scalar(base_ns, pa.int64()))
                if "thread" in rows.column_names:
                    columns |= self.threads.columns(rows["thread"].to_numpy())
                if paths is not None:
                    columns["call_path_id"] = self._paths.call_path_ids(paths.tolist())
                if table == "external_correlations":
                    del columns["thread_id"]
                    columns["external_kind"] = pa.repeat(pa.scalar("unknown"), rows.num_rows)
                columns["event_index"] = pa.array(np.arange(written, written + rows.num_rows))
                self._sink.write(table, columns)
                written += rows.num_rows
                if written // GROUP_ROWS > (written - rows.num_rows) // GROUP_ROWS:
                    self._sink.flush(table)
            self._sink.flush(table)
            spool.close()
        used = self.threads.processes(self._cpu_threads) - {0}
        self._sink.process_id = used.pop() if len(used) == 1 else None

    def _find_paths(self) -> dict[str, Int32s]:
        """Paths of rows, by table: a range's is that of its caller, anything else's that of the innermost call."""
        if not self._spans.count:
            return {}
        times = {"memory_events": "ts_ns", "api_calls": "start_ns", "ranges": "start_ns"}
        lookups = [Lookup(self._spools[table], time, inside=table != "ranges") for table, time in times.items()]
        return dict(zip(times, self._spans.paths_of(lookups), strict=True))

    def _ordered(self, table: str, paths: Int32s | None) -> Iterator[tuple[pa.Table, Int32s | None]]:
        """A table's rows, as they are to be written, and their paths."""
        spool, place = self._spools[table], 0
        if table == "memory_events" and not self._memory_is_sorted:
            # Threads are written one after the other: a replay needs the order of time.
            rows = pa.concat_tables(spool)
            order = pc.sort_indices(rows, [("ts_ns", "ascending")]).to_numpy()
            for start in range(0, len(order), BATCH_ROWS):
                part = order[start : start + BATCH_ROWS]
                yield rows.take(part), None if paths is None else paths[part]
            return
        for rows in spool:
            yield rows, None if paths is None else paths[place : place + rows.num_rows]
            place += rows.num_rows
