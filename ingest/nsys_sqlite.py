"""Importer of Nsight Systems exports in SQLite, of every schema since 2020.

`nsys export --type sqlite`, or the .sqlite that `nsys stats` leaves beside the report.
Schema: https://docs.nvidia.com/nsight-systems/UserGuide/index.html (SQLite Schema Reference); pages of the file:
https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ingest.errors import BadInput
from ingest.nsys_export import LEFT_OUT, REFERENCE, TABLES, VERSIONS, read_export
from ingest.nsys_repair import page_size, repaired, schema_pages
from ingest.nsys_sqlite_file import SqliteExport
from ingest.nsys_tables import MARKERS
from ingest.opening import DAMAGED_STREAM, compression, open_bytes
from ingest.registry import Importer
from ingest.sink import Sink

_MAGIC = b"SQLite format 3\0"
_COPY_BYTES = 1 << 20
_SCHEMA_WITHIN = 32 << 20


def sniff(head: bytes, path: Path) -> bool:
    """A SQLite file whose schema names tables of an export."""
    if not head.startswith(_MAGIC):
        return False
    return any(marker in head for marker in MARKERS) or any(
        marker in page for page in _schema_pages(head, path) for marker in MARKERS
    )


def _schema_pages(head: bytes, path: Path) -> Iterator[bytes]:
    """Pages of the schema that may lie beyond the head."""
    size = page_size(head)
    starts = sorted({(page - 1) * size for page, _ in schema_pages(head) if 0 < page * size <= _SCHEMA_WITHIN})
    if not starts or not path.is_file():
        return
    at = 0
    with open_bytes(path) as stream:
        try:
            for start in starts:
                while at < start and (skipped := stream.read(min(start - at, _COPY_BYTES))):
                    at += len(skipped)
                if at == start:
                    page = stream.read(size)
                    at += len(page)
                    yield page
        except DAMAGED_STREAM:
            return


@contextmanager
def scratch(sink: Sink) -> Iterator[str]:
    """A folder beside the result for what has to lie on disk for a while."""
    sink.parts.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".scratch-", dir=sink.parts) as folder:
        yield folder


@contextmanager
def _unpacked(path: Path, sink: Sink) -> Iterator[Path]:
    """The file itself, or a copy beside the result where it is packed: SQLite needs to seek."""
    with path.open("rb") as file:
        packed = compression(file.read(4))
    if packed is None:
        yield path
        return
    with scratch(sink) as folder:
        copy = Path(folder) / "export.sqlite"
        with open_bytes(path) as stream, copy.open("wb") as target:
            try:
                while part := stream.read1(_COPY_BYTES):  # type: ignore[attr-defined]
                    target.write(part)
            except DAMAGED_STREAM:
                sink.count("truncated_stream", severity="data_loss", detail="the packed file is damaged or ends early")
        yield copy


def read(path: Path, sink: Sink) -> None:
    """Read the export; what is damaged is counted. Raises BadInput when nothing in it can be read."""
    log = path.with_name(f"{path.name}-wal")
    if log.is_file() and log.stat().st_size:
        sink.count("write_ahead_log_left_out", severity="data_loss", detail="changes in the file's -wal are not read")
    with _unpacked(path, sink) as file, scratch(sink) as folder:
        try:
            export = SqliteExport(file, sink.count)
        except BadInput:
            copy = repaired(file, Path(folder))
            if copy is None:
                raise
            export = SqliteExport(copy, sink.count)
        try:
            read_export(export, sink)
        finally:
            export.close()


IMPORTER = Importer(
    name="nsys_sqlite",
    priority=11,
    title="Nsight Systems export (SQLite)",
    source="nsys",
    clock="realtime",
    versions=VERSIONS,
    produced_by="`nsys export --type sqlite report.nsys-rep`, `nsys stats`",
    recipe="nsys profile --cuda-memory-usage=true -o report APP && nsys export --type sqlite report.nsys-rep",
    left_out=LEFT_OUT,
    reference=REFERENCE,
    tables=TABLES,
    sniff=sniff,
    read=read,
)
