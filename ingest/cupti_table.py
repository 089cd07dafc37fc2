"""CUPTI records as a table that another program wrote: Parquet or CSV, cupti-python's attribute names as columns.

One kind of record a file or all kinds in one, with nothing in the cells that a kind does not have; a column `kind`
holds the name or the number, or the attributes are those of one kind alone. Attributes:
https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html. The records go the way of the NDJSON dumps, see
`cupti`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from ingest.csvrows import CsvRows, split_line
from ingest.cupti import IMPORTER as CUPTI
from ingest.cupti_cells import Cells, add_kinds, attribute_name
from ingest.cupti_enums import COLUMNS, KIND_NAMES, NESTED, UNUSED_KEYS
from ingest.cupti_kinds import kind_of_columns, with_kind
from ingest.cupti_ndjson import kind_name
from ingest.cupti_parquet import MAGIC, column_names, parquet_frames
from ingest.cupti_records import CuptiRecords
from ingest.errors import BadInput
from ingest.opening import DAMAGED_STREAM, compression, open_bytes, read_head
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.textlines import head_lines, open_lines

BATCH_ROWS = 32 * 1024
_TODO = "its columns must be `kind` and cupti-python's attribute names"
_Frames = Callable[[Sink, set[str] | None], Iterator[pl.DataFrame]]
"""Batches of raw columns; what is damaged goes to the sink, the set names the attributes wanted."""
_PROCESS = ("process_id", "object_id_process_id")
_CUPTI_ONLY = {"correlation_id", "cbid", "copy_kind", "memory_operation_type", "memory_pool_operation_type"}
_CUPTI_ONLY |= {"object_kind", "external_kind", "overhead_kind", "cuda_event_id", "null_stream_id", "graph_node_id"}
_CUPTI_ONLY |= {"compute_capability_major"}


def _are_attributes(names: list[str]) -> bool:
    """Whether a table with these columns holds CUPTI records."""
    attributes = {attribute_name(name) for name in names}
    if "kind" not in attributes:
        return kind_of_columns(attributes) is not None
    return len(attributes & COLUMNS.keys()) >= 3 and bool(attributes & _CUPTI_ONLY)


def _header(lines: list[str]) -> tuple[str, list[str]] | None:
    """Delimiter and columns of a CSV header with enough attributes."""
    first = next((line for line in lines if not line.startswith("#")), "")
    for delimiter in ",;\t":
        names = [name.strip().lower() for name in _fields(first, delimiter)]
        if _are_attributes(names):
            return delimiter, names
    return None


def sniff(head: bytes, path: Path) -> bool:
    """A header with enough attribute names, and a kind that CUPTI has below it; Parquet that is not of another kind."""
    if head.startswith(MAGIC):
        try:
            with path.open("rb") as stream:
                is_packed = compression(stream.read(4)) is not None
            return is_packed or _are_attributes(column_names(path))  # the columns are named at the file's end
        except (OSError, BadInput):
            return True
    lines = head_lines(head)
    found = _header(lines)
    if found is None or "kind" not in found[1]:
        return found is not None
    place = found[1].index("kind")
    rows = [fields for fields in (_fields(line, found[0]) for line in lines[1:20]) if len(fields) > place]
    return not rows or any(kind_name(fields[place].strip().removesuffix(".0")) in KIND_NAMES for fields in rows)


def _fields(line: str, delimiter: str) -> list[str]:
    try:
        return split_line(line, delimiter)
    except ValueError:
        return []


def _csv_frames(
    path: Path, required: tuple[str, ...], sink: Sink, wanted: set[str] | None = None
) -> Iterator[pl.DataFrame]:
    """Raw columns, as text, of the attributes (all, or the `wanted` ones), in batches."""
    known = wanted or {"kind", *COLUMNS, *NESTED}
    with open_lines(path, sink) as lines:
        rows = CsvRows(lines, sink, path, required)
        places = [(name, place) for place, name in enumerate(rows.columns) if attribute_name(name) in known]
        schema = {name: pl.String for name, _ in places}
        columns: list[list[str]] = [[] for _ in places]
        for _, fields in rows:
            for column, (_, place) in zip(columns, places, strict=True):
                column.append(fields[place])
            if columns and len(columns[0]) >= BATCH_ROWS:
                yield pl.DataFrame(columns, schema=schema)
                columns = [[] for _ in places]
        if columns and columns[0]:
            yield pl.DataFrame(columns, schema=schema)


@contextmanager
def _unpacked(path: Path, sink: Sink) -> Iterator[Path]:
    """The Parquet file itself, or a copy without the packing around it."""
    with path.open("rb") as stream:
        if compression(stream.read(4)) is None:
            yield path
            return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "table.parquet")
        with open_bytes(path) as stream, copy.open("wb") as target:
            try:
                shutil.copyfileobj(stream, target)
            except DAMAGED_STREAM as error:
                sink.count("truncated_stream", severity="data_loss", detail=str(error))
        yield copy


def read(path: Path, sink: Sink) -> None:
    """Read all records of the file into the sink.

    Raises BadInput when no record can be read, UnsafeInput for a Parquet file that unpacks beyond the limits.
    """
    head = read_head(path)
    if not head.startswith(MAGIC):
        found = _header(head_lines(head))
        if found is None:
            raise BadInput("no header of this format", where=str(path), todo=_TODO)
        required = tuple(name for name in found[1] if attribute_name(name) in {"kind", *COLUMNS})
        _read_frames(found[1], lambda told, wanted: _csv_frames(path, required, told, wanted), sink)
        return
    with _unpacked(path, sink) as plain:
        try:
            columns = column_names(plain)
            if not _are_attributes(columns):
                raise BadInput("a Parquet file without CUPTI records", where=str(path), todo=_TODO)
            _read_frames(columns, lambda told, wanted: parquet_frames(plain, told, wanted), sink)
        except BadInput as error:
            raise type(error)(error.what, where=str(path), todo=error.todo) from error


def _read_frames(columns: list[str], frames: _Frames, sink: Sink) -> None:
    known = COLUMNS.keys() | UNUSED_KEYS | NESTED.keys() | {"kind"}
    nested = tuple(f"{outer}_" for outer in NESTED)
    left = [name for name in columns if (a := attribute_name(name)) not in known and not a.startswith(nested)]
    sink.count("unread_columns", len(left), detail=", ".join(left)[:200])
    records = CuptiRecords(sink)
    records.pid = _only_process(frames, sink)
    kind = None if "kind" in map(attribute_name, columns) else kind_of_columns(map(attribute_name, columns))
    cells, index = Cells(sink.count), 0
    for frame in frames(sink, None):
        rows = pl.int_range(index, index + frame.height, dtype=pl.Int64, eager=True).alias("event_index")
        index += frame.height
        typed = cells.typed(frame).with_columns(rows)
        add_kinds(with_kind(typed, kind) if kind else typed, records, sink.count)
    records.finish()


def _only_process(frames: _Frames, sink: Sink) -> int | None:
    """The one process that records name, for kernels and copies, which name none."""
    silent = Sink(sink.parts, sink.file_id, sink.source)
    cells, found = Cells(silent.count), set[int]()
    for frame in frames(silent, {*_PROCESS, *NESTED}):
        typed = cells.typed(frame)
        for name in _PROCESS:
            if name in typed.columns:
                found.update(pid for pid in typed[name].unique().drop_nulls() if pid > 0)
        if len(found) > 1:
            sink.count("process_id_ambiguous", detail="records of several processes")
            return None
    return found.pop() if found else None


IMPORTER = Importer(
    name="cupti_columns",
    priority=24,
    title="CUPTI records as a table (Parquet or CSV)",
    source="cupti",
    clock="realtime",
    versions="cupti-python attribute names as columns; `kind` as name or number, or one kind a file without it",
    produced_by="programs that keep CUPTI records as data frames",
    recipe="pandas.DataFrame(records).to_parquet('cupti.parquet')",
    left_out="columns that are no attribute, and kinds that no table has: counted",
    reference="https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html",
    tables=CUPTI.tables,
    sniff=sniff,
    read=read,
)
