"""Importer of the traces that `nsys stats` prints as CSV: CUDA calls, GPU operations, NVTX ranges.

`nsys stats --report cuda_api_trace|cuda_gpu_trace|nvtx_pushpop_trace --format csv`
(https://docs.nvidia.com/nsight-systems/AnalysisGuide/index.html). The unit stands in the header: `Start (ns)`, with
`--timeunit` us, ms or s; memory in MB is rounded to a kilobyte and more. Times count from the start of the recording.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from ingest.csvrows import CsvRows, header_of
from ingest.errors import BadInput
from ingest.numbers import INT32_MAX, INT64_MAX, MISSING, NumberReader
from ingest.opening import read_head
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import head_lines, open_lines

_SCALES = {"ns": 1, "us": 1000, "µs": 1000, "ms": 10**6, "s": 10**9}
_START = re.compile(r"start \((ns|us|µs|ms|s)\)")
_SUMMARY = re.compile(r"total(?: time)? \(\w+\)")
_TRACES = {
    "cuda_api_trace": ("corrid", "name", "result", "tid"),
    "cuda_gpu_trace": ("corrid", "name", "strm", "device"),
    "nvtx_pushpop_trace": ("name", "pid", "tid", "rangestack"),
}
_OPERATION = re.compile(r"\[CUDA (memcpy|memset)(?: (Unified )?(\w+)-to-(\w+))?\]")
_DEVICE = re.compile(r"\((\d{1,9})\)\s*$")
TODO = "run `nsys stats --report cuda_api_trace,cuda_gpu_trace,nvtx_pushpop_trace --format csv`, or `nsys export`"


def _kind(head: bytes) -> tuple[str, str] | None:
    """Name of the trace and unit of its times; of a summary the name is `summary`. None for other files."""
    line = next((line for line in head_lines(head) if line.strip()), "")
    found = header_of(line, ())
    names = found[1] if found else []
    unit = next((match[1] for name in names if (match := _START.fullmatch(name))), None)
    for trace, required in _TRACES.items():
        if unit and set(required) <= set(names):
            return trace, unit
    is_summary = any(_SUMMARY.fullmatch(name) for name in names) and {"name", "operation", "range"} & set(names)
    return ("summary", "") if is_summary and any(name.startswith("stddev (") for name in names) else None


def sniff(head: bytes, path: Path) -> bool:
    """A header line with the columns of one of the traces, or of a summary."""
    return _kind(head) is not None


class _Reader:
    def __init__(self, sink: Sink, rows: CsvRows, unit: str) -> None:
        self._sink, self._rows, self._unit = sink, rows, unit
        self._numbers = NumberReader(sink)
        self._at = {name: place for place, name in enumerate(rows.columns)}

    def read(self, table: str, columns: tuple[str, ...], make: Callable[[list[str], int], tuple[Any, ...]]) -> None:
        batch = RowBatch(self._sink, table, columns)
        for line, fields in self._rows:
            start = self.time(fields, "start", line)
            if start is None:
                continue
            end = self.time(fields, "end", line)
            duration = self.time(fields, "duration", line) if end is None else None
            batch.add(start, end if duration is None else start + duration, *make(fields, line))
        batch.flush()
        if self._unit != "ns":
            self._sink.count("rounded_times", detail=f"times in {self._unit}; --timeunit ns gives whole nanoseconds")

    def text(self, fields: list[str], name: str) -> str | None:
        place = self._at.get(name)
        return None if place is None or fields[place].strip().lower() in MISSING else fields[place].strip()

    def number(self, fields: list[str], name: str, line: int, limit: int = INT64_MAX) -> int | None:
        text = self.text(fields, name)
        value = None if text is None else self._numbers.integer(text, name, line)
        if value is not None and value > limit:
            self._sink.count("impossible_values", severity="data_loss", detail=f"{name}, first at line {line}")
            return None
        return value

    def time(self, fields: list[str], name: str, line: int) -> int | None:
        text = self.text(fields, f"{name} ({self._unit})")
        try:
            value = None if text is None else int(Decimal(text[:60]) * _SCALES[self._unit])
        except (InvalidOperation, OverflowError, ValueError):
            value = None
        if value is None and (text is not None or name == "start"):
            self._sink.count("damaged_rows", severity="data_loss", detail=f"{name}, first at line {line}")
        elif value is not None and abs(value) > INT64_MAX:
            self._sink.count("numbers_beyond_64_bits", severity="data_loss", detail=f"{name}, first at line {line}")
            return None
        return value

    def call(self, fields: list[str], line: int) -> tuple[Any, ...]:
        name = self.text(fields, "name")
        api = "driver" if name and re.match("cu[A-Z]", name) else "runtime"
        numbers = (self.number(fields, column, line) for column in ("pid", "tid", "corrid", "result"))
        return (api, name, *numbers)

    def range(self, fields: list[str], line: int) -> tuple[Any, ...]:
        identity = (self.number(fields, column, line) for column in ("pid", "tid"))
        return ("push_pop", self.text(fields, "name"), *identity)

    def operation(self, fields: list[str], line: int) -> tuple[Any, ...]:
        name = self.text(fields, "name") or ""
        match = _OPERATION.fullmatch(name)
        op = "kernel" if match is None else "migration" if match[2] else match[1]
        copy = f"{match[3][0]}to{match[4][0]}".lower() if match and match[3] else None
        device = _DEVICE.search(self.text(fields, "device") or "")
        kinds = [self.text(fields, column) for column in ("srcmemkd", "dstmemkd")]
        triples = [[self.text(fields, f"{stem}{axis}") for axis in "xyz"] for stem in ("grd", "blk")]
        return (
            op,
            None if match else name or None,
            int(device[1]) if device and int(device[1]) <= INT32_MAX else None,
            *(self.number(fields, column, line) or None for column in ("ctx", "strm", "corrid")),
            self.number(fields, "bytes (b)", line),
            copy,
            *(None if kind is None else kind.lower() for kind in kinds),
            *(",".join(axis for axis in triple if axis) if all(triple) else None for triple in triples),
            self.number(fields, "reg/trd", line, INT32_MAX),
        )


_COLUMNS = {
    "cuda_api_trace": ("api_calls", "api name process_id thread_id correlation_id return_code"),
    "cuda_gpu_trace": (
        "gpu_ops",
        "op name device_index context_id stream_id correlation_id size_bytes copy_kind src_kind dst_kind grid block"
        " registers_per_thread",
    ),
    "nvtx_pushpop_trace": ("ranges", "range_kind name process_id thread_id"),
}


def read(path: Path, sink: Sink) -> None:
    """Read one trace. Raises BadInput for a summary, which has no times."""
    kind, unit = _kind(read_head(path)) or ("summary", "")
    if kind == "summary":
        raise BadInput("a summary of `nsys stats`: sums without the events", where=str(path), todo=TODO)
    table, names = _COLUMNS[kind]
    sink.format_version = kind
    with open_lines(path, sink) as lines:
        rows = CsvRows(lines, sink, path, (f"start ({unit})", *_TRACES[kind]))
        reader = _Reader(sink, rows, unit)
        makers = {"api_calls": reader.call, "gpu_ops": reader.operation, "ranges": reader.range}
        reader.read(table, ("start_ns", "end_ns", *names.split()), makers[table])
        if any(re.fullmatch(r"bytes \((?!b\)).+\)", name) for name in rows.columns):
            sink.count("rounded_sizes", detail="sizes in MB are left out; --format csv:mem=B gives whole bytes")


IMPORTER = Importer(
    name="nsys_csv",
    priority=14,
    title="Traces of `nsys stats` (CSV)",
    source="nsys",
    clock="session",
    versions="cuda_api_trace, cuda_gpu_trace and nvtx_pushpop_trace of Nsight Systems 2022 and later; any time unit",
    produced_by="`nsys stats --report cuda_api_trace --format csv report.nsys-rep`",
    recipe="nsys stats --report nvtx_pushpop_trace --format csv report.nsys-rep",
    left_out="summaries (*_sum): they have no times; sizes that are rounded to MB; the tree of ranges",
    reference="https://docs.nvidia.com/nsight-systems/AnalysisGuide/index.html",
    tables=("api_calls", "gpu_ops", "ranges"),
    sniff=sniff,
    read=read,
)
