"""Which key of a request log means what: the known names, and those that settings or capture.yaml map.

A map goes from our column to the log's own name, `{request_id: id, arrival_ns: ts}`; it wins over the known names. The
unit of a mapped time is the one its own name tells (`ts_ms`), else the one its size tells; `{end_ms: ts}` says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from ingest.csvrows import DELIMITERS, split_line
from ingest.errors import BadInput
from ingest.json_values import parse_json
from ingest.request_fields import (
    COUNT_KEYS,
    DURATIONS,
    KEYS,
    MAX_KEY,
    TEXT_KEYS,
    TIME_COLUMNS,
    UNIT_NS,
    Key,
    is_request,
    key_of,
)
from ingest.textlines import head_lines

MAPPABLE = (*TEXT_KEYS, *COUNT_KEYS, *TIME_COLUMNS, *DURATIONS)
"""Columns a map may name."""
_SNIFFED_LINES = 20


def _mapped_key(column: str, name: str) -> Key:
    """Where the value under `name` goes: to the column `column`, which may say the unit (`end_ms`)."""
    base, _, unit = column.rpartition("_")
    timed = f"{base}_ns"
    if timed not in (*TIME_COLUMNS, *DURATIONS) or unit not in UNIT_NS:
        return Key(column, -1)
    if unit != "ns":
        return Key(timed, -1, UNIT_NS[unit])
    return Key(timed, -1, UNIT_NS.get(key_of(name).rpartition("_")[2], UNIT_NS["s"] if timed in DURATIONS else None))


class RequestColumns:
    """Finds the column of a log's key; `mapped` goes from column to key."""

    def __init__(self, mapped: Mapping[str, str] | None = None) -> None:
        self.mapped = dict(mapped or {})
        self._own = {name.strip().lower(): _mapped_key(column, name) for column, name in self.mapped.items()}
        self._taken = {key.column for key in self._own.values()}
        self._cached = lru_cache(maxsize=4096)(self._find)

    def find(self, name: str) -> Key | None:
        """Where the value of key `name` goes, None for a key that is no column."""
        return self._cached(name) if len(name) <= MAX_KEY else None

    def _find(self, name: str) -> Key | None:
        own = self._own.get(name.strip().lower())
        if own is not None:
            return own
        key = KEYS.get(key_of(name))
        return None if key is not None and key.column in self._taken else key

    def are_request(self, names: Iterable[str]) -> bool:
        """Whether these keys make a request."""
        return is_request(names, self.find)

    def header_of(self, line: str) -> list[str] | None:
        """Names of a CSV header line of requests, None when it is none."""
        for delimiter in DELIMITERS:
            try:
                names = [name.strip() for name in split_line(line, delimiter)]
            except ValueError:
                continue
            if len(names) > 1 and self.are_request(names):
                return names
        return None

    def importer_of(self, head: bytes) -> str | None:
        """Name of the importer of a request log that only this map recognises, by the file's first bytes."""
        if not self.mapped:
            return None
        lines = [line for line in head_lines(head)[:_SNIFFED_LINES] if not line.startswith("#")]
        if lines and (names := self.header_of(lines[0])) and self._uses(names):
            return "request_csv"
        for line in lines:
            try:
                found = parse_json(line)
            except ValueError:
                continue
            if isinstance(found, dict) and self._uses(found) and self.are_request(found):
                return "request_log"
        return None

    def _uses(self, names: Iterable[str]) -> bool:
        return not self._own.keys().isdisjoint(name.strip().lower() for name in names)


def check_columns(mapped: Mapping[str, str], where: str) -> None:
    """Raises BadInput when two columns are mapped to one key, or two keys to one column."""
    columns = [_mapped_key(column, name).column for column, name in mapped.items()]
    if twice := sorted({column for column in columns if columns.count(column) > 1}):
        raise BadInput(f"request_columns maps {twice[0]!r} twice", where=where, todo="map each column once")
    names = [name.strip().lower() for name in mapped.values()]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadInput(f"request_columns names {twice[0]!r} twice", where=where, todo="map each key to one column")
