"""Text that NVIDIA's own CUPTI samples print: one record on one line or with indented lines below it.

Printed by `activity_trace`, `activity_trace_async`, `cuda_memory_trace`, `cuda_graphs_trace`,
`cupti_trace_injection` and alike of CUDA 7 to 13 (extras/CUPTI/samples);
https://docs.nvidia.com/cupti/main/main.html#samples. The records go the way of the NDJSON dumps, see `cupti`. The
time is CUPTI's clock, in older samples since the start of the trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from ingest.cupti import IMPORTER as CUPTI
from ingest.cupti_enums import COLUMNS
from ingest.cupti_records import CuptiRecords
from ingest.cupti_text_records import NotARecord, is_record_start, kind_of, parse
from ingest.errors import BadInput
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines

BATCH_RECORDS = 32 * 1024
_CALLS = "Calling CUPTI API: cupti"
_DROPPED = re.compile(r"(?:Warning: )?Dropped (\d{1,18}) activity records\.?\s*")
_PROCESS = re.compile(r"\b(?:processId|process|procId) (\d{1,10})\b")
_RECORD_LINES = 8


def sniff(head: bytes, path: Path) -> bool:
    """A line that begins a record, or one by which the samples tell what they call."""
    return any(line.startswith(_CALLS) or is_record_start(line) for line in head_lines(head))


def _texts(lines: TextLines, sink: Sink) -> Iterator[tuple[int, str]]:
    """Records as the number of their first line and their text."""
    first, parts = 0, list[str]()
    for number, line in lines:
        if lines.is_cut and line.strip():
            # The last digits of a number may be missing, and with them the lines below.
            sink.count("cut_last_line", severity="data_loss", detail=f"line {number} has no line end")
            if not kind_of(line):
                parts = []
            break
        if kind_of(line):
            if parts:
                yield first, "\n".join(parts)
            first, parts = number, [line]
        elif parts and line[:1] in (" ", "\t", ",") and len(parts) < _RECORD_LINES:
            parts.append(line)
        elif found := _DROPPED.fullmatch(line):
            sink.count("cupti_dropped_records", int(found[1]), severity="data_loss", detail="told by the sample")
        elif line.strip():
            if parts:
                yield first, "\n".join(parts)
            parts = []
            sink.count("text_lines", detail=f"the first is line {number}")
    if parts:
        yield first, "\n".join(parts)


class _Batches:
    """Records on their way to the tables, kind by kind."""

    def __init__(self, sink: Sink, pid: int | None) -> None:
        self._records, self._sink = CuptiRecords(sink), sink
        self._records.pid = pid
        self._rows: dict[str, list[dict[str, object]]] = {}
        self._held = 0
        self.count = 0
        """Records taken so far."""
        self.left_out = 0

    def add(self, line: int, text: str) -> None:
        kind = kind_of(text) or ""
        if not CuptiRecords.attributes(kind):
            self._records.leave_out(kind, 1)
            self.left_out += 1
            return
        try:
            record, unknown = parse(kind, text)
        except NotARecord:
            self._sink.count("damaged_lines", severity="data_loss", detail=f"the first is line {line}")
            return
        if lost := record.pop("lost", None):
            first, value = next(iter(lost.items()))
            name = "negative_values" if value < 0 else "numbers_beyond_64_bits"
            if not lost.keys().isdisjoint(("start", "end", "timestamp")):
                name = "times_before_the_start"
            self._sink.count(name, severity="data_loss", detail=f"{kind}.{first} in line {line}")
        if unknown:
            self._records.unknown_keys(kind, unknown)
        self._rows.setdefault(kind, []).append({"event_index": self.count, **record})
        self.count += 1
        self._held += 1
        if self._held >= BATCH_RECORDS:
            self.flush()

    def flush(self) -> None:
        for kind, rows in sorted(self._rows.items()):
            attributes = CuptiRecords.attributes(kind)
            schema = {name: COLUMNS.get(name, pl.Int64) for name in attributes}
            columns = {name: [row.get(name) for row in rows] for name in attributes}
            self._records.add(kind, pl.DataFrame(columns, schema=schema))
        self._records.flush()
        self._rows.clear()
        self._held = 0

    def finish(self) -> None:
        self.flush()
        self._records.finish()


def read(path: Path, sink: Sink) -> None:
    """Read all records of the file into the sink. Raises BadInput when there is none."""
    batches = _Batches(sink, _only_process(path, sink))
    with open_lines(path, sink) as lines:
        for number, text in _texts(lines, sink):
            batches.add(number, text)
    if not batches.count and not batches.left_out:
        todo = "enable activity kinds in the sample, and let it end by itself: records are printed at the end"
        raise BadInput("no CUPTI records in it", where=str(path), todo=todo)
    batches.finish()


def _only_process(path: Path, sink: Sink) -> int | None:
    """The one process that API and memory records name, for kernels and copies, which name none."""
    found: set[str] = set()
    with open_lines(path, Sink(sink.parts, sink.file_id, sink.source)) as lines:
        for _, line in lines:
            found.update(_PROCESS.findall(line))
            if len(found) > 1:
                sink.count("process_id_ambiguous", detail="records of several processes")
                return None
    return int(found.pop()) if found else None


IMPORTER = Importer(
    name="cupti_text",
    priority=23,
    title="Text of NVIDIA's CUPTI samples",
    source="cupti",
    clock="realtime",
    versions="activity_trace and activity_trace_async since CUDA 7, helper_cupti_activity.h of CUDA 11.8 to 13",
    produced_by="the samples in extras/CUPTI/samples of a CUDA toolkit, cupti_trace_injection among them",
    recipe="CUDA_INJECTION64_PATH=./libcupti_trace_injection.so ./app > cupti.txt",
    left_out="what the text does not tell: results of calls, threads of NVTX ranges, marks (they look like ranges "
    "that do not end); kinds that no table has are counted",
    reference="https://docs.nvidia.com/cupti/main/main.html#samples",
    tables=CUPTI.tables,
    sniff=sniff,
    read=read,
)
