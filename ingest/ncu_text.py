"""Nsight Compute's details page as text, what `ncu` prints to a terminal: sections with tables of three columns.

A launch begins with `  name (grid)x(block), Context 1, Stream 7, Device 0, CC 9.0` (older: name, date, context and
stream). Each `Section:` has a table between lines of dashes, whose lengths are the columns' widths, and rules that
begin with INF, OPT, WRN or ERR. https://docs.nvidia.com/nsight-compute/NsightComputeCli/index.html#command-line-output
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ingest.callpaths import clean_text
from ingest.ncu_values import MetricRows
from ingest.sink import Sink
from ingest.textlines import TextLines

_SECTION = re.compile(r"\s*Section: (.+)")
_DASHES = re.compile(r"\s*-{4,}( -{3,})*\s*")
_LAUNCH = re.compile(
    r"\s{0,4}(?P<name>\S.*?)(?: \((?P<grid>\d+, \d+, \d+)\)x\((?P<block>\d+, \d+, \d+)\))?"
    r"(?:, \d{4}-\w{3}-\d\d \d\d:\d\d:\d\d)?, Context (?P<context>\d{1,9}), Stream (?P<stream>\d{1,9})"
    r"(?:, Device (?P<device>\d{1,9}))?(?:, CC [\d.]+)?\s*"
)
_PROCESS = re.compile(r"\[(\d{1,18})\] (\S[^@]{0,200})@(\S{1,200})\s*")
_RULE = re.compile(r"\s{2,}(INF|OPT|WRN|ERR)\s+(\S.*)")
_SPEEDUP = re.compile(r"Est\.(?: Local)? Speedup: ([\d.,]+)%")
_COLUMNS = 3
_RULE_LINES = 200


def is_text_page(lines: Sequence[str]) -> bool:
    """Whether the lines hold a section (or, of a raw page, a launch) with a table of three columns."""
    has_start = any(_SECTION.fullmatch(line) or _LAUNCH.fullmatch(line) for line in lines)
    return has_start and any(len(_spans(line)) == _COLUMNS for line in lines if _DASHES.fullmatch(line))


def _spans(dashes: str) -> list[tuple[int, int]]:
    return [found.span() for found in re.finditer(r"-+", dashes)]


class _Page:
    def __init__(self, sink: Sink, metrics: MetricRows) -> None:
        self._sink, self._metrics = sink, metrics
        self._launches = 0
        self._section: str | None = None
        self._spans: list[tuple[int, int]] = []
        self._process: int | None = None
        self._rule: tuple[str, list[str]] | None = None

    def line(self, number: int, line: str) -> None:
        rule = _RULE.fullmatch(line)
        if self._rule and (rule or not line.startswith("          ") or len(self._rule[1]) >= _RULE_LINES):
            self._end_rule()
        if not line.strip():
            self._spans = []
        elif found := _SECTION.fullmatch(line):
            self._section, self._spans = found[1].strip(), []
        elif _DASHES.fullmatch(line):
            self._spans = _spans(line)
        elif rule:
            self._rule, self._spans = (rule[1], [rule[2].strip()]), []
        elif self._rule:
            self._rule[1].append(line.strip())
        elif found := _LAUNCH.fullmatch(line):
            self._launch(found)
        elif len(self._spans) == _COLUMNS:
            self._row(number, line)
        elif found := _PROCESS.fullmatch(line):
            self._process = int(found[1])
            self._sink.process_id = self._sink.process_id or self._process
            name = clean_text(re.split(r"[/\\]", found[2])[-1], 80)
            self._sink.write("processes", {"process_id": [self._process], "process_name": [name]})
        else:
            self._sink.count("other_output_lines", detail=f"first at line {number}")

    def _launch(self, found: re.Match[str]) -> None:
        grid, block = (text.replace(" ", "") if text else None for text in (found["grid"], found["block"]))
        device = int(found["device"]) if found["device"] else None
        context, stream = int(found["context"]), int(found["stream"])
        name = clean_text(found["name"])
        self._metrics.launch = (self._launches, name, self._process, device, context, stream, grid, block)
        self._launches += 1
        self._section, self._spans = None, []

    def _row(self, number: int, line: str) -> None:
        """A table's row: names are left-aligned; units and values end where their dashes end."""
        (start, end), (_, unit_end), _ = self._spans
        name, unit, value = line[start:end].strip(), line[end:unit_end].strip(), line[unit_end:].strip()
        if line[: start + 1].strip() == line[start : start + 1].strip() and name and value:
            if (name, value) != ("Metric Name", "Metric Value"):
                self._metrics.add(self._section, name, value, unit, number)
        else:
            self._sink.count("damaged_rows", severity="data_loss", detail=f"first at line {number}")

    def _end_rule(self) -> None:
        if not self._rule:
            return
        kind, parts = self._rule
        text = " ".join(parts)
        found = _SPEEDUP.match(text)
        speedup = None
        if found:
            text = text[found.end() :].strip()
            speedup = self._metrics.number(found[1].strip(".,"))
        self._metrics.write(self._section, "rule", speedup, "%" if found else None, f"{kind}: {text}")
        self._rule = None

    def end(self) -> None:
        self._end_rule()
        self._metrics.flush()


def read_text_page(lines: TextLines, sink: Sink, metrics: MetricRows) -> None:
    """Read `kernel_metrics` from the text of a details or raw page; a page without launch lines is of one launch."""
    page = _Page(sink, metrics)
    for number, line in lines:
        if lines.is_cut:
            sink.count("cut_last_line", severity="data_loss", detail=f"line {number} has no line end")
        else:
            page.line(number, line)
    page.end()
