"""Lines of Prometheus text and OpenMetrics, and the marks of time that people put between scrapes.

A scrape's time is that of the mark above it: `# scrape <ns>`, a comment that is a date or Unix time, the output of
date(1), or the `Date:` header of `curl -i`. A sample's own time wins: ms in Prometheus' text, seconds in OpenMetrics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

import orjson
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ingest.callpaths import clean_text
from ingest.numbers import INT64_MAX, NumberReader
from ingest.privacy import public_labels
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import TextLines
from ingest.units import unit_of
from ingest.wallclock import parse_time

BATCH_LINES = 4096
MAX_SERIES = 200_000
_ROW = ("metric", "labels", "ts_ns", "value", "unit")

_SCRAPE = re.compile(r"#\s*scrape\s+(\S+).*")
_SERIES = re.compile(r'[^{#]*(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?')
_DUMPED = re.compile(r'\{__name__="([a-zA-Z_:][\w:]*)"(?:\s*,\s*)?', re.ASCII)
_META = re.compile(r"#\s*(HELP|TYPE|UNIT|EOF)\b")
_UNIT = re.compile(r"#\s*UNIT\s+(\S+)\s+([A-Za-z0-9_]{1,40})")
_PART = re.compile(r"_(?:total|sum|gsum)$")
_MARK = re.compile(
    r"[\s#=*>\[-]*(?:(?:scraped?|sample[ds]?|collected|fetched|time(?:stamp)?|ts|date|now|at|on)\b[\s:=_-]*){0,3}"
    r"(?P<time>[A-Za-z0-9].{8,58}?)[\s=*<\]-]*",
    re.IGNORECASE | re.ASCII,
)
_MARK_STARTS = frozenset("#=*>-[0123456789")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WORDS = re.compile(r"(?:date|time|timestamp|ts|scraped?)\s*[:=]\s*\S", re.IGNORECASE)
_STATUS = re.compile(r"HTTP/\d(?:\.\d)? \d{3}\b.*")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}: ?.*")
_SECONDS_BELOW = 10**11


def mark_of(text: str) -> tuple[int, bool] | None:
    """`(ns since 1970, whether that is UTC)` of a line that marks a time between scrapes; None for any other line."""
    if len(text) > 120 or not (text[:1] in _MARK_STARTS or text.startswith(_DAYS) or _WORDS.match(text)):
        return None
    if _META.match(text) or not (match := _MARK.fullmatch(text)):
        return None
    return parse_time(match["time"])


class PrometheusText:
    """Writes the samples of one file to `metrics`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._numbers = NumberReader(sink)
        self._batch = RowBatch(sink, "metrics", _ROW)
        self._scrape_ns: int | None = None
        self._series: set[tuple[str, str]] = set()
        self._units: dict[str, str] = {}
        self._has_time = self._has_local_time = self._in_headers = False

    def read(self, lines: TextLines) -> None:
        """Read all lines; damaged ones are counted."""
        pending: list[tuple[int, str]] = []
        for number, line in lines:
            text = line.strip()
            if not text:
                self._in_headers = False
            elif match := _UNIT.fullmatch(text):
                if len(self._units) < MAX_SERIES:
                    self._units[match[1].strip('"')] = match[2]
            elif not self._is_mark(text, number, pending) and not text.startswith("#"):
                if lines.is_cut:
                    # The format ends every line with a line feed: without one the value may lack digits.
                    detail = f"line {number} has no line end"
                    self._sink.count("cut_last_line", severity="data_loss", detail=detail)
                else:
                    if text.startswith("{__name__"):
                        text = _DUMPED.sub(r"\1{", text)
                    pending.append((number, self._without_exemplar(text, number)))
            if len(pending) >= BATCH_LINES:
                self._scrape(pending)
        self._scrape(pending)
        self._batch.flush()
        self._numbers.settle_clock()
        if not self._has_time or self._has_local_time:
            self._sink.clock = "unknown"

    def _is_mark(self, text: str, number: int, pending: list[tuple[int, str]]) -> bool:
        """Whether a line tells a scrape's time, or belongs to what curl prints above one."""
        if self._in_headers or _STATUS.fullmatch(text):
            self._in_headers = _STATUS.fullmatch(text) is not None or _HEADER.fullmatch(text) is not None
            if self._in_headers and not text.lower().startswith("date:"):
                return True
        mark: tuple[int, bool] | None = None
        match = _SCRAPE.fullmatch(text)
        if match is None or not match[1].isdecimal() or len(match[1]) in (10, 13):
            mark = mark_of(text)
        if mark is None and match is None:
            return self._in_headers
        self._scrape(pending)
        self._series.clear()
        if mark is not None:
            self._scrape_ns = mark[0]
            if not mark[1] and not self._has_local_time:
                self._has_local_time = True
                detail = f"marks without a zone, first at line {number}: `clock: realtime` or an offset in capture.yaml"
                self._sink.count("local_times", detail=detail)
        elif match is not None:
            self._scrape_ns = self._numbers.integer(match[1], "scrape time", number)
        return True

    def _without_exemplar(self, line: str, number: int) -> str:
        if "# {" in line and (match := _SERIES.match(line)) and (cut := line.find("# {", match.end())) > 0:
            self._sink.count("exemplars_left_out", detail=f"first at line {number}")
            return line[:cut].rstrip()
        return line

    def _scrape(self, pending: list[tuple[int, str]]) -> None:
        """Write the samples of one scrape, or of as much of it as is held at once; empties `pending`."""
        for number, line, sample in self._samples(pending):
            try:
                value = float(sample.value)
            except OverflowError:
                value = math.inf if sample.value > 0 else -math.inf
            public = public_labels(sample.labels, self._sink)
            labels = {clean_text(name): clean_text(text) for name, text in public.items()}
            metric, text = clean_text(sample.name), orjson.dumps(labels, option=orjson.OPT_SORT_KEYS).decode()
            if sample.timestamp is None:
                self._check_scrape((metric, text), number)
                ts_ns = self._scrape_ns
            else:
                ts_ns = self._own_time(line, number)
            if ts_ns is None:
                detail = "neither a time of their own nor a mark such as `# scrape <ns>` before"
                self._sink.count("samples_without_time", detail=detail)
            self._has_time = self._has_time or ts_ns is not None
            self._numbers.saw_time(ts_ns)
            self._batch.add(metric, text, ts_ns, value, self._unit(metric))
        pending.clear()

    def _unit(self, metric: str) -> str | None:
        unit = unit_of(metric)
        if self._units and (unit is None or (unit == "count" and metric.endswith("_total"))):
            return self._units.get(_PART.sub("", metric), unit)
        return unit

    def _check_scrape(self, series: tuple[str, str], number: int) -> None:
        """A scrape has a series once: when it comes again, the line between two scrapes is lost, and so is the time."""
        if series in self._series:
            detail = f"a scrape begins without its time, first at line {number}"
            self._sink.count("scrape_lines_missing", severity="data_loss", detail=detail)
            self._series.clear()
            self._scrape_ns = None
        if len(self._series) < MAX_SERIES:
            self._series.add(series)

    def _samples(self, pending: list[tuple[int, str]]) -> Iterator[tuple[int, str, Sample]]:
        # TYPE lines are kept from the parser: with them it gives counters a name that is not in the file.
        try:
            text = "\n".join(line for _, line in pending)
            found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        except (ValueError, IndexError):
            found = []
        if len(found) == len(pending):
            yield from ((number, line, sample) for (number, line), sample in zip(pending, found, strict=True))
            return
        for number, line in pending:
            try:
                for family in text_string_to_metric_families(line):
                    yield from ((number, line, sample) for sample in family.samples)
            except (ValueError, IndexError) as error:
                detail = f"{str(error)[:120]}, first at line {number}"
                self._sink.count("damaged_rows", severity="data_loss", detail=detail)

    def _own_time(self, line: str, number: int) -> int | None:
        """The time at a line's end, ns; the scrape's where it is no time."""
        text = line.rpartition(" ")[2].rpartition("\t")[2]
        try:
            given = Decimal(text[:40])
            # OpenMetrics writes seconds, with a point or before 2^37; the older text writes whole ms.
            is_seconds = not text.lstrip("+-").isdecimal() or abs(given) < _SECONDS_BELOW
            if given.is_finite() and given >= 0 and given.adjusted() < 20:
                ts_ns = int((given * (10**9 if is_seconds else 10**6)).to_integral_value())
                if ts_ns <= INT64_MAX:
                    return ts_ns
        except InvalidOperation:
            pass
        self._sink.count("damaged_times", severity="data_loss", detail=f"first at line {number}")
        return self._scrape_ns
