"""Nsight Compute's report file `.ncu-rep`, read without the tool.

`NVR\\0`, then length-prefixed protocol buffer messages: a file header, and blocks of a header and a payload of sources,
results and range results, each with its length. The messages are ProfilerReport.proto, ProfilerResultsCommon.proto and
RuleResults.proto, which the tool ships in `extras/FileFormat`; names of metrics are in the blocks' string tables.
https://docs.nvidia.com/nsight-compute/CustomizationGuide/index.html#report-file-format
A file of another version goes through the user's own `ncu` when it is on the path.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from pathlib import Path

from ingest import ncu_csv
from ingest.callpaths import clean_text
from ingest.errors import BadInput, UnsupportedVersion
from ingest.external_tools import run_tool, tool_path
from ingest.ncu_blocks import Blocks, is_report
from ingest.ncu_units import unit_of_metric
from ingest.ncu_values import MetricRows
from ingest.numbers import INT32_MAX, INT64_MAX
from ingest.opening import DAMAGED_STREAM, open_bytes
from ingest.protobuf_wire import Value, fields, part, text, whole
from ingest.registry import Importer
from ingest.sink import Sink

VERSIONS = (7,)
TODO = "run `ncu --import REPORT.ncu-rep --page raw --csv > ncu.csv` and pass ncu.csv"

_METRIC, _RULE = 13, 19
_RULE_WORDS = {1: "INF", 2: "WRN", 3: "ERR", 4: "OPT"}


def sniff(head: bytes, path: Path) -> bool:
    """The magic number, and a header message of sensible length behind it."""
    return is_report(head)


class _Launches:
    """Turns results into rows; the same as the raw page, and the rules of the details page."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._metrics = MetricRows(sink, decimal_comma=False)
        self._count = 0
        self._processes: dict[int, str | None] = {}

    def add(self, message: bytes, blocks: Blocks) -> None:
        """The rows of one result. Raises ValueError when the message is damaged, before any row is written."""
        head, metrics, rules = dict[int, Value](), list[tuple[str, Value | None]](), list[bytes]()
        for number, value in fields(message):
            if number == _METRIC and isinstance(value, bytes):
                metrics.append(self._metric(value, blocks.strings))
            elif number == _RULE and isinstance(value, bytes):
                rules.append(value)
            else:
                head.setdefault(number, value)
        process = self._process(blocks, whole(head, 1))
        # The device is a metric of the launch; results of old versions do not have it.
        device = next((value for name, value in metrics if name == "device__attribute_device_index"), None)
        known = (_bounded(whole(head, 22), INT64_MAX), _bounded(whole(head, 23), INT64_MAX))
        name = text(head, 7) or text(head, 6) or text(head, 5)
        index = int(device) if isinstance(device, int | float) and 0 <= device <= INT32_MAX else None
        grid, block = _dimensions(part(head, 10)), _dimensions(part(head, 11))
        self._metrics.launch = (self._count, clean_text(name) or None, process, index, *known, grid, block)
        self._count += 1
        for metric, found in metrics:
            if metric.startswith("breakdown:"):
                self._sink.count("breakdown_lists", detail="which metrics a throughput is made of")
            elif found is None or found == b"" or (isinstance(found, float) and math.isnan(found)):
                self._sink.count("missing_values", detail=metric[:80])
            elif isinstance(found, bytes):
                self._metrics.write(None, metric, None, None, found.decode("utf-8", "replace"))
            elif math.isinf(found):
                self._metrics.write(None, metric, None, None, str(found))
            else:
                self._metrics.write(None, metric, float(found), unit_of_metric(metric), None)
        for rule in rules:
            self._rule(rule)

    def finish(self) -> None:
        self._metrics.flush()
        if self._processes:
            processes = {"process_id": list(self._processes), "process_name": list(self._processes.values())}
            self._sink.write("processes", processes, host=self._sink.host)

    def _metric(self, message: bytes, strings: list[str]) -> tuple[str, Value | None]:
        known = dict[int, Value]()
        for number, value in fields(message):
            known.setdefault(number, value)
        place = whole(known, 1) or 0
        if place >= len(strings):
            raise ValueError(f"no name {place} in the string table")
        return strings[place], next((value for _, value in fields(part(known, 2))), None)

    def _rule(self, message: bytes) -> None:
        rule = dict(fields(message))
        for number, item in fields(part(rule, 3)):
            if number != 1 or not isinstance(item, bytes):
                continue
            parts = dict(fields(item))
            said = dict(fields(part(parts, 1)))
            if not text(said, 1):
                continue  # a table or a link to metrics
            speedup = dict(fields(part(parts, 10))).get(2)
            value = speedup if isinstance(speedup, float) and math.isfinite(speedup) else None
            words = [word for word in (_RULE_WORDS.get(whole(said, 2) or 0), text(said, 1)) if word]
            unit = "%" if value is not None else None
            self._metrics.write(text(rule, 4), f"rule:{text(rule, 1)}", value, unit, ": ".join(words))

    def _process(self, blocks: Blocks, own: int | None) -> int | None:
        process = _bounded(own or whole(blocks.process, 1), INT64_MAX)
        if process is not None and process not in self._processes:
            name = text(blocks.process, 3) if process == whole(blocks.process, 1) else ""
            self._processes[process] = clean_text(name.replace("\\", "/").rsplit("/", 1)[-1], 80) or None
            self._sink.process_id = self._sink.process_id or process
            host = text(blocks.process, 2)
            if self._sink.host is None and host and host not in ncu_csv.LOOPBACK:
                self._sink.host = clean_text(host, 80)
        return process


def _bounded(value: int | None, largest: int) -> int | None:
    return value if value is not None and value <= largest else None


def _dimensions(message: bytes) -> str | None:
    known = dict(fields(message))
    sizes = [whole(known, number) for number in (1, 2, 3)]
    return ",".join(map(str, sizes)) if message and None not in sizes else None


def read(path: Path, sink: Sink) -> None:
    """Read `kernel_metrics` and `processes`. Raises BadInput when no launch can be read."""
    launches = _Launches(sink)
    with open_bytes(path) as stream:
        try:
            blocks = Blocks(stream, sink)
            sink.format_version = str(blocks.version)
            if blocks.version in VERSIONS:
                for message in blocks:
                    try:
                        launches.add(message, blocks)
                    except ValueError as error:
                        sink.count("damaged_results", severity="data_loss", detail=str(error))
        except (ValueError, *DAMAGED_STREAM) as error:
            sink.count("truncated_report", severity="data_loss", detail=str(error))
            if sink.format_version is None:
                raise BadInput(f"a damaged report ({error})", where=str(path), todo="copy the file again") from error
    if int(sink.format_version) not in VERSIONS:
        _through_tool(path, sink)
        return
    launches.finish()
    if not sink.rows():
        raise BadInput("no profiled launch in it", where=str(path), todo="profile again: the tool wrote no result")


def _through_tool(path: Path, sink: Sink) -> None:
    """Read the report as the user's own `ncu` prints it."""
    if tool_path("ncu") is None:
        what = f"report version {sink.format_version}, supported: {', '.join(map(str, VERSIONS))}"
        raise UnsupportedVersion(what, where=str(path), todo=TODO)
    with tempfile.TemporaryDirectory() as folder:
        report, page = Path(folder, "report.ncu-rep"), Path(folder, "raw.csv")
        with open_bytes(path) as stream, report.open("wb") as target:
            shutil.copyfileobj(stream, target)
        command = ["ncu", "--import", str(report), "--page", "raw", "--csv", "--print-units", "base"]
        run_tool(command, capture=path, todo=TODO, stdout=page)
        ncu_csv.read(page, sink)


IMPORTER = Importer(
    name="ncu_report",
    priority=16,
    title="Nsight Compute report (.ncu-rep)",
    source="ncu",
    clock="realtime",  # there are no times in it that could be on another clock
    versions="report version 7 (seen: 2023.1, 2025.3); others through the user's own `ncu`",
    produced_by="ncu",
    recipe="ncu -o report python app.py",
    left_out="instances of a metric, source lines, range replay results, charts; units that no name tells",
    reference="https://docs.nvidia.com/nsight-compute/CustomizationGuide/index.html#report-file-format",
    tables=("kernel_metrics", "processes"),
    sniff=sniff,
    read=read,
)
