"""`nvidia-smi dmon` and `pmon`: a line a device (or a process) and interval below a header that repeats.

https://docs.nvidia.com/deploy/nvidia-smi/index.html, sections "GPU Stats Monitoring" and "Process Monitoring". The
line `#gpu pwr gtemp …` names the columns, the next comment their units; `-s` chooses columns, `-o DT` adds date and
time (local, no zone), `--gpm-metrics` adds columns with units `GPM:…`, `--format csv` puts commas between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ingest.daytime import DayTimes
from ingest.gpu_samples import GpuSamples, labels_json
from ingest.gpu_series import DMON, Unit, unit_named
from ingest.numbers import NumberReader
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines
from ingest.wallclock import WallClock

_TIMES = ("date", "time")
_PROCESS = ("pid", "type", "command")
_INSTANCE = ("mig", "gi", "ci")
_KNOWN = frozenset((*DMON, "pid"))
_UNIT_STARTS = ("idx", "yyyymmdd", "hh:mm:ss")
_SNIFFED_LINES = 40
_PROCESS_NAMES = {"device_memory_used": "process_memory_used"}
_PID = re.compile(r"\d{1,10}", re.ASCII)


def _cells(line: str) -> list[str]:
    return line.replace(",", " ").split()


def _columns(line: str) -> list[str] | None:
    """Column names of a header line (its `#` may be lost), None for any other line."""
    names = [name.lower() for name in _cells(line.strip().removeprefix("#"))]
    rest = [name for name in names if name not in _TIMES]
    if len(names) < 2 or names[len(names) - len(rest) :] != rest or rest[:1] != ["gpu"]:
        return None
    return names if any(name in _KNOWN for name in rest) and len(set(names)) == len(names) else None


def sniff(head: bytes, path: Path) -> bool:
    """A header of dmon or pmon among the first lines."""
    return any(_columns(line) is not None for line in head_lines(head)[:_SNIFFED_LINES])


@dataclass(slots=True)
class _Series:
    """A column that becomes a series."""

    place: int
    column: str
    name: str
    likely_unit: str
    unit: Unit | None = None


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._samples, self._numbers = GpuSamples(sink), NumberReader(sink)
        self._clock, self._of_day = WallClock(sink), DayTimes(sink)
        self._names: list[str] = []
        self._at: dict[str, int] = {}
        self._series: list[_Series] = []
        self._header_length = 0
        self._commas = False
        self._awaits_units = False

    def read(self, lines: TextLines) -> None:
        for number, line in lines:
            text = line.strip()
            if not text:
                continue
            if not text[0].isdecimal() and (names := _columns(line)) is not None:
                self._header(names, line)
            elif text.startswith("#"):
                self._comment(text[1:].strip(), number)
            elif not self._names:
                self._sink.count("lines_before_header", detail=f"first at line {number}")
            else:
                self._row(line, number, lines.is_cut)
        self._samples.flush()
        self._clock.settle()

    def _header(self, names: list[str], line: str) -> None:
        self._awaits_units = True
        # Columns are right-aligned below the header: a last line that ends before it was cut.
        self._header_length, self._commas = len(line.rstrip()), "," in line
        if names == self._names:
            return
        if self._names:
            self._sink.count("other_columns", detail=f"from then on {' '.join(names)}"[:200])
        self._names = names
        self._at = {name: place for place, name in enumerate(names)}
        is_process = "pid" in self._at
        self._series = []
        for place, column in enumerate(names):
            if column in _TIMES or column in _PROCESS or column in _INSTANCE or column == "gpu":
                continue
            name, unit = DMON.get(column, (f"dmon_{column}", ""))
            if is_process:
                name = _PROCESS_NAMES.get(name, f"process_{name}")
            self._series.append(_Series(place, column, name, unit))

    def _comment(self, text: str, number: int) -> None:
        cells = _cells(text)
        if cells and cells[0].lower() in _UNIT_STARTS and self._awaits_units:
            if len(cells) != len(self._names):
                detail = f"line {number} has {len(cells)} units for {len(self._names)} columns"
                self._sink.count("damaged_units", severity="data_loss", detail=detail)
                return
            self._awaits_units = False
            for series in self._series:
                printed = cells[series.place]
                series.unit = unit_named(printed)
                if printed.startswith("GPM:") and series.column not in DMON:
                    series.name = f"gpm_{series.column}"
        elif cells and cells[0][:1].isdecimal():
            self._sink.count("damaged_rows", severity="data_loss", detail=f"commented out, first at line {number}")

    def _row(self, line: str, number: int, is_cut: bool) -> None:
        width = len(self._names)
        has_command = self._names[-1] == "command"
        fields = (line.replace(",", " ") if self._commas else line).split(None, width - 1 if has_command else -1)
        if len(fields) != width:
            self._damaged("damaged_rows", f"{len(fields)} fields of {width}", number)
            return
        if is_cut and (has_command or self._commas or len(line.rstrip()) < self._header_length):
            self._damaged("cut_last_line", f"line {number} has no line end", number)
            if not has_command:
                return
        device = self._numbers.integer(fields[self._at["gpu"]], "gpu", number, damage="damaged_rows")
        if device is None:
            return
        process = None
        labels = {name: fields[self._at[name]].strip("-") for name in _INSTANCE if name in self._at}
        if "pid" in self._at:
            pid = fields[self._at["pid"]]
            if pid == "-":
                self._sink.count("samples_without_process", detail="the device ran none")
                return
            if not _PID.fullmatch(pid):
                self._damaged("damaged_rows", f"pid {pid[:20]!r}", number)
                return
            process = int(pid)
            kind = fields[self._at["type"]] if "type" in self._at else ""
            command = fields[-1].strip() if has_command and not is_cut else ""
            labels |= {"process_name": command.strip("-"), "process_type": kind.strip("-")}
        ts_ns, is_known = self._time(fields, number)
        if not is_known:
            return
        json = labels_json(labels)
        for series in self._series:
            self._samples.cell(
                series.name,
                fields[series.place],
                number,
                ts_ns,
                likely_unit=series.likely_unit,
                header_unit=series.unit,
                process_id=process,
                device_index=device,
                labels=json,
            )

    def _time(self, fields: list[str], number: int) -> tuple[int | None, bool]:
        """The row's time, and False when it is damaged; a recording without time columns has none."""
        day, time = self._at.get("date"), self._at.get("time")
        if time is None:
            return None, True
        if day is not None:
            ts_ns = self._clock.time_ns(f"{fields[day]} {fields[time]}", number)
        else:
            ts_ns = self._of_day.ns(fields[time])
        return ts_ns, ts_ns is not None

    def _damaged(self, name: str, what: str, number: int) -> None:
        self._sink.count(name, severity="data_loss", detail=f"{what}, first at line {number}")


def read(path: Path, sink: Sink) -> None:
    """Read `metrics`. Without date and time columns the samples have their order and no time."""
    with open_lines(path, sink) as lines:
        _Reader(sink).read(lines)


IMPORTER = Importer(
    name="nvidia_smi_dmon",
    priority=41,
    title="nvidia-smi dmon and pmon (text or CSV)",
    source="nvidia_smi",
    clock="unknown",
    versions="drivers 340 to 580: any columns of -s and --gpm-metrics, with and without -o DT, with and without units",
    produced_by="nvidia-smi",
    recipe="nvidia-smi dmon -s pucvmet -o DT -f dmon.log",
    left_out="the date of `-o D` alone, which places no sample",
    reference="https://docs.nvidia.com/deploy/nvidia-smi/index.html",
    tables=("metrics",),
    sniff=sniff,
    read=read,
)
