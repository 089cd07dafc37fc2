"""DCGM samples: the text of `dcgmi dmon`, and CSV with one field a row (long) or one a column (wide).

https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html: dcgmi dmon prints `#Entity` and the
fields' tags, a line `ID` with units, then a line an entity; the fields are those of dcgm_fields.h. CSV is what people
make of dcgm-exporter's series: a time, a GPU, a field's name or number, a value. The exporter's own text is read by
prometheus_scrape.
"""

from __future__ import annotations

import re
from pathlib import Path

from ingest.csvrows import CsvRows, split_line
from ingest.dcgm_fields import dcgm_series, is_blank
from ingest.errors import BadInput
from ingest.gpu_samples import GpuSamples, labels_json
from ingest.gpu_series import is_missing
from ingest.opening import read_head
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines
from ingest.wallclock import WallClock

_SNIFFED_LINES = 40
_TAGS = re.compile(r"(?:[^#]{0,60}#)?\s*Entity((?:\s+[A-Za-z0-9_]+)+)\s*", re.ASCII)
_ROW = re.compile(r"\b(GPU(?:-I|-CI)?|Switch|Link|CPU|Core|vGPU)\s+(\S+)\s+(\S.*)", re.ASCII)
_FIELDS = ("metric", "metric_name", "field", "field_name", "fieldname", "field_tag", "field_id", "fieldid", "__name__")
_VALUES = ("value", "field_value")
_TIMES = re.compile(r"(?:time|timestamp|date|datetime|ts|epoch)(?:_?(?:utc|ns|us|ms|s|sec|seconds))?")
_DEVICES = ("gpu", "gpu_id", "gpuid", "gpu_index", "device_index", "index", "entity_id", "entity", "#entity")
_LABELS = {
    "uuid": "gpu_uuid",
    "gpu_uuid": "gpu_uuid",
    "hostname": "host",
    "host": "host",
    "node": "host",
    "gpu_i_id": "gpu_instance_id",
    "gpu_i_profile": "gpu_instance_profile",
    "pod": "pod",
    "exported_pod": "pod",
    "namespace": "namespace",
    "container": "container",
}
_INDEX = re.compile(r"(?:gpu|nvidia|cuda)?[ :_-]?(\d{1,9})", re.ASCII | re.IGNORECASE)


def _shape(head: bytes) -> tuple[str, tuple[str, ...]] | None:
    """`("dmon", ())`, or `("long" | "wide", columns)` of a CSV whose rows or header name fields of DCGM."""
    lines = head_lines(head)
    if any((match := _TAGS.fullmatch(line)) and match[1].upper() == match[1] for line in lines[:_SNIFFED_LINES]):
        return "dmon", ()
    content = [line for line in lines[:_SNIFFED_LINES] if not line.startswith("# ")]
    for delimiter in ",;\t":
        try:
            names = [name.strip().lower() for name in split_line(content[0], delimiter)] if content else []
        except ValueError:
            continue
        if len(names) < 2 or not any(_TIMES.fullmatch(name) or name in _DEVICES for name in names):
            continue
        field, value = (next((n for n in wanted if n in names), None) for wanted in (_FIELDS, _VALUES))
        if field and value and (field.startswith("field") or any("DCGM_FI_" in line for line in content[1:])):
            return "long", (field, value)
        if any(name.startswith("dcgm_fi_") for name in names):
            return "wide", (next(name for name in names if name.startswith("dcgm_fi_")),)
    return None


def sniff(head: bytes, path: Path) -> bool:
    """The header of `dcgmi dmon`, or a CSV header with fields of DCGM below or in it."""
    return _shape(head) is not None


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._samples, self._clock = GpuSamples(sink), WallClock(sink)

    def _sample(
        self, field: str, text: str, line: int, ts_ns: int | None, device: int | None, labels: str | None
    ) -> None:
        name, unit = dcgm_series(field)
        text = "" if is_blank(text.strip()) else text
        self._samples.cell(name, text, line, ts_ns, likely_unit=unit, device_index=device, labels=labels)

    def dmon(self, lines: TextLines) -> None:
        """Rows below lines that name tags; a time before the entity (as `ts` puts it there) is the row's."""
        tags: list[str] = []
        length = 0
        for number, line in lines:
            text = line.strip()
            if match := _TAGS.fullmatch(text):
                tags, length = match[1].split(), len(line)
            elif (row := _ROW.search(text)) and tags:
                entity, entity_id, cells, time = row[1], row[2], row[3].split(), text[: row.start()].strip("[] \t")
                if len(cells) != len(tags):
                    self._damaged("damaged_rows", f"{len(cells)} fields of {len(tags)}", number)
                    continue
                if lines.is_cut and len(line) < length:
                    self._damaged("cut_last_line", f"line {number} has no line end", number)
                    continue
                ts_ns = self._clock.time_ns(time, number) if time else None
                if time and ts_ns is None:
                    continue
                is_gpu = entity == "GPU" and entity_id.isdecimal() and len(entity_id) < 10
                device = int(entity_id) if is_gpu else None
                labels = None if is_gpu else labels_json({"entity": f"{entity} {entity_id}"})
                for tag, cell in zip(tags, cells, strict=True):
                    self._sample(tag, cell, number, ts_ns, device, labels)
            elif text and lines.is_cut:
                self._damaged("cut_last_line", f"line {number} has no line end", number)
            elif text and not text.lstrip("#").strip().lower().startswith("id"):
                self._sink.count("other_lines", detail=f"first at line {number}")

    def csv(self, rows: CsvRows, shape: str) -> None:
        """Rows with one field each (`long`), or with a column a field (`wide`)."""
        names = rows.columns
        times = [place for place, name in enumerate(names) if _TIMES.fullmatch(name)]
        time = times[0] if times else None
        device_at = next((names.index(name) for name in _DEVICES if name in names), None)
        labels_at = [(place, _LABELS[name]) for place, name in enumerate(names) if name in _LABELS]
        field_at = next((names.index(name) for name in _FIELDS if name in names), -1)
        value_at = next((names.index(name) for name in _VALUES if name in names), -1)
        fields = [(place, name) for place, name in enumerate(names) if name.startswith("dcgm_")]
        used = {
            time,
            device_at,
            *(place for place, _ in labels_at),
            *(place for place, _ in fields),
            field_at,
            value_at,
        }
        if left := [name for place, name in enumerate(names) if place not in used]:
            self._sink.count("columns_left_out", len(left), detail=", ".join(left)[:200])
        for number, cells in rows:
            ts_ns = self._clock.time_ns(cells[time], number, is_utc="utc" in names[time]) if time is not None else None
            if time is not None and ts_ns is None:
                continue
            labels = {name: cells[place].strip() for place, name in labels_at if not is_missing(cells[place])}
            device = None
            if device_at is not None and not is_missing(cells[device_at]):
                index = _INDEX.fullmatch(cells[device_at].strip())
                device = int(index[1]) if index else None
                if index is None:
                    labels["entity"] = cells[device_at].strip()
            json = labels_json(labels)
            if shape == "wide":
                for place, name in fields:
                    self._sample(name, cells[place], number, ts_ns, device, json)
            elif is_missing(cells[field_at]):
                self._damaged("damaged_rows", "no field", number)
            else:
                self._sample(cells[field_at], cells[value_at], number, ts_ns, device, json)

    def end(self) -> None:
        """After the last row."""
        self._samples.flush()
        self._clock.settle()

    def _damaged(self, name: str, what: str, number: int) -> None:
        self._sink.count(name, severity="data_loss", detail=f"{what}, first at line {number}")


def read(path: Path, sink: Sink) -> None:
    """Read `metrics`. dcgmi dmon prints no times: its samples have their order alone."""
    shape = _shape(read_head(path))
    if shape is None:
        raise BadInput("no header of this format", where=str(path), todo="the first line must name the fields")
    reader = _Reader(sink)
    with open_lines(path, sink) as lines:
        if shape[0] == "dmon":
            reader.dmon(lines)
        else:
            reader.csv(CsvRows(lines, sink, path, shape[1]), shape[0])
    reader.end()


IMPORTER = Importer(
    name="dcgm",
    priority=44,
    title="DCGM samples (dcgmi dmon, long or wide CSV)",
    source="dcgm",
    clock="unknown",
    versions="dcgmi 1 to 4, also with a time before each line; CSV with columns such as timestamp, gpu, metric, value",
    produced_by="dcgmi dmon, or a query of dcgm-exporter's series",
    recipe="dcgmi dmon -e 203,252,155,150 -d 1000 | ts '%Y-%m-%dT%H:%M:%S%z'",
    left_out="columns of a CSV that are neither a field nor a label, counted",
    reference="https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html",
    tables=("metrics",),
    sniff=sniff,
    read=read,
)
