"""CUPTI records as NDJSON: one JSON object a line, `kind` and cupti-python's attribute names.

Attributes: https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html. Lines are read by the million, so a run
of whole lines goes through a columnar reader; only a run with a line that it refuses is read line by line.
"""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars.exceptions import ComputeError, PanicException, SchemaError

from ingest.cupti_enums import COLUMNS, KIND_NAMES, NESTED, UNUSED_KEYS
from ingest.cupti_lines import Count, LineRun, line_runs
from ingest.cupti_loose import FLAT_SCHEMA, LooseReader, parse_line
from ingest.cupti_records import CuptiRecords
from ingest.opening import open_bytes

NOTES = ("_HEADER", "_FOOTER")
READERS = 2
"""Threads that read runs ahead of the one that writes their rows."""

_NESTED_TYPES = {
    outer: pl.Struct({inner: COLUMNS[flat] for inner, flat in parts.items()}) for outer, parts in NESTED.items()
}
_SCHEMA: dict[str, Any] = {**FLAT_SCHEMA, **_NESTED_TYPES}
_KNOWN_KEYS = _SCHEMA.keys() | UNUSED_KEYS
_PROCESS_ID = re.compile(rb'"process_id"\s*:\s*([1-9]\d{0,9})\b')

Frames = list[tuple[str | None, pl.DataFrame]]
"""Records with `event_index`, of one kind or, where that is None, of the kinds in their column `kind`."""


def read_ndjson(path: Path, records: CuptiRecords, count: Count) -> None:
    """Read all records of the file; damage is counted with `count` (see `Sink.count`)."""
    loose = LooseReader(count)
    with open_bytes(path) as stream:
        for run, columnar in _read_ahead(line_runs(stream, count)):
            frames: Frames = [(None, loose.read(run))] if columnar is None else columnar
            frames = [(kind, frame) for kind, frame in frames if frame.height]
            if run.first_line == 0 and b'"_HEADER"' not in run.line(0):
                records.pid = _only_process_id(path, count)
            _hand_over(frames, run, records, count)
            records.flush()


def _read_ahead(runs: Iterator[LineRun]) -> Iterator[tuple[LineRun, Frames | None]]:
    waiting: deque[tuple[LineRun, Future[Frames | None]]] = deque()
    with ThreadPoolExecutor(READERS) as readers:
        for run in runs:
            waiting.append((run, readers.submit(_columnar, run)))
            if len(waiting) > READERS:
                first, frames = waiting.popleft()
                yield first, frames.result()
        for run, frames in waiting:
            yield run, frames.result()


def _narrow_schemas() -> dict[str, dict[str, Any]]:
    schemas = {}
    for kind in ("RUNTIME", "DRIVER", "EXTERNAL_CORRELATION", "CONCURRENT_KERNEL", "MEMORY2"):
        names = set(CuptiRecords.attributes(kind)) - {"event_index"}
        outers = {outer: dtype for outer, dtype in _NESTED_TYPES.items() if names & set(NESTED[outer].values())}
        names.update(flat for outer in outers for flat in NESTED[outer].values())
        schemas[kind] = {name: COLUMNS[name] for name in sorted(names)} | outers
    return schemas


_NARROW = _narrow_schemas()
"""Attributes of the most frequent kinds. The reader's time goes with the columns it has to fill, so lines that begin
with such a kind are read apart from the rest."""


def _columnar(run: LineRun) -> Frames | None:
    """The run's records, or None when a line is not a record of the expected types."""
    offsets = np.concatenate(([0], run.ends)).astype(np.int32)
    lines = pa.StringArray.from_buffers(len(run.ends), pa.py_buffer(offsets), pa.py_buffer(run.data))
    numbers = np.arange(run.first_line, run.first_line + len(run.ends))
    rest = np.ones(len(lines), bool)
    frames: Frames = []
    try:
        for kind, schema in _NARROW.items():
            compact, spaced = (pc.starts_with(lines, f'{{"kind":{gap}"{kind}"') for gap in ("", " "))
            is_kind = np.asarray(pc.or_(compact, spaced)) & rest
            if is_kind.any():
                frames.append((kind, _parse(lines, is_kind, numbers, schema)))
                rest &= ~is_kind
        if rest.any():
            frames.append((None, _parse(lines, rest, numbers, _SCHEMA)))
    except (ComputeError, SchemaError, PanicException, _RowsDontMatch):
        return None
    return frames


class _RowsDontMatch(Exception):
    """Blank lines: rows no longer tell line numbers."""


def _parse(lines: pa.StringArray, chosen: np.ndarray[Any, Any], numbers: Any, schema: dict[str, Any]) -> pl.DataFrame:
    text = lines.filter(pa.array(chosen))
    frame = pl.read_ndjson(io.BytesIO(text.buffers()[2]), schema=schema)
    if frame.height != len(text):
        raise _RowsDontMatch
    outers = [outer for outer in NESTED if outer in schema]
    nested = [
        pl.coalesce(flat, pl.col(outer).struct.field(inner)).alias(flat)
        for outer in outers
        for inner, flat in NESTED[outer].items()
    ]
    return frame.with_columns(pl.Series("event_index", numbers[chosen]), *nested).drop(outers)


def _hand_over(frames: Frames, run: LineRun, records: CuptiRecords, count: Count) -> None:
    """Records by kind; a header within the file holds from its line on."""
    notes = [
        note
        for kind, frame in frames
        if kind is None
        for note in frame.filter(pl.col("kind").is_in(NOTES)).select("kind", "event_index").iter_rows()
    ]
    begin = run.first_line
    for note_kind, line in notes:
        if line > begin:
            _add_kinds(frames, records, count, begin, line)
        records.note(note_kind, parse_line(run.line(line).strip()) or {})
        begin = line + 1
    _add_kinds(frames, records, count, begin, run.first_line + len(run.ends))

    # Which attributes are new is looked up in one record of each kind and run: the columnar reader drops them.
    for kind, frame in frames:
        firsts = frame.unique("kind", keep="first").rows(named=True) if kind is None else frame.head(1).rows(named=True)
        for first in firsts:
            name = kind or kind_name(first["kind"] or "")
            if name in KIND_NAMES:
                keys = parse_line(run.line(first["event_index"]).strip()) or {}
                records.unknown_keys(name, keys.keys() - _KNOWN_KEYS)


def _add_kinds(frames: Frames, records: CuptiRecords, count: Count, begin: int, end: int) -> None:
    """Records of the lines from `begin` up to `end`, by kind."""
    for kind, frame in frames:
        lines = frame["event_index"]
        if frame.height and (lines[0] < begin or lines[-1] >= end):
            frame = frame.filter((lines >= begin) & (lines < end))
        if kind is not None:
            records.add(kind, frame)
            continue
        for written, number in frame["kind"].value_counts().sort("kind").iter_rows():
            if written is None:
                count("records_without_kind", number, detail="JSON objects that are no CUPTI records")
            elif attributes := records.attributes(name := kind_name(written)):
                records.add(name, frame.select("kind", *attributes).filter(pl.col("kind") == written))
            else:
                records.leave_out(name, number)


def kind_name(kind: str) -> str:
    """The kind as cupti-python names it, from that name, the C name or the number."""
    if kind.isdecimal() and len(kind) < 4 and int(kind) < len(KIND_NAMES):
        return KIND_NAMES[int(kind)]
    return kind.removeprefix("CUPTI_ACTIVITY_KIND_").removeprefix("ActivityKind.")


def _only_process_id(path: Path, count: Count) -> int | None:
    """The one process that the file's records name; None when they name none, or several (counted)."""
    found: set[int] = set()
    with open_bytes(path) as stream:
        for run in line_runs(stream, lambda *_, **__: None):
            found.update(int(text) for text in set(_PROCESS_ID.findall(run.data)))
            if len(found) > 1:
                count("process_id_ambiguous", detail="no header, and records of several processes")
                return None
    return next(iter(found), None)
