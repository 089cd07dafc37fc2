"""Records of request logs to rows of `requests`, whatever text they stood in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ingest.callpaths import clean_text
from ingest.json_values import attributes_text
from ingest.numbers import INT64_MAX, NumberReader, to_integer
from ingest.request_columns import RequestColumns
from ingest.request_fields import (
    COUNT_KEYS,
    DURATIONS,
    LINE_TIME,
    LOCATIONS,
    REQUEST_LINES,
    TEXT_KEYS,
    TIME_COLUMNS,
    Key,
    key_of,
    route_of,
    time_ns,
)
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.unixtimes import unix_ns

_ROW = (*TEXT_KEYS, *COUNT_KEYS, *TIME_COLUMNS, "attributes")
_MAX_LENGTH_NS = 2**61
_REAL_STATUS = re.compile(r"(\d{3})\.0+", re.ASCII)


class RequestRows:
    """Writes `requests`; a damaged value becomes null and is counted. Call `close` after the last record."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._numbers = NumberReader(sink)
        self._batch = RowBatch(sink, "requests", _ROW)
        self.columns = RequestColumns(sink.request_columns)

    def add(self, record: Mapping[str, Any], line: int) -> bool:
        """Write one record; False, and nothing written, when it has neither the id nor a time of a request."""
        row = _Row(self._sink, self._numbers, record, line, self.columns)
        if not row:
            return False
        self._batch.add(*row.texts(), *(row.count(column) for column in COUNT_KEYS), *row.times(), row.attributes())
        return True

    def close(self) -> None:
        self._batch.flush()
        self._numbers.settle_clock()


class _Row:
    """One record on its way to columns; keys that are not used are what `attributes` holds."""

    def __init__(
        self, sink: Sink, numbers: NumberReader, record: Mapping[str, Any], line: int, columns: RequestColumns
    ) -> None:
        self._sink, self._numbers, self._line = sink, numbers, line
        self._found: dict[str, tuple[str, Key, Any]] = {}
        self._rest: dict[str, Any] = {}
        for name, value in record.items():
            key = columns.find(name)
            if key is None or isinstance(value, dict | list):
                self._rest[name] = value
            elif value is not None:
                known = self._found.get(key.column)
                if known is not None and known[1].rank <= key.rank:
                    self._rest[name] = value
                    continue
                if known is not None:
                    self._rest[known[0]] = known[2]
                self._found[key.column] = (name, key, value)
        for column in DURATIONS:
            if column in self._found:
                self._rest[self._found[column][0]] = self._found[column][2]

    def __bool__(self) -> bool:
        """Whether the record has the id or a time of a request."""
        return not self._found.keys().isdisjoint(("request_id", LINE_TIME, *TIME_COLUMNS))

    def texts(self) -> list[str | None]:
        """Values of the text columns; the request kind of an access log is its method and route."""
        found = {column: self._text(column) for column in TEXT_KEYS}
        if found["status"] and (match := _REAL_STATUS.fullmatch(found["status"])):
            found["status"] = match[1]
        if found["request_kind"] is None:
            found["request_kind"] = self._route()
        return list(found.values())

    def _text(self, column: str) -> str | None:
        """Text of a column; numbers and booleans as JSON writes them."""
        if column not in self._found:
            return None
        value = self._found[column][2]
        if type(value) is int:
            return str(value) if abs(value) <= INT64_MAX else json.dumps(float(value))
        return clean_text(value if isinstance(value, str) else json.dumps(value))

    def _route(self) -> str | None:
        asked = {key_of(name): value for name, value in self._rest.items() if isinstance(value, str)}
        if isinstance(request := self._rest.get("request"), dict):  # as Caddy logs it
            asked |= {name: value for name, value in request.items() if isinstance(value, str)}
        for name in REQUEST_LINES & asked.keys():
            if route := route_of(asked[name]):
                return route
        method = next((asked[name] for name in sorted(REQUEST_LINES & asked.keys())), None)
        location = next((asked[name] for name in LOCATIONS if name in asked), None)
        return route_of(f"{method} {location}") if method and location else None

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

    def times(self) -> list[int | None]:
        """Values of the time columns; what is not given follows from the line's own time and from durations."""
        found = {column: self._time(column) for column in TIME_COLUMNS}
        logged = self._time(LINE_TIME)
        duration, to_first = (self._length(column) for column in DURATIONS)
        begin = found["start_ns"] if found["start_ns"] is not None else found["arrival_ns"]
        is_derived = False
        if found["end_ns"] is None:
            if begin is not None and duration is not None:
                found["end_ns"], is_derived = begin + duration, True
            elif logged is not None and (begin is None or logged >= begin):
                found["end_ns"], logged = logged, None
        if begin is None and found["end_ns"] is not None and duration is not None and duration <= found["end_ns"]:
            begin = found["start_ns"] = found["end_ns"] - duration
            is_derived = True
        if found["first_token_ns"] is None and begin is not None and to_first:  # 0: there was none
            # Counted from where the client's wait begins.
            arrival = found["arrival_ns"]
            found["first_token_ns"] = (begin if arrival is None else arrival) + to_first
            is_derived = True
        if logged is not None:
            self._rest[self._found[LINE_TIME][0]] = self._found[LINE_TIME][2]
        if is_derived:
            self._sink.count("times_from_durations", detail=f"first at line {self._line}")
        if begin is not None and found["end_ns"] is not None and found["end_ns"] < begin:
            self._sink.count("ends_before_start", severity="data_loss", detail=f"first at line {self._line}")
        return list(found.values())

    def _time(self, column: str) -> int | None:
        """Time of a column, ns, None when there is none; damage is counted."""
        if column not in self._found:
            return None
        name, key, value = self._found[column]
        try:
            ns, is_utc = time_ns(value, key.unit_ns)
        except ValueError as error:
            self._damaged(f"{name}: {error}")
            return None
        except OverflowError as error:
            self._out_of_range(name, is_negative=str(error).startswith("-"))
            return None
        self._numbers.saw_time(ns)
        if not is_utc:
            detail = "times without a zone: `clock: realtime` or an offset in capture.yaml"
            self._sink.count("local_times", detail=detail)
            self._sink.clock = "unknown"
        return ns

    def _length(self, column: str) -> int | None:
        """Duration of a column, ns, None when there is none; damage is counted."""
        if column not in self._found:
            return None
        name, key, value = self._found[column]
        if isinstance(value, str) and not value.strip().rstrip("-"):
            return None
        try:
            ns = unix_ns(value, key.unit_ns) if isinstance(value, int | float | str) else -1
        except ValueError:
            self._damaged(f"{name}: not a duration: {str(value)[:40]!r}")
            return None
        except OverflowError:
            ns = _MAX_LENGTH_NS + 1
        if isinstance(value, bool) or not 0 <= ns <= _MAX_LENGTH_NS:
            self._out_of_range(name, is_negative=ns < 0)
            return None
        return ns

    def attributes(self) -> str | None:
        """What is left, as a JSON object with sorted keys and bounded values; None when nothing is."""
        return attributes_text(self._rest, self._sink, f"line {self._line}")

    def _damaged(self, detail: str) -> None:
        detail = f"{detail}, first at line {self._line}"
        self._sink.count("damaged_values", severity="data_loss", detail=detail)

    def _out_of_range(self, key: str, *, is_negative: bool) -> None:
        name = "negative_values" if is_negative else "numbers_beyond_64_bits"
        self._sink.count(name, severity="data_loss", detail=f"{key}, first at line {self._line}")
