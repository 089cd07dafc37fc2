"""CUPTI records as `leakpath collect cupti` writes them: Arrow IPC streams laid end to end, one kind of record each.

Defined in `ingest/collect/FORMAT.md`. A segment is cut out by its end mark before it is read, so damage in one costs
that one alone, and what a segment claims to unpack to is looked up before it is unpacked.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import polars as pl
import pyarrow as pa

from ingest.cupti_enums import COLUMNS, KIND_NAMES, UNUSED_KEYS
from ingest.cupti_lines import Count
from ingest.cupti_records import CuptiRecords
from ingest.errors import UnsupportedVersion
from ingest.opening import DAMAGED_STREAM, open_bytes

FORMAT = "leakpath-cupti"
VERSIONS = ("1",)
START = b"\xff\xff\xff\xff"
MARK_WITHIN = 512
"""The format's name stands within so many bytes of a segment's start."""
MAX_SEGMENT_BYTES = 256 << 20
MAX_UNPACKED_BYTES = 1 << 30

_END = START + b"\0\0\0\0"
_PIECE_BYTES = 1 << 20
_KNOWN_KEYS = COLUMNS.keys() | UNUSED_KEYS | {"kind", "payload", "payload_kind", "color", "category"}
_DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, struct.error)


def is_segment_start(head: bytes) -> bool:
    """Whether the bytes begin a segment of this format, whatever its version."""
    return head.startswith(START) and FORMAT.encode() in head[:MARK_WITHIN]


def read_segments(path: Path, records: CuptiRecords, count: Count) -> None:
    """Read all records of the file; damage is counted with `count` (see `Sink.count`).

    Raises UnsupportedVersion when a segment is of another version of the format.
    """
    index = 0
    notes: set[str] = set()
    with open_bytes(path) as stream:
        for number, segment in enumerate(_segments(stream, count), 1):
            try:
                for kind, batch in _batches(segment, path):
                    if kind in ("_HEADER", "_FOOTER"):
                        notes.add(kind)
                        note = json.loads(str(batch.column("json")[0]))
                        records.note(kind, note if isinstance(note, dict) else {})
                    else:
                        if kind in KIND_NAMES:
                            records.unknown_keys(kind, set(batch.schema.names) - _KNOWN_KEYS)
                        records.add(kind, _frame(batch, index))
                        records.flush()
                    index += batch.num_rows
            except _DAMAGE as error:
                is_torn = not segment.endswith(_END)
                name = "truncated_segment" if is_torn else "damaged_segments"
                count(name, severity="data_loss", detail=f"segment {number}: {str(error).splitlines()[0][:200]}")
    if "_HEADER" not in notes:
        count("header_missing", severity="data_loss", detail="the process of kernels and copies is not known")
    if "_FOOTER" not in notes:
        detail = "no footer: the recorded process was killed or still ran, its last records are missing"
        count("recording_not_finished", severity="data_loss", detail=detail)


def _frame(batch: pa.RecordBatch, index: int) -> pl.DataFrame:
    """Attributes that are read, with their types, and `event_index` from `index` on."""
    names = [name for name in batch.schema.names if name in COLUMNS]
    frame = pl.DataFrame(pa.Table.from_batches([batch]).select(names))
    rows = pl.int_range(index, index + batch.num_rows, dtype=pl.Int64).alias("event_index")
    return frame.select(rows, *(pl.col(name).cast(COLUMNS[name], strict=False) for name in names))


def _batches(segment: bytes, path: Path) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The segment's batches with their kind. Raises what Arrow raises on damage, ValueError past the limits."""
    source = pa.BufferReader(segment)
    reader = pa.ipc.open_stream(source)
    metadata = reader.schema.metadata or {}
    version = metadata.get(b"version", b"").decode("utf-8", "replace")
    if metadata.get(b"format") != FORMAT.encode() or version not in VERSIONS:
        raise UnsupportedVersion(
            f"{FORMAT} version {version or 'unknown'}, supported: {', '.join(VERSIONS)}",
            where=str(path),
            todo="use the leakpath that recorded it, or a newer one",
        )
    unpacked = 0
    with suppress(pa.ArrowInvalid, OSError):  # a torn end: the batches before it are read
        for message in pa.ipc.MessageReader.open_stream(segment):
            unpacked += _unpacked_bytes(message)
    if unpacked > MAX_UNPACKED_BYTES:
        raise ValueError(f"unpacks to {unpacked} bytes, more than the limit of {MAX_UNPACKED_BYTES}")
    for batch in reader:
        batch.validate(full=True)
        yield metadata[b"kind"].decode(), batch
    if rest := len(segment) - source.tell():
        raise ValueError(f"{rest} bytes behind it begin no segment")


def _unpacked_bytes(message: pa.Message) -> int:
    """What the buffers of a message claim to unpack to; 0 for a schema.

    Layout of the metadata: https://github.com/apache/arrow/blob/main/format/Message.fbs
    """
    data, body = message.metadata.to_pybytes(), message.body
    header_type, batch = _field(data, _root(data), 1), _field(data, _root(data), 2)
    kind = data[header_type] if header_type else 0
    table = batch + _unsigned(data, batch) if batch else 0
    if kind == 2:  # a dictionary batch holds its record batch in field 1
        inner = _field(data, table, 1)
        table = inner + _unsigned(data, inner)
    if kind not in (2, 3) or body is None:
        return 0
    buffers, compression = _field(data, table, 2), _field(data, table, 3)
    if not buffers or not compression:
        return int(body.size)
    vector = buffers + _unsigned(data, buffers)
    packed = body.to_pybytes()
    total = 0
    for place in range(_unsigned(data, vector)):
        offset, length = struct.unpack_from("<qq", data, vector + 4 + 16 * place)
        if length:
            total += max(length, *struct.unpack_from("<q", packed, offset))
    return total


def _root(data: bytes) -> int:
    return _unsigned(data, 0)


def _unsigned(data: bytes, offset: int) -> int:
    return int(struct.unpack_from("<I", data, offset)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Offset of a flatbuffer table's field, 0 when it is absent."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    slot = 4 + 2 * number
    if slot >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset = int(struct.unpack_from("<H", data, vtable + slot)[0])
    return table + offset if offset else 0


def _segments(stream: BinaryIO, count: Count) -> Iterator[bytes]:
    """The file cut before each start of a segment; the last piece may be torn."""
    buffer, searched = bytearray(), 0
    for piece in _pieces(stream, count):
        buffer += piece
        while (end := buffer.find(_END + START, searched)) >= 0:
            start = end + len(_END)
            if len(buffer) < start + MARK_WITHIN:
                break  # the mark may still come
            searched = start
            if is_segment_start(bytes(buffer[start : start + MARK_WITHIN])):
                yield bytes(buffer[:start])
                del buffer[:start]
                searched = 0
        if end < 0:
            searched = max(0, len(buffer) - len(_END + START) + 1)
        if len(buffer) > MAX_SEGMENT_BYTES:
            count("segments_too_long", severity="data_loss", detail=f"longer than {MAX_SEGMENT_BYTES >> 20} MiB")
            del buffer[: len(buffer) - MARK_WITHIN]
            searched = 0
    while (end := buffer.find(_END + START, searched)) >= 0:
        searched = end + len(_END)
        if is_segment_start(bytes(buffer[searched : searched + MARK_WITHIN])):
            yield bytes(buffer[:searched])
            del buffer[:searched]
            searched = 0
    if buffer:
        yield bytes(buffer)


def _pieces(stream: BinaryIO, count: Count) -> Iterator[bytes]:
    read = getattr(stream, "read1", stream.read)
    try:
        while piece := read(_PIECE_BYTES):
            yield piece
    except DAMAGED_STREAM as error:
        count("truncated_stream", severity="data_loss", detail=f"the compressed stream is damaged: {error}")
