"""The tables of plain `nvidia-smi`, as `-l`, `watch` and loops log them, and the text of `nvidia-smi -q`.

https://docs.nvidia.com/deploy/nvidia-smi/index.html. Two rows a device between `|`, a section of MIG devices where
there are some, a section of processes (with the ids of GPU and compute instance from driver 450 on); columns are found
by their content, not by their place, which moved with nearly every driver. The time above a table is local, without a
zone; a line of `date` before it gives the zone.
"""

from __future__ import annotations

import re
from pathlib import Path

from ingest.errors import BadInput
from ingest.gpu_samples import GpuSamples, labels_json
from ingest.nvidia_smi_report import LOG_LINE, ReportReader
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines
from ingest.wallclock import WallClock, parse_time

_SNIFFED_LINES = 60
_WIDEST = 400
_XML = "<nvidia_smi_log>"
_QUARTER_NS = 900 * 10**9
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\([A-Z]")
_BANNER = re.compile(r"\|\s*NVIDIA-SMI\s+(\S+)")
_DEVICE = re.compile(r"\s*(?P<index>\d{1,5})\s+(?P<name>\S.*?)(?:\s+(?:On|Off|N/A|ERR!|WDDM|TCC|MCDM))?\s*", re.ASCII)
_BUS = re.compile(r"\s*((?:[0-9A-Fa-f]{1,8}:)?[0-9A-Fa-f]{1,2}:[0-9A-Fa-f]{1,2}\.[0-9A-Fa-f])\b.*", re.ASCII)
_USAGE = re.compile(r"\s*(?P<used>\d+\s*MiB|N/A|ERR!)\s*/\s*(?P<total>\d+\s*MiB|N/A|ERR!)\s*", re.ASCII)
_BUSY = re.compile(r"\s*(\d+\s?%|N/A|ERR!)(?:\s.*)?", re.ASCII)
_POWER = re.compile(r"(?P<draw>\d+W|N/A|ERR!)\s*/\s*(?P<limit>\d+W|N/A|ERR!)", re.ASCII)
_MIG = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*", re.ASCII)
_PROCESS = re.compile(
    r"\|\s+(?P<index>\d{1,5})\s+(?:(?P<gi>N/A|\d{1,5})\s+(?P<ci>N/A|\d{1,5})\s+)?"
    r"(?P<pid>\d{1,10})\s+"
    r"(?P<kind>M\+C|C\+G|[CGM])\s+(?P<name>.*?)\s+(?P<used>\d+\s*MiB|N/A|ERR!)\s*\|?\s*",
    re.ASCII,
)
_HEADINGS = re.compile(
    r"\|\s*(?:GPU\s+Name\s|Fan\s+Temp\s|GPU\s+GI\s|GPU\s+PID\s|ID\s+ID\s|==|--|No running )|"
    r"[|\s]*(?:MIG M\.|ID\s+ID\s+Dev\s|ECC\||Usage\s*\|)",
    re.ASCII,
)


def sniff(head: bytes, path: Path) -> bool:
    """The tool's banner, the rows of a device, or the first line of a `-q` log."""
    lines = [_ESCAPES.sub("", line) for line in head_lines(head)[:_SNIFFED_LINES] if len(line) <= _WIDEST]
    rows = [cells for line in lines if (cells := _cells(line)) is not None and len(cells) == 3]
    return (
        any(_BANNER.match(line) or LOG_LINE.fullmatch(line) for line in lines)
        or any(_XML in line for line in lines[:4])
        or any(_DEVICE.fullmatch(cells[0]) and _BUS.fullmatch(cells[1]) for cells in rows)
    )


def _cells(line: str) -> list[str] | None:
    text = line.strip()
    return text[1:-1].split("|") if len(text) > 2 and text[0] == "|" == text[-1] else None


class _Reader:
    def __init__(self, sink: Sink, path: Path) -> None:
        self._sink, self._path = sink, path
        self._samples, self._clock = GpuSamples(sink), WallClock(sink)
        self._report: ReportReader | None = None
        self._section = "devices"
        self._device: int | None = None
        self._labels: str | None = None
        self._ts_ns: int | None = None
        self._zoned_ns: int | None = None

    def read(self, lines: TextLines) -> None:
        for number, line in lines:
            if "\x1b" in line:
                line = _ESCAPES.sub("", line)
            text = line.strip()
            if text == _XML:
                todo = "record nvidia-smi -q without -x, or --query-gpu as CSV"
                raise BadInput("the XML of nvidia-smi -q -x is not read", where=str(self._path), todo=todo)
            if LOG_LINE.fullmatch(text):
                self._end_report()
                self._report = ReportReader(self._sink, self._samples, self._clock)
            elif text.startswith(("|", "+--")):
                self._end_report()
                self._table_line(line, text, number)
            elif self._report is not None and not lines.is_cut:
                self._report.line(line, number)
            elif self._report is not None:
                detail = f"line {number} has no line end"
                self._sink.count("cut_last_line", severity="data_loss", detail=detail)
            elif text:
                self._time(text, number)
        self._end_report()
        self._samples.flush()
        self._clock.settle()

    def _end_report(self) -> None:
        if self._report is not None:
            self._report.end()
            self._report = None

    def _time(self, text: str, number: int) -> None:
        found = parse_time(text.strip("=-# "))
        if found is None and text.startswith("Every ") and ": " in text:
            found = parse_time(text.rsplit(": ", 1)[1])
        if found is None:
            self._sink.count("other_lines", detail=f"first at line {number}")
            return
        ns, is_utc = found
        if is_utc:
            self._zoned_ns = ns
        elif self._zoned_ns is not None and abs(ahead := ns - self._zoned_ns) < 96 * _QUARTER_NS:
            # `date` just said what is UTC: the table's own local time is ahead of it by its zone.
            ns, is_utc, self._zoned_ns = ns - round(ahead / _QUARTER_NS) * _QUARTER_NS, True, None
        self._ts_ns = self._clock.known_ns(ns, number, is_utc=is_utc)

    def _table_line(self, line: str, text: str, number: int) -> None:
        if len(text) > _WIDEST:
            self._damaged(f"{text[:60]!r}", number)
        elif banner := _BANNER.match(text):
            self._section, self._device = "devices", None
            self._sink.format_version = self._sink.format_version or banner[1]
        elif "MIG devices:" in text:
            self._section = "mig"
        elif text.startswith("| Processes:"):
            self._section = "processes"
        elif text.startswith("+--") or _HEADINGS.search(text):
            return
        elif self._section == "processes":
            self._process(text, number)
        elif (cells := _cells(text)) is None:
            self._damaged(f"{text[:60]!r}", number)
        elif any(cell.strip() for cell in cells[:-1]):
            self._device_row(cells, number) if self._section == "devices" else self._mig_row(cells, number)

    def _device_row(self, cells: list[str], number: int) -> None:
        device = _DEVICE.fullmatch(cells[0])
        bus = _BUS.fullmatch(cells[1]) if len(cells) == 3 else None
        if device and bus:
            self._device = int(device["index"])
            name = "" if device["name"] == "ERR!" else device["name"]
            self._labels = labels_json({"gpu_name": name, "gpu_bus_id": bus[1]})
            if cells[2].strip() != "Off":
                self._cell("ecc_uncorrected_errors_total", cells[2], number)
            return
        usage = _USAGE.fullmatch(cells[1]) if len(cells) == 3 else None
        busy = _BUSY.fullmatch(cells[2]) if len(cells) == 3 else None
        if usage is None or busy is None or self._device is None:
            self._damaged(f"{'|'.join(cells)[:60]!r}", number)
            return
        self._cell("device_memory_used", usage["used"], number)
        self._cell("device_memory_total", usage["total"], number)
        self._cell("gpu_utilization", busy[1], number)
        power = _POWER.search(cells[0])
        words = (cells[0][: power.start()] if power else cells[0]).split()
        if power:
            self._cell("gpu_power", power["draw"], number)
            self._cell("gpu_power_limit", power["limit"], number)
        for name, shape in (("fan_speed", r"\d+%"), ("gpu_temperature", r"\d+C"), ("performance_state", r"P\d+")):
            found = next((word for word in words if re.fullmatch(shape, word)), "N/A")
            self._cell(name, found, number)

    def _mig_row(self, cells: list[str], number: int) -> None:
        ids, usage = _MIG.fullmatch(cells[0]), _USAGE.fullmatch(cells[1]) if len(cells) > 1 else None
        if usage is not None and not cells[0].strip():
            return  # the second row holds BAR1
        if ids is None or usage is None:
            self._damaged(f"{'|'.join(cells)[:60]!r}", number)
            return
        index, gi, ci, mig = ids.groups()
        labels = labels_json({"gpu_instance_id": gi, "compute_instance_id": ci, "mig_device": mig})
        for name in ("used", "total"):
            self._samples.cell(
                f"mig_memory_{name}", usage[name], number, self._ts_ns, device_index=int(index), labels=labels
            )

    def _process(self, text: str, number: int) -> None:
        if "Not Supported" in text or not text.strip("| "):
            self._sink.count("missing_values", detail=f"processes, first at line {number}")
            return
        match = _PROCESS.fullmatch(text)
        if match is None:
            self._damaged(f"{text[:60]!r}", number)
            return
        ids = {"gpu_instance_id": match["gi"], "compute_instance_id": match["ci"]}
        labels = {name: value for name, value in ids.items() if value not in (None, "N/A")}
        self._samples.cell(
            "process_memory_used",
            match["used"],
            number,
            self._ts_ns,
            process_id=int(match["pid"]),
            device_index=int(match["index"]),
            labels=labels_json({**labels, "process_name": match["name"], "process_type": match["kind"]}),
        )

    def _cell(self, name: str, text: str, number: int) -> None:
        self._samples.cell(name, text, number, self._ts_ns, device_index=self._device, labels=self._labels)

    def _damaged(self, what: str, number: int) -> None:
        self._sink.count("damaged_rows", severity="data_loss", detail=f"{what}, first at line {number}")


def read(path: Path, sink: Sink) -> None:
    """Read `metrics`; the file's version is the first table's driver. Raises BadInput for `-q -x`."""
    with open_lines(path, sink) as lines:
        _Reader(sink, path).read(lines)


IMPORTER = Importer(
    name="nvidia_smi_table",
    priority=43,
    title="nvidia-smi's tables and nvidia-smi -q",
    source="nvidia_smi",
    clock="unknown",
    versions="drivers 340 to 580, with MIG and WDDM; -q of any driver",
    produced_by="nvidia-smi",
    recipe="while sleep 1; do date; nvidia-smi; done > smi.log",
    left_out="settings, identities and versions of -q, counted; the BAR1 row of MIG devices; -q -x (XML)",
    reference="https://docs.nvidia.com/deploy/nvidia-smi/index.html",
    tables=("metrics",),
    sniff=sniff,
    read=read,
)
