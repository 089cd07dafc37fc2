"""Maps in the JSON that `bpftrace -f json` prints, one object a line.

`type` is map, hist, stats or lhist's hist for maps; attached_probes, printf, time, lost_events and others besides.
https://github.com/bpftrace/bpftrace/blob/master/src/output/json.cpp
"""

from __future__ import annotations

from typing import Any

import orjson

from ingest.bpftrace_entries import Key, MapRows, parse_key
from ingest.numbers import is_whole
from ingest.sink import Sink

_START = '{"type": "'
_KINDS = frozenset(
    (
        "map",
        "hist",
        "stats",
        "attached_probes",
        "printf",
        "time",
        "lost_events",
        "value",
        "join",
        "cat",
        "syscall",
        "tseries",
    )
)


def is_json_line(line: str) -> bool:
    """Whether the line is an object of bpftrace's."""
    kind, _, rest = line[len(_START) :].partition('"') if line.startswith(_START) else ("", "", "")
    return kind in _KINDS and rest.startswith(', "data": ')


class JsonMaps:
    def __init__(self, sink: Sink, rows: MapRows) -> None:
        self._sink, self._rows = sink, rows

    def take(self, line: str, number: int) -> None:
        """One object; what is damaged is counted."""
        try:
            record = orjson.loads(line.encode("utf-8", "replace"))
        except orjson.JSONDecodeError:
            self._sink.count("damaged_rows", severity="data_loss", detail=f"no JSON, first at line {number}")
            return
        kind, data = record.get("type"), record.get("data")
        if kind == "lost_events" and isinstance(data, dict) and isinstance(data.get("events"), int):
            lost = max(data["events"], 0)
            self._sink.count("lost_events", lost, severity="data_loss", detail="bpftrace dropped events")
        elif kind in ("map", "hist", "stats") and isinstance(data, dict):
            for name, content in data.items():
                self._map(name.removeprefix("@"), content, number)
        elif kind != "attached_probes":
            self._sink.count("other_lines", detail=f"{str(kind)[:40]}, first at line {number}")

    def _map(self, name: str, content: Any, number: int) -> None:
        is_keyed = isinstance(content, dict) and not _is_stats(content)
        entries = content.items() if is_keyed else [("", content)]
        for text, value in entries:
            self._value(name, parse_key(text, ",") if is_keyed else Key(), value, number)

    def _value(self, name: str, key: Key, value: Any, number: int) -> None:
        if is_whole(value):
            self._rows.number(name, key, value)
        elif isinstance(value, dict) and _is_stats(value):
            self._rows.stats(name, key, value["count"], value["total"])
        elif isinstance(value, list) and all(isinstance(bucket, dict) for bucket in value):
            for bucket in value:
                self._bucket(name, key, bucket, number)
        elif isinstance(value, str) and value.startswith("\n"):
            self._rows.stack(name, key, [line for line in value.split("\n") if line.strip()])
        else:
            self._sink.count("text_values", detail=f"@{name[:80]}, first at line {number}")

    def _bucket(self, name: str, key: Key, bucket: dict[str, Any], number: int) -> None:
        low, high, count = bucket.get("min"), bucket.get("max"), bucket.get("count")
        if not is_whole(count) or not all(bound is None or is_whole(bound) for bound in (low, high)):
            self._sink.count("damaged_rows", severity="data_loss", detail=f"a bucket, first at line {number}")
            return
        bounds = ("..." if low is None else str(low), "..." if high is None else str(high + 1))
        self._rows.bucket(name, key, bounds, count)


def _is_stats(value: dict[str, Any]) -> bool:
    return value.keys() == {"count", "average", "total"} and all(map(is_whole, value.values()))
