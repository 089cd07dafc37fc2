"""Importer of Nsight Systems exports as folders: one Parquet or Arrow file a table.

`nsys export --type parquetdir` (`<report>_pqtdir/<TABLE>.parquet`) and `--type arrowdir`
(`<report>_arwdir/<TABLE>.arrow`, the IPC stream format). The tables are those of the SQLite export:
https://docs.nvidia.com/nsight-systems/UserGuide/index.html. A table's name is its file's, up to the first dot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import BadInput
from ingest.nsys_arrow import arrow_frame
from ingest.nsys_export import LEFT_OUT, REFERENCE, TABLES, VERSIONS, read_export
from ingest.nsys_tables import BATCH_ROWS, MARKERS, Columns, shaped
from ingest.registry import Importer
from ingest.sink import Sink

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,200}")
_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARRO", b"\xff\xff\xff\xff"
_MAX_FILES = 2000
_MAX_GROUP_BYTES = 2 << 30
_DAMAGE = (pa.ArrowException, OSError, ValueError, EOFError)


def _magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4)
    except OSError:
        return b""


def _table_name(path: Path) -> str:
    return path.name.partition(".")[0]


def members(folder: Path) -> list[Path]:
    """The tables in a folder; none when no table of an export is among them."""
    try:
        listed = sorted(path for path in folder.iterdir() if _NAME.fullmatch(_table_name(path)))[:_MAX_FILES]
    except OSError:
        return []
    magics = (_PARQUET, _ARROW_FILE, _ARROW_STREAM)
    found = [path for path in listed if path.is_file() and _magic(path) in magics]
    names = [_table_name(path).encode() for path in found]
    return found if any(marker in name for marker in MARKERS for name in names) else []


def sniff(head: bytes, path: Path) -> bool:
    """A folder with tables of an export."""
    return path.is_dir() and bool(members(path))


class FolderExport:
    """An export as a folder of tables."""

    def __init__(self, folder: Path, count: Callable[..., None]) -> None:
        self._count = count
        self._paths: dict[str, Path] = {}
        self._tables: dict[str, list[str]] = {}
        for path in members(folder):
            try:
                schema = pq.read_schema(path) if _magic(path) == _PARQUET else self._arrow_schema(path)
            except _DAMAGE:
                self._damaged(_table_name(path))
                continue
            self._paths[_table_name(path)], self._tables[_table_name(path)] = path, list(dict.fromkeys(schema.names))
        if not self._tables:
            raise BadInput("no table of the export can be read", todo="export it again with `nsys export`")

    def tables(self) -> Mapping[str, Sequence[str]]:
        return self._tables

    def has_rows(self, table: str) -> bool:
        try:
            path = self._paths[table]
            if _magic(path) == _PARQUET:
                return bool(pq.read_metadata(path).num_rows)
            return any(batch.num_rows for batch in self._arrow_batches(path))
        except _DAMAGE:
            return True

    def filled(self, table: str, columns: Sequence[str]) -> set[str]:
        return {name for name in columns if name in self._tables[table]}

    def batches(
        self, table: str, columns: Columns, where: tuple[str, Sequence[int]] | None = None
    ) -> Iterator[pl.DataFrame]:
        wanted = [
            name for name in dict.fromkeys((*columns, *(where[:1] if where else ()))) if name in self._tables[table]
        ]
        if not any(name in columns for name in wanted) or (where and where[0] not in wanted):
            return
        path = self._paths[table]
        try:
            found = self._parquet_batches(path, wanted) if _magic(path) == _PARQUET else self._arrow_batches(path)
            for batch in found:
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    piece = batch.slice(start, BATCH_ROWS).select(wanted)
                    frame = arrow_frame(piece, self._count)
                    if where:
                        frame = frame.filter(pl.col(where[0]).is_in(where[1]))
                    if frame.height:
                        yield shaped(frame, columns)
        except _DAMAGE:
            self._damaged(table)

    def _parquet_batches(self, path: Path, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                if file.metadata.row_group(group).total_byte_size > _MAX_GROUP_BYTES:
                    raise ValueError("a row group too large to be read")
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=wanted)

    def _arrow_batches(self, path: Path) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(path)) as file:
            if _magic(path) == _ARROW_FILE:
                reader = pa.ipc.open_file(file)
                yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
            else:
                yield from pa.ipc.open_stream(file)

    def _arrow_schema(self, path: Path) -> pa.Schema:
        with pa.memory_map(str(path)) as file:
            opened = pa.ipc.open_file(file) if _magic(path) == _ARROW_FILE else pa.ipc.open_stream(file)
            return opened.schema

    def _damaged(self, table: str) -> None:
        self._count("damaged_tables", severity="data_loss", detail=f"{table} is damaged, rows are missing")


def read(path: Path, sink: Sink) -> None:
    """Read the export; what is damaged is counted. Raises BadInput when nothing in it can be read."""
    read_export(FolderExport(path, sink.count), sink)


IMPORTER = Importer(
    name="nsys_folder",
    priority=12,
    title="Nsight Systems export (folder of Parquet or Arrow files)",
    source="nsys",
    clock="realtime",
    versions=VERSIONS.replace("2020.3", "2023.4"),
    produced_by="`nsys export --type parquetdir report.nsys-rep`, `--type arrowdir`",
    recipe="nsys profile --cuda-memory-usage=true -o report APP && nsys export --type parquetdir report.nsys-rep",
    left_out=LEFT_OUT,
    reference=REFERENCE,
    tables=TABLES,
    sniff=sniff,
    read=read,
    members=members,
)
