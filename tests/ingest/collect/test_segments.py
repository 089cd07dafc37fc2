"""The `leakpath-cupti` file: what is read back of a whole file, a torn one and a foreign one."""

from __future__ import annotations

import gzip
import io
from typing import BinaryIO, cast

import pyarrow as pa
import pytest

from ingest.collect.segments import HEADER, read_segments, write_note, write_segment


def _file() -> tuple[bytes, list[int]]:
    """A file of four segments and the positions at which each ends."""
    out, ends = io.BytesIO(), []
    write_note(out, HEADER, {"pid": 1})
    ends.append(out.tell())
    for rows in (3, 1, 2):
        write_segment(out, "RUNTIME", {"start": pa.array(range(rows), pa.int64())})
        ends.append(out.tell())
    return out.getvalue(), ends


def test_the_format_is_recognisable_in_the_first_bytes() -> None:
    data, _ = _file()
    assert data.startswith(b"\xff\xff\xff\xff")
    assert b"leakpath-cupti" in data[:512]


def test_wherever_the_file_is_cut_the_complete_segments_before_it_are_read() -> None:
    data, ends = _file()
    # From eight bytes before its end a segment lacks only Arrow's end mark: its records are there.
    whole = [end - 8 for end in ends]
    for cut in range(len(data) + 1):
        rows = [table.num_rows for _, table in read_segments(io.BytesIO(data[:cut]))]
        assert rows == [1, 3, 1, 2][: sum(cut >= mark for mark in whole)], cut


def test_a_compressed_file_reads_the_same() -> None:
    data, _ = _file()
    with gzip.open(io.BytesIO(gzip.compress(data))) as packed:
        assert [table.num_rows for _, table in read_segments(cast(BinaryIO, packed))] == [1, 3, 1, 2]


def test_another_version_is_refused_by_name() -> None:
    out = io.BytesIO()
    schema = pa.schema([("x", pa.int8())], {"format": "leakpath-cupti", "version": "9", "kind": "RUNTIME"})
    with pa.ipc.new_stream(out, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array([1], pa.int8())], schema=schema))
    with pytest.raises(ValueError, match="version '9'"):
        list(read_segments(io.BytesIO(out.getvalue())))
