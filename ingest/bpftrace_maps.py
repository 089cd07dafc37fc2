"""bpftrace's maps, as it prints them at its end or on print(): as text and as JSON (`-f json`).

`@[bash, 12]: 3`, keys with stacks over several lines, `count 5, average 3, total 15` of stats(), and the buckets of
hist() and lhist() in lines of their own. JSON has a line a map, `{"type": "map", "data": {"@": {"bash,12": 3}}}`.
Comments `# bpftrace NAME clock=boottime` and `# at NSECS`, which this project's scripts print, or a line with the
time of day, say when the maps below them were printed.
https://github.com/bpftrace/bpftrace/blob/master/docs/language.md, …/src/output/text.cpp, …/src/output/json.cpp
"""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path

from ingest.bpftrace_comments import Comments
from ingest.bpftrace_entries import Key, MapRows, parse_key
from ingest.bpftrace_json import JsonMaps, is_json_line
from ingest.bpftrace_stacks import MAX_DEPTH
from ingest.daytime import DayTimes
from ingest.numbers import INT64_MAX
from ingest.opening import open_bytes
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines

MAX_JSON_LINE = 32 * 1024 * 1024
MAX_LINE = 64 * 1024
MAX_KEY_LINES = 4 * MAX_DEPTH
_COMMENTS = ("# bpftrace maps", "# bpftrace page_faults")
_AT = re.compile(r"# at (\d{1,19})", re.ASCII)
_START = re.compile(r"@(\w{0,256})(\[|:(?: |$))", re.ASCII)
_VALUE = r"(?:-?\d{1,20}|count -?\d{1,20}, average -?\d{1,20}, total -?\d{1,20})"
_WHOLE = re.compile(rf"@\w{{0,256}}(?:\[.{{1,1000}}\]: ?{_VALUE}?|: {_VALUE})", re.ASCII)
_OPEN = re.compile(r"@\w{0,256}\[")
_FRAME = re.compile(r"^\t|\+(?:0x)?[0-9a-f]{1,16}(?: \(.*\))?$|^0x[0-9a-f]{1,16}$")
_NUMBER = re.compile(r"-?\d{1,40}", re.ASCII)
_STATS = re.compile(r"count (-?\d{1,40}), average -?\d{1,40}, total (-?\d{1,40})", re.ASCII)
_BOUND = r"(\.\.\.|-?\d{1,20}[KMGTPE]?)"
_BUCKET = re.compile(rf"[\[(](?:{_BOUND}, {_BOUND}|(-?\d{{1,20}}))[\])] +(\d{{1,40}}) \|[@ ]{{0,60}}\|", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d:\d\d")
_LOST = re.compile(r"(?i)\s*(?:WARNING: )?lost (\d{1,15}) events")
_NOISE = re.compile(r"Attach(?:ing|ed) \d+ probes?|WARNING:|ERROR: Unknown error|stdin:|\^C")


def sniff(head: bytes, path: Path) -> bool:
    """A script's comment, a line of JSON from bpftrace, or an entry of a map."""
    lines = head_lines(head)
    if lines and is_json_line(lines[0]):
        return True
    pairs = zip_longest(lines, lines[1:], fillvalue="")
    return any(
        line.startswith(_COMMENTS) or _WHOLE.fullmatch(line) or (_OPEN.fullmatch(line) and _FRAME.search(below[-400:]))
        for line, below in pairs
    )


def _bound(text: str) -> str:
    """A bucket's bound in digits, as JSON gives it: `64K` is 65536."""
    power = "KMGTPE".find(text[-1]) + 1
    return str(int(text[:-1]) << 10 * power) if power else text


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._rows = MapRows(sink)
        self._json = JsonMaps(sink, self._rows)
        self._comments = Comments(sink)
        self._times = DayTimes(sink)
        self._name = ""
        self._key: Key | None = None  # of a histogram or a stack value whose lines follow
        self._parts: list[str] | None = None  # of a key that goes on in the next line
        self._stack: list[str] = []
        self._bucket_count = 0

    def read(self, lines: TextLines) -> None:
        for number, line in lines:
            if lines.is_cut and line.strip():
                self._parts = None
                self._lost("cut_last_line", number)
            elif self._parts is not None and line[:1] != "@":
                self._go_on(line, number)
            elif self._key is not None and self._belongs(line):
                pass
            else:
                self._line(line, number)
        self._abandon(0)
        self._end_value()
        self._rows.flush()

    def _line(self, line: str, number: int) -> None:
        self._abandon(number)
        self._end_value()
        if not line.strip():
            return
        if len(line) > MAX_LINE and not is_json_line(line):
            self._lost("long_lines", number)
        elif match := _START.match(line):
            self._name = match[1]
            if match[2] == "[":
                self._parts = []
                self._go_on(line[match.end() :], number)
            else:
                self._value(line[match.end() :], Key(), number)
        elif line[0] == "#":
            self._comment(line, number)
        elif _TIME.fullmatch(line.strip()):
            self._rows.time_ns = self._times.ns(line.strip())
        elif is_json_line(line):
            self._json.take(line, number)
        elif match := _LOST.match(line):
            self._sink.count("lost_events", int(match[1]), severity="data_loss", detail="bpftrace dropped events")
        elif not _NOISE.match(line):
            self._sink.count("other_lines", detail=f"first at line {number}")

    def _comment(self, line: str, number: int) -> None:
        if not (match := _AT.fullmatch(line.rstrip())):
            self._comments.take(line)
        elif int(match[1]) > INT64_MAX:
            self._lost("numbers_beyond_64_bits", number)
        else:
            self._rows.time_ns = int(match[1])

    def _go_on(self, line: str, number: int) -> None:
        """Take one more line of a key, the last one being that with `]:`."""
        assert self._parts is not None
        place = -1
        if line[:1] not in (" ", "\t"):  # a frame may hold the same characters
            place = len(line) - 2 if line.endswith("]:") else line.rfind("]: ")
        if place < 0:
            self._parts.append(line)
            if len(self._parts) > MAX_KEY_LINES:
                self._abandon(number)
            return
        self._parts.append(line[:place])
        key, self._parts = parse_key("\n".join(self._parts)), None
        self._value(line[place + 2 :], key, number)

    def _value(self, text: str, key: Key, number: int) -> None:
        text = text.strip()
        if not text:
            self._key = key
        elif _NUMBER.fullmatch(text):
            self._rows.number(self._name, key, int(text))
        elif match := _STATS.fullmatch(text):
            self._rows.stats(self._name, key, int(match[1]), int(match[2]))
        else:
            self._sink.count("text_values", detail=f"@{self._name[:80]}, first at line {number}")

    def _belongs(self, line: str) -> bool:
        """Take a bucket or a frame of the value whose first line was empty."""
        assert self._key is not None
        if match := _BUCKET.fullmatch(line.rstrip()):
            one = match[3]  # a bucket of one value
            bounds = (one, str(int(one) + 1)) if one else (_bound(match[1]), _bound(match[2]))
            self._rows.bucket(self._name, self._key, bounds, int(match[4]))
            self._bucket_count += 1
            return True
        if not self._bucket_count and line[:1] in (" ", "\t") and line.strip() and len(self._stack) < MAX_DEPTH:
            self._stack.append(line)
            return True
        return False

    def _end_value(self) -> None:
        if self._key is not None and self._stack:
            self._rows.stack(self._name, self._key, self._stack)
        elif self._key is not None and not self._bucket_count:
            self._sink.count("values_without_a_line", detail=f"first in the map @{self._name[:80]}")
        self._key, self._stack, self._bucket_count = None, [], 0

    def _abandon(self, number: int) -> None:
        if self._parts is not None:
            self._parts = None
            self._lost("damaged_entries", number)

    def _lost(self, name: str, number: int) -> None:
        place = f"first at line {number}" if number else "at the end of the file"
        self._sink.count(name, severity="data_loss", detail=place)


def read(path: Path, sink: Sink) -> None:
    """Read `stack_samples` (keys with a stack; kernel and user part as one call path) and `metrics` (other keys).

    A map does not say what its numbers are: with a unit in its name (`@bytes`, `@alloc_bytes`, `@usecs`) they are
    weights of one occurrence, else counts. Histograms give a row a bucket.
    """
    with open_bytes(path) as stream:
        _Reader(sink).read(TextLines(stream, sink, max_line=MAX_JSON_LINE))


IMPORTER = Importer(
    name="bpftrace_maps",
    priority=39,
    title="bpftrace's maps (text and JSON)",
    source="ebpf",
    clock="unknown",
    versions="bpftrace 0.9 to 0.24: counts, sums, stats, hist, lhist, stacks as keys and values",
    produced_by="bpftrace",
    recipe="bpftrace -e 'tracepoint:kmem:kmalloc { @bytes[kstack, comm] = sum(args->bytes_alloc); }' > maps.txt",
    left_out="text and tuple values, tseries, what the script prints besides its maps",
    reference="https://github.com/bpftrace/bpftrace/blob/master/docs/language.md",
    tables=("stack_samples", "metrics", "frames", "call_paths"),
    sniff=sniff,
    read=read,
)
