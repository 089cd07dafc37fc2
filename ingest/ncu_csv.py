"""Nsight Compute's pages as CSV: `ncu --page raw|details --csv`, imported or printed while profiling.

Columns ID, Process ID, Process Name, Host Name, Kernel Name, then by version Kernel Time, Context, Stream, Block
Size, Grid Size, Device, CC. The raw page has one column a metric, a row of units below the header and one row a
launch; the details page has one row a metric (Section Name, Metric Name, Metric Unit, Metric Value) or rule (Rule
Name, Rule Type, Rule Description, Estimated Speedup). https://docs.nvidia.com/nsight-compute/NsightComputeCli/index.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

from ingest.callpaths import clean_text
from ingest.errors import BadInput
from ingest.ncu_rows import Rows, delimiter_of, fields_of
from ingest.ncu_text import is_text_page, read_text_page
from ingest.ncu_values import MetricRows, has_decimal_comma
from ingest.numbers import INT32_MAX, INT64_MAX
from ingest.opening import read_head
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.textlines import head_lines, open_lines

_IDENTITY = {"id", "process id", "process name", "host name", "kernel name", "kernel time", "context", "stream"}
_IDENTITY |= {"block size", "grid size", "device", "cc"}
_DIMENSIONS = re.compile(r"\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""What the tool writes for the host's name when it profiles the machine it runs on."""


def sniff(head: bytes, path: Path) -> bool:
    """A header of either page, whatever the tool or the program printed before it, or the details page as text."""
    lines = head_lines(head)
    return any(delimiter_of(line) for line in lines) or is_text_page(lines)


class _Reader:
    def __init__(self, rows: Rows, sink: Sink, metrics: MetricRows) -> None:
        self._rows, self._sink, self._metrics = rows, sink, metrics
        self._header = 0
        self._units: list[str] = []
        self._first_index, self._next_index = 0, 0
        self._launch_key: tuple[str, ...] = ()
        self._processes: dict[int, str | None] = {}

    def read(self) -> None:
        at: dict[str, int] = {}
        metric_places: list[int] = []
        for line, fields in self._rows:
            if self._rows.headers != self._header:
                self._header = self._rows.headers
                names = [name.lower() for name in self._rows.columns]
                at = {name: place for place, name in reversed(list(enumerate(names)))}
                metric_places = [place for place, name in enumerate(names) if name not in _IDENTITY]
                self._units, self._first_index, self._launch_key = [], self._next_index, ()
            is_details = "metric name" in at
            if not is_details and not fields[0].strip():
                self._units = fields
                continue
            needed = at["metric value"] + 1 if is_details and "metric value" in at else len(self._rows.columns)
            if not needed <= len(fields) <= len(self._rows.columns):
                detail = f"{len(fields)} fields of {len(self._rows.columns)}, first at line {line}"
                self._sink.count("damaged_rows", severity="data_loss", detail=detail)
                continue
            if not self._launch(fields, at, line):
                continue
            if is_details:
                self._details(fields, at, line)
                continue
            for place in metric_places:
                if text := fields[place]:  # an empty cell: not collected for this launch
                    unit = self._units[place] if place < len(self._units) else ""
                    self._metrics.add(None, self._rows.columns[place], text, unit, line)
        self._metrics.flush()
        if self._processes:
            processes = {"process_id": list(self._processes), "process_name": list(self._processes.values())}
            self._sink.write("processes", processes, host=self._sink.host)

    def _launch(self, fields: list[str], at: dict[str, int], line: int) -> bool:
        """Take over the launch the row is of; False when the row has no usable id."""
        key = tuple(fields[place] for name, place in at.items() if name in _IDENTITY)
        if key == self._launch_key:
            return True

        def text(name: str) -> str:
            return fields[at[name]].strip() if name in at else ""

        index = _whole(text("id"), INT32_MAX)
        if index is None:
            self._sink.count("damaged_rows", severity="data_loss", detail=f"no launch id, first at line {line}")
            return False
        self._launch_key = key
        index += self._first_index
        self._next_index = max(self._next_index, index + 1)
        process = _whole(text("process id"), INT64_MAX)
        if process is not None:
            path = text("process name")
            windows = "\\" in path
            name = (PureWindowsPath(path) if windows else PurePosixPath(path)).name
            self._processes.setdefault(process, clean_text(name, 80) or None)
            self._sink.process_id = self._sink.process_id or process
        if self._sink.host is None and (host := text("host name")) and host not in LOOPBACK:
            self._sink.host = clean_text(host, 80)
        self._metrics.launch = (
            index,
            clean_text(text("kernel name")) or None,
            process,
            _whole(text("device"), INT32_MAX),
            _whole(text("context"), INT64_MAX),
            _whole(text("stream"), INT64_MAX),
            dimensions(text("grid size")) or _from_metrics("grid", text),
            dimensions(text("block size")) or _from_metrics("block", text),
        )
        return True

    def _details(self, fields: list[str], at: dict[str, int], line: int) -> None:
        def text(name: str) -> str:
            return fields[at[name]].strip() if name in at and at[name] < len(fields) else ""

        section = text("section name")
        if metric := text("metric name"):
            self._metrics.add(section, metric, text("metric value"), text("metric unit"), line)
        if rule := text("rule name"):
            try:
                speedup = self._metrics.number(text("estimated speedup"))
            except ValueError:
                speedup = None
            words = [word for word in (text("rule type"), text("rule description")) if word]
            unit = "%" if speedup is not None else None
            self._metrics.write(section, f"rule:{rule}", speedup, unit, ": ".join(words))


def dimensions(text: str) -> str | None:
    """`(256, 1, 1)` as `256,1,1`."""
    found = _DIMENSIONS.fullmatch(text)
    return ",".join(str(int(part[:20])) for part in found.groups()) if found else None


def _from_metrics(what: str, text: Callable[[str], str]) -> str | None:
    """Grid or block of a raw page without such columns (before 2021.3), from the metrics that tell the same."""
    sizes = [_whole(text(f"launch__{what}_dim_{axis}"), INT64_MAX) for axis in "xyz"]
    return None if None in sizes else ",".join(map(str, sizes))


def _whole(text: str, largest: int) -> int | None:
    text = text.replace(",", "").replace(".", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= largest else None


def _printed(head: bytes) -> Iterable[str]:
    """Values in the first rows, to learn how numbers are printed."""
    delimiter, names = ",", list[str]()
    for line in head_lines(head):
        if found := delimiter_of(line):
            delimiter, names = found, fields_of(line, found) or []
        elif not names:
            yield from re.findall(r"\s([-+]?\d[\d.,]*)$", line)
        elif fields := fields_of(line, delimiter):
            yield from (
                text for name, text in zip(names, fields, strict=False) if name.strip().lower() not in _IDENTITY
            )


def read(path: Path, sink: Sink) -> None:
    """Read `kernel_metrics` and `processes`. Raises BadInput when no launch can be read."""
    head = read_head(path)
    metrics = MetricRows(sink, decimal_comma=has_decimal_comma(_printed(head)))
    with open_lines(path, sink) as lines:
        if any(delimiter_of(line) for line in head_lines(head)):
            _Reader(Rows(lines, sink), sink, metrics).read()
        else:
            read_text_page(lines, sink, metrics)
    if not sink.rows():
        todo = "make it with `ncu --import REPORT.ncu-rep --page raw --csv`"
        raise BadInput("no metrics in it", where=str(path), todo=todo)


IMPORTER = Importer(
    name="ncu_csv",
    priority=15,
    title="Nsight Compute raw and details pages (CSV or text)",
    source="ncu",
    clock="realtime",  # there are no times in it that could be on another clock
    versions="columns of 2019 to 2025 (seen: 2025.3), any unit prefix, thousands separators of any locale",
    produced_by="ncu --page raw|details, --csv or not",
    recipe="ncu --import REPORT.ncu-rep --page raw --csv > ncu.csv",
    left_out="tables of single source lines; kernel start times, which are in whole seconds without a zone",
    reference="https://docs.nvidia.com/nsight-compute/NsightComputeCli/index.html",
    tables=("kernel_metrics", "processes"),
    sniff=sniff,
    read=read,
)
