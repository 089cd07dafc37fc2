"""Request logs: one JSON object a line, one line a request, as JSON Lines (https://jsonlines.org).

Keys as in `ingest/request_fields.py`; what is not a column goes to `attributes`. Times are Unix times (UTC)
or ISO 8601 text (https://datatracker.ietf.org/doc/html/rfc3339).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import orjson

from ingest.callpaths import clean_text
from ingest.numbers import INT64_MAX, NumberReader, to_integer
from ingest.opening import HEAD_BYTES
from ingest.registry import Importer
from ingest.request_fields import COUNT_KEYS, KEYS, TEXT_KEYS, TIME_COLUMNS, Key, is_request, time_ns
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import head_lines, open_lines

MAX_ATTRIBUTES = 256
MAX_ATTRIBUTE_CHARACTERS = 2048
_SNIFFED_LINES = 20
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:,]')
_ROW = (*TEXT_KEYS, *COUNT_KEYS, *TIME_COLUMNS, "attributes")


def sniff(head: bytes, path: Path) -> bool:
    """One of the first lines is a JSON object with the keys of a request; one longer than `head` begins like one."""
    lines = head_lines(head)[:_SNIFFED_LINES]
    for line in lines:
        try:
            found = _parse(line)
        except ValueError:
            continue
        if isinstance(found, dict) and is_request(found):
            return True
    return len(lines) == 1 and len(head) >= HEAD_BYTES and is_request(_outer_keys(lines[0]))


def _outer_keys(text: str) -> set[str]:
    """Keys of the outermost object of JSON text that may end anywhere."""
    keys: set[str] = set()
    depth, latest = 0, ""
    for token in _TOKEN.findall(text):
        if token in "{[":
            depth += 1
        elif token in "}]":
            depth -= 1
        elif token == ":" and depth == 1 and latest:
            keys.add(latest[1:-1])
        latest = token if token[0] == '"' else ""
    return keys


def _parse(line: str) -> Any:
    """The line's JSON. Raises ValueError, also for nesting too deep to hold."""
    try:
        return orjson.loads(line)
    except ValueError:
        # Python's own writer emits NaN, Infinity, numbers of any length and lone surrogates.
        try:
            return json.loads(line)
        except RecursionError as error:
            raise ValueError("nested too deep") from error


class _Row:
    """One log line on its way to columns; keys that are not used are what `attributes` holds."""

    def __init__(self, sink: Sink, numbers: NumberReader, record: dict[str, Any], line: int) -> None:
        self._sink, self._numbers, self._line = sink, numbers, line
        self._found: dict[str, tuple[str, Key, Any]] = {}
        self._rest: dict[str, Any] = {}
        for name, value in record.items():
            key = KEYS.get(name)
            if key is None or isinstance(value, dict | list):
                self._rest[name] = value
            elif value is not None:
                known = self._found.get(key.column)
                if known is not None and known[1].rank < key.rank:
                    self._rest[name] = value
                    continue
                if known is not None:
                    self._rest[known[0]] = known[2]
                self._found[key.column] = (name, key, value)

    def __bool__(self) -> bool:
        """Whether the line has the id or a time of a request."""
        return "request_id" in self._found or not self._found.keys().isdisjoint(TIME_COLUMNS)

    def text(self, column: str) -> str | None:
        """Text of a column; numbers and booleans as JSON writes them."""
        if column not in self._found:
            return None
        value = self._found[column][2]
        if type(value) is int:
            return str(value) if abs(value) <= INT64_MAX else json.dumps(float(value))
        return clean_text(value if isinstance(value, str) else json.dumps(value))

    def count(self, column: str) -> int | None:
        """Whole number of a column, None when there is none; damage is counted."""
        if column not in self._found:
            return None
        name, _, value = self._found[column]
        try:
            if isinstance(value, bool):
                raise ValueError("not a number")
            number = value if isinstance(value, int) else to_integer(str(value).strip())
        except ValueError as error:
            self._damaged(f"{name}: {error}")
            return None
        if not 0 <= number <= INT64_MAX:
            self._out_of_range(name, is_negative=number < 0)
            return None
        return number

    def time(self, column: str) -> int | None:
        """Time of a column, ns, None when there is none; damage is counted."""
        if column not in self._found:
            return None
        name, key, value = self._found[column]
        try:
            ns = time_ns(value, key.unit_ns)
        except ValueError as error:
            self._damaged(f"{name}: {error}")
            return None
        except OverflowError as error:
            self._out_of_range(name, is_negative=str(error).startswith("-"))
            return None
        self._numbers.saw_time(ns)
        return ns

    def attributes(self) -> str | None:
        """What is left, as a JSON object with sorted keys and bounded values; None when nothing is."""
        kept: dict[str, Any] = {}
        for key, value in sorted(self._rest.items()):
            if len(kept) >= MAX_ATTRIBUTES:
                detail = f"beyond {MAX_ATTRIBUTES} a request, first at line {self._line}"
                self._sink.count("attributes_left_out", severity="data_loss", detail=detail)
                break
            if isinstance(value, str | dict | list):
                text = value if isinstance(value, str) else _json_text(value)
                if len(text) > MAX_ATTRIBUTE_CHARACTERS:
                    self._sink.count("long_attributes", detail=f"{key[:80]} cut, first at line {self._line}")
                    value = clean_text(text, MAX_ATTRIBUTE_CHARACTERS)
            kept[key[:MAX_ATTRIBUTE_CHARACTERS]] = value
        if not kept:
            return None
        try:
            return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS).decode()
        except TypeError:
            return _portable_json(kept)

    def _damaged(self, detail: str) -> None:
        detail = f"{detail}, first at line {self._line}"
        self._sink.count("damaged_values", severity="data_loss", detail=detail)

    def _out_of_range(self, key: str, *, is_negative: bool) -> None:
        name = "negative_values" if is_negative else "numbers_beyond_64_bits"
        self._sink.count(name, severity="data_loss", detail=f"{key}, first at line {self._line}")


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "nested too deep"


def _portable_json(attributes: dict[str, Any]) -> str:
    """JSON of values orjson refuses (lone surrogates, numbers beyond 64 bits, deep nesting): those as text."""
    portable: dict[str, Any] = {}
    for key, value in attributes.items():
        is_plain = (
            value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) <= INT64_MAX)
        )
        text = value if isinstance(value, str) else _json_text(value)
        portable[clean_text(key)] = value if is_plain else clean_text(text)
    return orjson.dumps(portable, option=orjson.OPT_SORT_KEYS).decode()


def read(path: Path, sink: Sink) -> None:
    """Read `requests`; a line that is no request is counted, a damaged value in one becomes null."""
    numbers = NumberReader(sink)
    batch = RowBatch(sink, "requests", _ROW)
    with open_lines(path, sink) as lines:
        for number, line in lines:
            if not line or line.isspace():
                continue
            try:
                record = _parse(line)
            except ValueError as error:
                detail = f"{str(error)[:120]}, first at line {number}"
                sink.count("damaged_rows", severity="data_loss", detail=detail)
                continue
            row = _Row(sink, numbers, record if isinstance(record, dict) else {}, number)
            if not row:
                sink.count("lines_without_request", severity="data_loss", detail=f"first at line {number}")
                continue
            times = {column: row.time(column) for column in TIME_COLUMNS}
            start, end = times["start_ns"] or times["arrival_ns"], times["end_ns"]
            if start is not None and end is not None and end < start:
                sink.count("ends_before_start", severity="data_loss", detail=f"first at line {number}")
            texts = [row.text(column) for column in TEXT_KEYS]
            counts = [row.count(column) for column in COUNT_KEYS]
            batch.add(*texts, *counts, *times.values(), row.attributes())
    batch.flush()
    numbers.settle_clock()


IMPORTER = Importer(
    name="request_log",
    priority=50,
    title="Request log (JSON Lines)",
    source="request_log",
    clock="realtime",
    versions="objects with a request id and two times, or one time and a status or token count",
    produced_by="the serving or training process, one line a request or step",
    recipe="in the server: print(json.dumps({'request_id': i, 'arrival_ns': t0, 'end_ns': t1, 'status': 200}))",
    left_out="nothing: unknown keys go to `attributes`",
    reference="https://jsonlines.org",
    tables=("requests",),
    sniff=sniff,
    read=read,
)
