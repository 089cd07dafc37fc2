"""Prometheus text exposition: one scrape, or many of them each after a line `# scrape <Unix time in ns>`.

https://prometheus.io/docs/instrumenting/exposition_formats/ (lines are read by prometheus_client's parser);
of OpenMetrics (https://prometheus.io/docs/specs/om/open_metrics_spec/) exemplars are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import orjson
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ingest.callpaths import clean_text
from ingest.numbers import INT64_MAX, NumberReader
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines
from ingest.units import unit_of

BATCH_LINES = 4096
MAX_SERIES = 200_000
_SNIFFED_LINES = 64
_ROW = ("metric", "labels", "ts_ns", "value", "unit")

_SCRAPE = re.compile(r"#\s*scrape\s+(\S+).*")
_COMMENT = re.compile(
    r"#\s*(HELP\s+[a-zA-Z_:\"]|UNIT\s+[a-zA-Z_:\"]|scrape\s+\d|"
    r"TYPE\s+\S+\s+(counter|gauge|histogram|summary|untyped|unknown|info|stateset|gaugehistogram)\b)"
)
_SAMPLE = re.compile(r"[a-zA-Z_:][\w:]*\s*(\{.*\})?\s+([+-]?[\d.]\S*|[+-]?Inf|NaN)(\s+-?\d+)?\s*", re.ASCII)
_SERIES = re.compile(r'[^{#]*(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?')


def sniff(head: bytes, path: Path) -> bool:
    """HELP, TYPE or scrape comments at the start, or nothing but samples of which some have labels."""
    lines = head_lines(head)[:_SNIFFED_LINES]
    if not lines:
        return False
    if lines[0].startswith("#"):
        return any(_COMMENT.match(line) for line in lines)
    return all(_SAMPLE.fullmatch(line) or line.startswith("#") for line in lines[:-1] or lines) and any(
        "{" in line or _COMMENT.match(line) for line in lines
    )


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._numbers = NumberReader(sink)
        self._batch = RowBatch(sink, "metrics", _ROW)
        self._scrape_ns: int | None = None
        self._series: set[tuple[str, str]] = set()
        self._has_time = False

    def read(self, lines: TextLines) -> None:
        pending: list[tuple[int, str]] = []
        for number, line in lines:
            text = line.strip()
            if match := _SCRAPE.fullmatch(text):
                self._scrape(pending)
                self._series.clear()
                self._scrape_ns = self._numbers.integer(match[1], "scrape time", number)
            elif text and not text.startswith("#"):
                if lines.is_cut:
                    # The format ends every line with a line feed: without one the value may lack digits.
                    detail = f"line {number} has no line end"
                    self._sink.count("cut_last_line", severity="data_loss", detail=detail)
                else:
                    pending.append((number, self._without_exemplar(text, number)))
            if len(pending) >= BATCH_LINES:
                self._scrape(pending)
        self._scrape(pending)
        self._batch.flush()
        self._numbers.settle_clock()
        if not self._has_time:
            self._sink.clock = "unknown"

    def _without_exemplar(self, line: str, number: int) -> str:
        if "# {" in line and (match := _SERIES.match(line)) and (cut := line.find("# {", match.end())) > 0:
            self._sink.count("exemplars_left_out", detail=f"first at line {number}")
            return line[:cut].rstrip()
        return line

    def _scrape(self, pending: list[tuple[int, str]]) -> None:
        """Write the samples of one scrape, or of as much of it as is held at once; empties `pending`."""
        for number, sample in self._samples(pending):
            try:
                value = float(sample.value)
            except OverflowError:
                value = math.inf if sample.value > 0 else -math.inf
            labels = {clean_text(name): clean_text(text) for name, text in sample.labels.items()}
            metric, text = clean_text(sample.name), orjson.dumps(labels, option=orjson.OPT_SORT_KEYS).decode()
            if sample.timestamp is None:
                self._check_scrape((metric, text), number)
            self._batch.add(metric, text, self._time(sample, number), value, unit_of(metric))
        pending.clear()

    def _check_scrape(self, series: tuple[str, str], number: int) -> None:
        """A scrape has a series once: when it comes again, the line between two scrapes is lost, and so is the time."""
        if series in self._series:
            detail = f"a scrape begins without its time, first at line {number}"
            self._sink.count("scrape_lines_missing", severity="data_loss", detail=detail)
            self._series.clear()
            self._scrape_ns = None
        if len(self._series) < MAX_SERIES:
            self._series.add(series)

    def _samples(self, pending: list[tuple[int, str]]) -> Iterator[tuple[int, Sample]]:
        # TYPE lines are kept from the parser: with them it gives counters a name that is not in the file.
        try:
            text = "\n".join(line for _, line in pending)
            found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        except (ValueError, IndexError):
            found = []
        if len(found) == len(pending):
            yield from zip((number for number, _ in pending), found, strict=True)
            return
        for number, line in pending:
            try:
                for family in text_string_to_metric_families(line):
                    yield from ((number, sample) for sample in family.samples)
            except (ValueError, IndexError) as error:
                detail = f"{str(error)[:120]}, first at line {number}"
                self._sink.count("damaged_rows", severity="data_loss", detail=detail)

    def _time(self, sample: Sample, number: int) -> int | None:
        """The sample's own time, else the scrape's, else None, ns."""
        ts_ns = self._scrape_ns
        if sample.timestamp is not None:
            given = float(sample.timestamp) * 1000  # the parser divided the milliseconds
            if math.isfinite(given) and 0 <= given * 1e6 <= INT64_MAX:
                ts_ns = round(given) * 1_000_000
            else:
                detail = f"first at line {number}"
                self._sink.count("damaged_times", severity="data_loss", detail=detail)
        if ts_ns is None:
            self._sink.count("samples_without_time", detail="neither a time of their own nor a `# scrape` line before")
        self._has_time = self._has_time or ts_ns is not None
        self._numbers.saw_time(ts_ns)
        return ts_ns


def read(path: Path, sink: Sink) -> None:
    """Read `metrics`; a scrape with damage is read line by line and the damaged lines are counted."""
    with open_lines(path, sink) as lines:
        _Reader(sink).read(lines)


IMPORTER = Importer(
    name="prometheus_scrape",
    priority=70,
    title="Prometheus text exposition, one or many scrapes",
    source="prometheus",
    clock="realtime",
    versions="text format 0.0.4; OpenMetrics text without exemplars",
    produced_by="curl of a /metrics endpoint, each scrape after a line `# scrape <ns>`",
    recipe='while sleep 1; do echo "# scrape $(date +%s%N)"; curl -s localhost:8000/metrics; done',
    left_out="exemplars",
    reference="https://prometheus.io/docs/instrumenting/exposition_formats/",
    tables=("metrics",),
    sniff=sniff,
    read=read,
)
