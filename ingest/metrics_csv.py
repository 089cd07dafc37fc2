"""Any CSV of measurements: a column of times, columns of numbers, and columns of text that label them.

What monitoring prints or people write in a loop: Grafana's export (https://grafana.com/docs/grafana/latest/panels-visualizations/),
a data frame of scrapes, `timestamp,metric,value` in the long form. Each column of numbers is a series under its own
name; `name{label="x"}` in a header is read as Prometheus writes it. A process or device index goes to its column.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import orjson

from ingest.callpaths import clean_text
from ingest.csvrows import CsvRows
from ingest.errors import BadInput
from ingest.measurement_columns import has_measurements, header_of, is_number, unit_of_time
from ingest.numbers import INT32_MAX, MISSING, NumberReader, to_real
from ingest.opening import read_head
from ingest.privacy import public_labels
from ingest.registry import Importer
from ingest.request_fields import key_of, time_ns
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import open_lines
from ingest.units import unit_of

_JUDGED_ROWS = 256
_ROW = ("metric", "labels", "ts_ns", "value", "unit", "process_id", "device_index")
_NAME_COLUMNS = frozenset(("metric", "metric_name", "name", "series", "field", "measurement", "__name__"))
_VALUE_COLUMNS = frozenset(("value", "val", "sample", "metric_value"))
_PROCESS = frozenset(("pid", "process_id"))
_DEVICE = frozenset(("gpu", "gpu_index", "gpu_id", "device_index", "device"))
_HEADER_NAME = re.compile(r"([^{}]*)\{(.*)\}")
_LABEL = re.compile(r'(?<![\w.])([\w.]++)\s*=~?\s*"((?:[^"\\]|\\.)*)"')


def sniff(head: bytes, path: Path) -> bool:
    """A header with a time and other names, and below it rows with a time and a number."""
    return has_measurements(head)


class _Reader:
    def __init__(self, sink: Sink, names: list[str], time_place: int) -> None:
        self._sink = sink
        self._numbers = NumberReader(sink)
        self._batch = RowBatch(sink, "metrics", _ROW)
        self._time, self._unit = time_place, unit_of_time(names[time_place])
        self._keys = [key_of(name) for name in names]
        self._names = [self._series(name) for name in names]
        self._values: list[int] = []
        self._labels: list[int] = []
        self._process = self._place(_PROCESS)
        self._device = self._place(_DEVICE)
        self._long = self._place(_NAME_COLUMNS), self._place(_VALUE_COLUMNS)

    def _place(self, keys: frozenset[str]) -> int | None:
        return next((place for place, key in enumerate(self._keys) if key in keys), None)

    @staticmethod
    def _series(name: str) -> tuple[str, dict[str, str]]:
        match = _HEADER_NAME.fullmatch(name)
        if match is None:
            return clean_text(name) or "value", {}
        labels = {clean_text(label): clean_text(text) for label, text in _LABEL.findall(match[2])}
        return clean_text(match[1].strip() or labels.pop("__name__", "value")), labels

    def judge(self, rows: list[tuple[int, list[str]]]) -> None:
        """Tell columns of numbers from columns of text by the first rows."""
        apart = {self._time, self._process, self._long[0] if self._long[1] is not None else None}
        for place in range(len(self._keys)):
            cells = [cell for _, row in rows if (cell := row[place].strip()).lower() not in MISSING]
            is_numeric = bool(cells) and sum(map(is_number, cells)) * 2 >= len(cells)
            if place == self._device and is_numeric:
                apart.add(place)
            if place in apart:
                continue
            (self._values if is_numeric or not cells else self._labels).append(place)
        if self._long[0] is not None and self._long[1] in self._values:
            self._values.remove(self._long[1])
        else:
            self._long = None, None
        if self._device not in apart:
            self._device = None

    def row(self, line: int, fields: list[str]) -> None:
        """Write one row's samples."""
        try:
            ts_ns, is_utc = time_ns(fields[self._time].strip(), self._unit)
        except (ValueError, OverflowError) as error:
            detail = f"{str(error)[:80]}, first at line {line}"
            self._sink.count("damaged_rows", severity="data_loss", detail=detail)
            return
        if not is_utc:
            detail = "times without a zone: `clock: realtime` or an offset in capture.yaml"
            self._sink.count("local_times", detail=detail)
            self._sink.clock = "unknown"
        self._numbers.saw_time(ts_ns)
        labels = {
            self._names[place][0]: clean_text(cell, 200) for place in self._labels if (cell := fields[place].strip())
        }
        process = self._index(self._process, fields, line, 2**62)
        device = self._index(self._device, fields, line, INT32_MAX)
        name_place, value_place = self._long
        if name_place is not None and value_place is not None:
            name, own = self._series(fields[name_place].strip())
            self._sample(name, labels | own, ts_ns, fields[value_place], line, process, device)
        for place in self._values:
            name, own = self._names[place]
            self._sample(name, labels | own, ts_ns, fields[place], line, process, device)

    def _sample(
        self,
        name: str,
        labels: dict[str, str],
        ts_ns: int,
        cell: str,
        line: int,
        process: int | None,
        device: int | None,
    ) -> None:
        text = cell.strip()
        try:
            value = to_real(text)
        except ValueError:
            is_missing = text.lower() in MISSING
            count = "missing_values" if is_missing else "damaged_values"
            severity = "info" if is_missing else "data_loss"
            self._sink.count(count, severity=severity, detail=f"{name[:80]}, first at line {line}")  # type: ignore[arg-type]
            return
        written = orjson.dumps(public_labels(labels, self._sink), option=orjson.OPT_SORT_KEYS).decode()
        self._batch.add(name, written, ts_ns, value, unit_of(name), process, device)

    def _index(self, place: int | None, fields: list[str], line: int, largest: int) -> int | None:
        if place is None or not fields[place].strip():
            return None
        value = self._numbers.integer(fields[place], self._names[place][0], line)
        return value if value is not None and value <= largest else None

    def close(self) -> None:
        self._batch.flush()
        self._numbers.settle_clock()


def read(path: Path, sink: Sink) -> None:
    """Read `metrics`; a row without a usable time is counted and left out. Raises BadInput without a header."""
    header = header_of(read_head(path))
    if header is None:
        raise BadInput("no header with a time", where=str(path), todo="name the columns in the first line")
    _, names, place = header
    with open_lines(path, sink) as lines:
        rows = iter(table := CsvRows(lines, sink, path, (names[place].lower(),)))
        known = names if len(names) == len(table.columns) else table.columns
        reader = _Reader(sink, known, place)
        first = list(islice(rows, _JUDGED_ROWS))
        reader.judge(first)
        for number, fields in first:
            reader.row(number, fields)
        for number, fields in rows:
            reader.row(number, fields)
    reader.close()


IMPORTER = Importer(
    name="metrics_csv",
    priority=71,
    title="Measurements over time (CSV)",
    source="metrics_csv",
    clock="realtime",
    versions="a header with timestamp, time, ts or datetime (also with _ns, _us, _ms, _s); wide, or metric and value",
    produced_by="Grafana's CSV export, data frames of scrapes, loops that print measurements",
    recipe='echo timestamp_ns,used_bytes; while sleep 1; do echo "$(date +%s%N),$(cat memory.current)"; done',
    left_out="columns named as secrets",
    reference="https://www.rfc-editor.org/rfc/rfc4180",
    tables=("metrics",),
    sniff=sniff,
    read=read,
)
