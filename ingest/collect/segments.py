"""The `leakpath-cupti` file: Arrow IPC streams laid end to end, one kind of record each. FORMAT.md defines it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

FORMAT = "leakpath-cupti"
VERSION = "1"
HEADER = "_HEADER"
FOOTER = "_FOOTER"


def write_segment(file: BinaryIO, kind: str, columns: dict[str, pa.Array]) -> int:
    """Append the records of one kind and hand them to the operating system; returns the bytes written.

    The segment is put together in memory first, so that a killed process tears at most the write itself.
    """
    rows = len(next(iter(columns.values()))) if columns else 0
    kinds = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int8()), pa.array([kind]))
    batch = pa.record_batch({"kind": kinds, **columns})
    schema = batch.schema.with_metadata({"format": FORMAT, "version": VERSION, "kind": kind})
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=3))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
    rest = memoryview(sink.getvalue())
    size = len(rest)
    while rest:
        rest = rest[file.write(rest) :]
    return size


def write_note(file: BinaryIO, kind: str, note: dict[str, Any]) -> int:
    """Append a `_HEADER` or `_FOOTER` segment: one row whose `json` is `note`."""
    return write_segment(file, kind, {"json": pa.array([json.dumps(note, sort_keys=True)])})


def read_segments(file: BinaryIO) -> Iterator[tuple[str, pa.Table]]:
    """(kind, records) of each complete segment, up to the end of the file or to a torn last segment.

    Raises ValueError when a segment is not of this format and version.
    """
    is_torn = False
    while not is_torn:
        batches = []
        try:
            reader = pa.ipc.open_stream(file)
            for batch in reader:
                batches.append(batch)
        except (pa.ArrowInvalid, OSError):
            is_torn = True
            if not batches:
                return
        metadata = reader.schema.metadata or {}
        found = (metadata.get(b"format", b"").decode(), metadata.get(b"version", b"").decode())
        if found != (FORMAT, VERSION):
            raise ValueError(
                f"a segment of format {found[0]!r} version {found[1]!r}, not {FORMAT!r} version {VERSION!r}"
            )
        if not batches:  # no segment is written empty: the file was cut behind the schema
            return
        yield metadata[b"kind"].decode(), pa.Table.from_batches(batches)
