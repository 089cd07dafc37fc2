"""`nvidia-smi --query-gpu=… --format=csv` and the other queries of its kind: compute apps, accounted apps, …

https://docs.nvidia.com/deploy/nvidia-smi/index.html, section "Selective Query Options". The header names each field
with its unit in brackets; cells carry the unit too unless `nounits` was given. `timestamp` is local time without a
zone. Read as well: the same fields below a header that somebody wrote himself, with times of `date`, and files that a
spreadsheet saved again with `;` and decimal commas.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ingest.errors import BadInput
from ingest.gpu_samples import GpuSamples, labels_json
from ingest.gpu_series import Unit, is_missing, parse_cell, query_series
from ingest.numbers import NumberReader
from ingest.nvidia_smi_header import header_fields, is_bare_row, row_cells
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines
from ingest.wallclock import WallClock

_SNIFFED_LINES = 20
_TIME = ("timestamp", "time_stamp", "datetime")
_OWN_TIME = ("time", "date")
_INDEX = ("index", "gpu_index", "gpu", "gpu_id", "id")
_LABELS = {
    "uuid": "gpu_uuid",
    "gpu_uuid": "gpu_uuid",
    "pci.bus_id": "gpu_bus_id",
    "gpu_bus_id": "gpu_bus_id",
    "process_name": "process_name",
}
_NAMES = ("name", "gpu_name")

_NO_HEADER = "a query without its header: which column is memory.used and which memory.total can't be known"
_NO_HEADER_ADVICE = "put the fields of --query-gpu into a first line, or record without noheader"


def sniff(head: bytes, path: Path) -> bool:
    """A header of query fields among the first lines, or rows that only such a query prints."""
    lines = head_lines(head)[:_SNIFFED_LINES]
    return any(header_fields(line) is not None for line in lines) or any(is_bare_row(line) for line in lines[:2])


@dataclass(slots=True)
class _Series:
    """A column that becomes a series; `is_text` once it turned out to hold words."""

    place: int
    name: str
    likely_unit: str
    unit: Unit | None
    is_text: bool = False
    is_numeric: bool = False


class _Reader:
    def __init__(self, sink: Sink, path: Path) -> None:
        self._sink, self._path = sink, path
        self._samples, self._clock, self._numbers = GpuSamples(sink), WallClock(sink), NumberReader(sink)
        self._delimiter, self._fields = "", list[tuple[str, Unit | None]]()
        self._series: list[_Series] = []
        self._known: dict[str, _Series] = {}
        self._labels: list[tuple[int, str]] = []
        self._time: int | None = None
        self._index: int | None = None
        self._pid: int | None = None
        self._last_length = 0

    def read(self, lines: TextLines) -> None:
        for number, line in lines:
            if not line.strip():
                continue
            first = line.lstrip()[:1]
            # A row begins with a digit, nearly always; only what does not can be a header again.
            if (not self._fields or first.isalpha()) and (found := header_fields(line)) is not None:
                self._set_header(*found, number)
            elif not self._fields:
                if is_bare_row(line):
                    raise BadInput(_NO_HEADER, where=str(self._path), todo=_NO_HEADER_ADVICE)
                self._sink.count("lines_before_header", detail=f"first at line {number}")
            else:
                self._row(line, number, lines.is_cut)
        self._samples.flush()
        self._clock.settle()

    def _set_header(self, delimiter: str, fields: list[tuple[str, Unit | None]], number: int) -> None:
        if self._fields:
            self._sink.count("repeated_headers", detail=f"first at line {number}")
        if (delimiter, fields) == (self._delimiter, self._fields):
            return
        self._delimiter, self._fields, self._last_length = delimiter, fields, 0
        names = [name for name, _ in fields]
        self._pid = names.index("pid") if "pid" in names else None
        times = (*_TIME, *_OWN_TIME) if self._pid is None else _TIME  # accounted apps have a duration called time
        self._time = next((names.index(name) for name in times if name in names), None)
        self._index = next((names.index(name) for name in _INDEX if name in names), None)
        self._labels = [(place, _LABELS[name]) for place, name in enumerate(names) if name in _LABELS]
        if self._index is None:
            self._labels += [(place, "gpu_name") for place, name in enumerate(names) if name in _NAMES]
        taken = {self._time, self._pid, self._index, *(place for place, _ in self._labels)}
        self._series = []
        for place, (field, unit) in enumerate(fields):
            if place not in taken and field not in _NAMES:
                name, likely = query_series(field)
                if self._pid is not None and not name.startswith("process_"):
                    name = f"process_{name}"
                self._series.append(self._known.setdefault(field, _Series(place, name, likely, unit)))
                self._series[-1].place, self._series[-1].unit = place, unit

    def _row(self, line: str, number: int, is_cut: bool) -> None:
        try:
            cells = row_cells(line, self._delimiter, len(self._fields))
        except ValueError as error:
            self._damaged("damaged_rows", f"{error}", number)
            return
        if len(cells) != len(self._fields):
            said = f" ({line.strip()[:60]})" if len(cells) == 1 else ""
            self._damaged("damaged_rows", f"{len(cells)} fields of {len(self._fields)}{said}", number)
            return
        if is_cut and len(cells[-1]) < max(self._last_length, 2):
            self._damaged("cut_last_line", f"line {number} has no line end", number)
            return
        self._last_length = len(cells[-1])
        device = process = ts_ns = None
        if self._index is not None:
            device = self._numbers.integer(cells[self._index], "index", number, damage="damaged_rows")
            if device is None:
                return
        if self._pid is not None:
            process = self._numbers.integer(cells[self._pid], "pid", number, damage="damaged_rows")
            if process is None:
                return
        if self._time is not None:
            ts_ns = self._clock.time_ns(cells[self._time], number)
            if ts_ns is None:
                return
        labels = labels_json(
            {name: cells[place].strip() for place, name in self._labels if not is_missing(cells[place])}
        )
        for series in self._series:
            text = cells[series.place]
            if not series.is_numeric and not is_missing(text) and self._is_word(series, text):
                continue
            series.is_numeric |= self._samples.cell(
                series.name,
                text,
                number,
                ts_ns,
                likely_unit=series.likely_unit,
                header_unit=series.unit,
                process_id=process,
                device_index=device,
                labels=labels,
            )

    def _is_word(self, series: _Series, text: str) -> bool:
        """Whether the column holds words (driver version, compute mode); said once."""
        try:
            parse_cell(text)
        except ValueError:
            if not series.is_text and not series.unit and not series.likely_unit:
                series.is_text = True
                self._sink.count("text_columns", detail=f"{series.name} holds text and is left out")
        return series.is_text

    def _damaged(self, name: str, what: str, number: int) -> None:
        self._sink.count(name, severity="data_loss", detail=f"{what}, first at line {number}")


def read(path: Path, sink: Sink) -> None:
    """Read `metrics`. Raises BadInput for rows whose header was left out."""
    with open_lines(path, sink) as lines:
        _Reader(sink, path).read(lines)


IMPORTER = Importer(
    name="nvidia_smi_query",
    priority=42,
    title="nvidia-smi --query-gpu and --query-compute-apps (CSV)",
    source="nvidia_smi",
    clock="unknown",
    versions="any fields, with or without units in cells; ; and decimal commas; times of `date` instead of `timestamp`",
    produced_by="nvidia-smi",
    recipe="nvidia-smi --query-gpu=timestamp,index,memory.used,memory.total,utilization.gpu --format=csv -l 1",
    left_out="fields that hold words (driver version, compute mode); rows of noheader, whose columns nobody can tell",
    reference="https://docs.nvidia.com/deploy/nvidia-smi/index.html",
    tables=("metrics",),
    sniff=sniff,
    read=read,
)
