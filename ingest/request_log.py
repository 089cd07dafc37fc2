"""Request logs: one JSON object a line, one line a request, as JSON Lines (https://jsonlines.org).

Keys as in `ingest/request_fields.py`; what is not a column goes to `attributes`. Times are Unix times or a date with a
time of day (UTC unless a zone is written). JSON access logs are request logs too: a client's address, the user, cookies
and query strings are left out.
"""

from __future__ import annotations

import re
from pathlib import Path

from ingest.json_values import parse_json
from ingest.opening import HEAD_BYTES
from ingest.registry import Importer
from ingest.request_fields import is_request
from ingest.request_rows import RequestRows
from ingest.sink import Sink
from ingest.textlines import head_lines, open_lines

_SNIFFED_LINES = 20
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:,]')


def sniff(head: bytes, path: Path) -> bool:
    """One of the first lines is a JSON object with the keys of a request; one longer than `head` begins like one."""
    lines = head_lines(head)[:_SNIFFED_LINES]
    for line in lines:
        try:
            found = parse_json(line)
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


def read(path: Path, sink: Sink) -> None:
    """Read `requests`; a line that is no request is counted, a damaged value in one becomes null."""
    rows = RequestRows(sink)
    with open_lines(path, sink) as lines:
        for number, line in lines:
            if not line or line.isspace():
                continue
            try:
                record = parse_json(line)
            except ValueError as error:
                detail = f"{str(error)[:120]}, first at line {number}"
                sink.count("damaged_rows", severity="data_loss", detail=detail)
                continue
            if not isinstance(record, dict) or not rows.add(record, number):
                sink.count("lines_without_request", severity="data_loss", detail=f"first at line {number}")
    rows.close()


IMPORTER = Importer(
    name="request_log",
    priority=50,
    title="Request log (JSON Lines)",
    source="request_log",
    clock="realtime",
    versions="objects with an id and two times, or one time and a status, token count or duration; access logs as JSON",
    produced_by="the serving or training process, one line a request or step; nginx with a log_format of escape=json",
    recipe="in the server: print(json.dumps({'request_id': i, 'arrival_ns': t0, 'end_ns': t1, 'status': 200}))",
    left_out="client addresses, users, cookies, secrets and query strings; all other unknown keys go to `attributes`",
    reference="https://jsonlines.org",
    tables=("requests",),
    sniff=sniff,
    read=read,
)
