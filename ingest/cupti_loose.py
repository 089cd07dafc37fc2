"""Reads a run of lines one by one: for damaged, foreign or loosely typed lines among CUPTI records."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson
import polars as pl

from ingest.callpaths import clean_text
from ingest.cupti_enums import COLUMNS, ENUM_NUMBERS, NESTED
from ingest.cupti_lines import Count, LineRun

FLAT_SCHEMA: dict[str, Any] = {"kind": pl.String, **COLUMNS}

LIMITS = {pl.Int64: (-(1 << 63), (1 << 63) - 1), pl.UInt64: (0, (1 << 64) - 1)}
_NUMBER = re.compile(r"-?\d{1,20}|0x[0-9a-fA-F]{1,16}")
_BLANK = b" \t\r\n\0"


def parse_line(line: bytes) -> dict[str, Any] | None:
    """The JSON object on a line, or None. Takes what Python's json writes besides JSON: NaN, lone surrogates."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            found = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) else None


class LooseReader:
    """Reads runs line by line and counts what each line lacks; `count` as `Sink.count`."""

    def __init__(self, count: Count) -> None:
        self._count = count

    def read(self, run: LineRun) -> pl.DataFrame:
        """The records of the run: FLAT_SCHEMA and `event_index`, the number of the line from 0."""
        rows = []
        lines = run.data.split(b"\n")[: len(run.ends)]
        for number, line in enumerate(lines, run.first_line):
            text = line.strip(_BLANK)
            record = parse_line(text) if text.startswith(b"{") else None
            if record is None:
                self._count_line(line, text, number, is_cut=run.is_open and number == run.first_line + len(lines) - 1)
                continue
            if not _is_utf8(text):
                self._count("lines_not_utf8", detail=f"the first is line {number + 1}; its odd bytes are replaced")
            rows.append({"event_index": number, **self._values(record, number)})
        schema = {"event_index": pl.Int64, **FLAT_SCHEMA}
        return pl.DataFrame(rows, schema=schema, orient="row") if rows else pl.DataFrame(schema=schema)

    def _count_line(self, line: bytes, text: bytes, number: int, *, is_cut: bool) -> None:
        first = f"the first is line {number + 1}"
        if not text:
            if b"\0" in line:
                self._count("zeroed_lines", severity="data_loss", detail=first)
            else:
                self._count("blank_lines", detail=first)
        elif is_cut:
            self._count("truncated_last_line", severity="data_loss", detail=f"line {number + 1} ends early")
        elif b'":' in text or text[:1] in b"{}[":
            self._count("damaged_lines", severity="data_loss", detail=first)
        else:
            self._count("text_lines", detail=f"{first}: {text[:80].decode('utf-8', 'replace')}")

    def _values(self, record: Mapping[str, Any], number: int) -> dict[str, Any]:
        flat = dict(record)
        for outer, parts in NESTED.items():
            inside = record.get(outer)
            if isinstance(inside, Mapping):
                inside = inside.get("pt", inside)
                flat |= {name: inside.get(key) for key, name in parts.items() if isinstance(inside, Mapping)}
        values = {}
        for name, value in flat.items():
            if value is None or name not in FLAT_SCHEMA:
                continue
            dtype = FLAT_SCHEMA[name]
            values[name] = _text(value) if dtype is pl.String else whole_number(name, value, *LIMITS[dtype])
            if values[name] is None:
                detail = f"{str(record.get('kind'))[:40]}.{name} = {str(value)[:40]} in line {number + 1}"
                self._count("values_not_read", severity="data_loss", detail=clean_text(detail))
        return values


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode("utf-8")


def whole_number(name: str, value: object, low: int, high: int) -> int | None:
    """The value as a whole number within the limits: from a number, its text, or the name of an enumeration value."""
    number: int | None = None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53):
        number = int(value)
    elif isinstance(value, str):
        text = value.strip()
        number = int(text, 0 if text[:2] == "0x" else 10) if _NUMBER.fullmatch(text) else ENUM_NUMBERS.get((name, text))
    return number if number is not None and low <= number <= high else None


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
