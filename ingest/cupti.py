"""Importer of CUPTI activity records: NDJSON dumps, and the files that `leakpath collect cupti` writes.

Records: https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html, by the names that cupti-python gives their
attributes. Timestamps are on CUPTI's clock, which is normalised to UTC realtime unless the recorder says otherwise.
"""

from __future__ import annotations

from pathlib import Path

from ingest.cupti_enums import COLUMNS, KIND_NAMES
from ingest.cupti_lines import to_utf8
from ingest.cupti_loose import parse_line
from ingest.cupti_ndjson import kind_name, read_ndjson
from ingest.cupti_records import CuptiRecords
from ingest.cupti_segments import VERSIONS, is_segment_start, read_segments
from ingest.opening import read_head
from ingest.registry import Importer
from ingest.sink import Sink

_SNIFFED_LINES = 200


def sniff(head: bytes, path: Path) -> bool:
    """Whether the bytes are CUPTI records, of any version; text and damaged lines may stand before the first."""
    if is_segment_start(head):
        return True
    lines = to_utf8(head).split(b"\n")
    return any(_is_record(line) for line in lines[:_SNIFFED_LINES])


def _is_record(line: bytes) -> bool:
    text = line.strip(b" \t\r\0")
    if not text.startswith(b"{") or b'"kind"' not in text:
        return False
    record = parse_line(text) or {}
    kind = record.get("kind")
    if kind == "_HEADER":
        return "cupti_timestamp" in record or {"clock", "pid"} <= record.keys()
    is_kind = isinstance(kind, str | int) and kind_name(str(kind)) in KIND_NAMES
    return is_kind and len((record.keys() & COLUMNS.keys()) - {"name", "id"}) >= 2


def read(path: Path, sink: Sink) -> None:
    """Read all records of the file into the sink. Damage is counted, and the rest is read.

    Raises UnsupportedVersion for a later version of the collector's file, UnsafeInput for a decompression bomb.
    """
    records = CuptiRecords(sink)
    if is_segment_start(read_head(path)):
        sink.format_version = VERSIONS[-1]
        read_segments(path, records, sink.count)
    else:
        read_ndjson(path, records, sink.count)
    records.finish()


IMPORTER = Importer(
    name="cupti",
    priority=20,
    title="CUPTI activity records",
    source="cupti",
    clock="realtime",
    versions=f"NDJSON with cupti-python attribute names; leakpath-cupti {', '.join(VERSIONS)}",
    produced_by="leakpath collect cupti -- python app.py",
    recipe="leakpath collect cupti -- python app.py",
    left_out="kinds that no table has (counters, PC sampling, OpenACC): counted by kind",
    reference="https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html",
    tables=(
        "processes",
        "devices",
        "contexts",
        "streams",
        "memory_events",
        "api_calls",
        "gpu_ops",
        "sync_events",
        "overheads",
        "ranges",
        "external_correlations",
    ),
    sniff=sniff,
    read=read,
)
