"""Request logs as CSV: one row a request, columns named as the keys of `ingest/request_fields.py` or mapped.

RFC 4180 (https://www.rfc-editor.org/rfc/rfc4180) with comma, semicolon or tab. Columns that are not known go to
`attributes`, numbers as numbers. A header of tokens without times is named in the refusal, with what to map.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ingest.csvrows import DELIMITERS, CsvRows, split_line
from ingest.errors import BadInput
from ingest.numbers import MISSING, to_integer, to_real
from ingest.opening import read_head
from ingest.registry import Importer
from ingest.request_columns import RequestColumns
from ingest.request_fields import LINE_TIME, TIME_COLUMNS
from ingest.request_rows import RequestRows
from ingest.sink import Sink
from ingest.textlines import head_lines, open_lines

_COLUMNS = RequestColumns()
_NOT_OURS = frozenset(("token_index", "device_index"))
_TOKENS = frozenset(("prompt_tokens", "output_tokens"))
_TEXT = frozenset(("request_id", "status", "request_kind", "model"))


def _header_line(head: bytes) -> str:
    return next((line for line in head_lines(head) if not line.startswith("#")), "")


def _has_tokens(line: str) -> bool:
    """Whether a header names prompt and output tokens: requests, though perhaps without id and times."""
    for delimiter in DELIMITERS:
        try:
            names = split_line(line, delimiter)
        except ValueError:
            continue
        if {key.column for name in names if (key := _COLUMNS.find(name.strip()))} >= _TOKENS:
            return True
    return False


def sniff(head: bytes, path: Path) -> bool:
    """A header with the columns of a request, or with its prompt and output tokens."""
    line = _header_line(head)
    names = _COLUMNS.header_of(line)
    if names is not None:
        return _NOT_OURS.isdisjoint(name.lower() for name in names)
    return not line.startswith(("{", "[")) and _has_tokens(line)


def _value(text: str) -> Any:
    """A cell of an unknown column: a number where it is one, None where the producer had nothing."""
    text = text.strip()
    if text.lower() in MISSING:
        return None
    try:
        return to_integer(text) if text.lstrip("+-").isdecimal() else to_real(text)
    except ValueError:
        return text


def read(path: Path, sink: Sink) -> None:
    """Read `requests`; damaged rows are counted, damaged values become null.

    Raises BadInput when the header names no id or time: such rows belong to no moment.
    """
    rows = RequestRows(sink)
    line = _header_line(read_head(path))
    names = rows.columns.header_of(line)
    if names is None:
        todo = "map them with request_columns in the settings or in capture.yaml, such as {request_id: id, end_ns: ts}"
        what = f"requests without an id or a time, its columns are {line[:200]}"
        raise BadInput(what, where=str(path), todo=todo)
    found = {name.lower(): rows.columns.find(name) for name in names}
    required = tuple(
        name for name, key in found.items() if key and key.column in ("request_id", LINE_TIME, *TIME_COLUMNS)
    )
    with open_lines(path, sink) as lines:
        table = CsvRows(lines, sink, path, required)
        written = {name.lower(): name for name in reversed(names)}
        keys = [written.get(name, name) for name in table.columns]
        is_text = [(key := rows.columns.find(name)) is not None and key.column in _TEXT for name in keys]
        for number, fields in table:
            record = {}
            for name, text, keep in zip(keys, fields, is_text, strict=True):
                value = (text.strip() or None) if keep else _value(text)
                if value is not None:
                    record[name] = value
            if not rows.add(record, number):
                sink.count("lines_without_request", severity="data_loss", detail=f"first at line {number}")
    rows.close()


IMPORTER = Importer(
    name="request_csv",
    priority=51,
    title="Request log (CSV)",
    source="request_log",
    clock="realtime",
    versions="columns named as the keys of request_log, or mapped by `request_columns`; comma, semicolon, tab",
    produced_by="load generators and serving processes, one row a request",
    recipe="csv.DictWriter(file, ['request_id', 'arrival_ns', 'end_ns', 'status', 'prompt_tokens', 'output_tokens'])",
    left_out="rows of fields with line breaks in quotes, counted; client addresses, users and secrets",
    reference="https://www.rfc-editor.org/rfc/rfc4180",
    tables=("requests",),
    sniff=sniff,
    read=read,
)
