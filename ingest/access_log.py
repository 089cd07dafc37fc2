"""Access logs of web servers in the common and combined forms, with the fields people add behind them.

`$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"` of
https://nginx.org/en/docs/http/ngx_http_log_module.html and `%h %l %u %t "%r" %>s %b` of
https://httpd.apache.org/docs/2.4/mod/mod_log_config.html. Behind them: named fields (`rt=0.120 urt="0.118"`), bare
times of nginx (seconds with three decimals: the request, then its upstreams), and the form of ingress-nginx
(https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/log-format/). The time is the request's end
(nginx writes it then; Apache writes the start, which is known where `D=%D` tells how long it took). Who asked,
referrers, user agents and query strings are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson

from ingest.callpaths import clean_text
from ingest.numbers import INT64_MAX, NumberReader
from ingest.registry import Importer
from ingest.request_fields import UNIT_NS, key_of, route_of
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import head_lines, open_lines
from ingest.unixtimes import dated

_SNIFFED_LINES = 20
_ROW = ("request_id", "request_kind", "start_ns", "end_ns", "status", "attributes")
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(
    r"(?P<who>[^\[\"]{3,1024}?) \[(?P<time>[^\]\[\"]{19,40})\] "
    rf"(?P<request>{_QUOTED}) (?P<status>\d{{3}}|-) (?P<bytes>\d{{1,20}}|-)(?P<rest>| .*)",
    re.ASCII,
)
_FIELD = re.compile(
    # A quote or bracket that is left open takes the rest of the line. Blanks are tried from their first one only.
    r"(?<!\s)\s*+(?:(?P<name>[A-Za-z_][\w.-]*+)[=:])?"
    r'(?P<value>"[^"\\]*+(?:\\.[^"\\]*+)*(?:"|\\?$)|\[[^\]]*+(?:\]|$)|[^\s"]++)',
    re.ASCII,
)
_TIME_NAMES = {
    "duration": ("rt", "request_time", "req_time", "reqtime", "duration", "request_duration", "time", "took"),
    "upstream_seconds": ("urt", "upstream_response_time", "upstream_time", "ut", "upstream"),
    "upstream_connect_seconds": ("uct", "upstream_connect_time"),
    "upstream_header_seconds": ("uht", "upstream_header_time"),
}
_NAMED_TIMES = {name: column for column, names in _TIME_NAMES.items() for name in names}
_ID_NAMES = frozenset(("request_id", "req_id", "reqid", "rid", "id", "trace_id", "x_request_id"))
_SECONDS = re.compile(r"\d{1,9}\.\d{3}|\d{1,12}ms", re.ASCII)
_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PLAIN = re.compile(r"-?\d{1,18}(?:\.\d{1,9})?", re.ASCII)
_INGRESS = re.compile(
    r"(?P<request_length>\d+|-) (?P<duration>\d+\.\d+|-) \[(?P<upstream_name>[^\]]*)\] \[[^\]]*\] "
    r"(?P<addresses>\S+(?:(?:, | : )\S+)*) (?P<lengths>[\d-]+(?:(?:, | : )[\d-]+)*) "
    r"(?P<upstream_seconds>[\d.-]+(?:(?:, | : )[\d.-]+)*) (?P<upstream_status>[\d-]+(?:(?:, | : )[\d-]+)*) (?P<id>\S+)",
    re.ASCII,
)
_UNIT_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, None: 1.0}
_LENGTH = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(us|µs|ms|s)|(\d{1,12}\.\d{1,9})")
MAX_REST = 8192


def sniff(head: bytes, path: Path) -> bool:
    """One of the first lines is a whole access log line, with a date."""
    lines = head_lines(head)[:_SNIFFED_LINES]
    return any((match := _LINE.fullmatch(line)) and dated(match["time"]) for line in lines)


def _seconds(text: str) -> float | None:
    """Seconds in `0.120`, `120ms`, or summed over upstreams `0.1, 0.2 : 0.3`.

    None for what is no time, whole numbers without a unit among it: Apache writes µs where nginx writes seconds.
    """
    matches = [_LENGTH.fullmatch(part) for part in re.split(r"[,: ]+", text) if part not in ("", "-")]
    if not matches or not all(matches):
        return None
    return round(sum(float(match[1] or match[3]) * _UNIT_SECONDS[match[2]] for match in matches if match), 9)


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._numbers = NumberReader(sink)
        self._batch = RowBatch(sink, "requests", _ROW)

    def line(self, text: str, line: int) -> None:
        """Write one line's request; a line that is none is counted."""
        match = _LINE.fullmatch(text)
        moment = dated(match["time"]) if match else None
        if match is None or moment is None:
            self._sink.count("damaged_rows", severity="data_loss", detail=f"no access log line, first at line {line}")
            return
        end_ns, is_utc = moment
        if not is_utc:
            self._sink.count("local_times", detail="times without a zone")
            self._sink.clock = "unknown"
        self._numbers.saw_time(end_ns)
        found: dict[str, Any] = {}
        if match["bytes"] != "-" and (size := int(match["bytes"])) <= INT64_MAX:
            found["response_bytes"] = size
        self._rest(match["rest"], found, line)
        request_id = found.pop("id", None)
        duration = found.get("duration")
        start_ns = None
        if duration is not None:
            found["request_seconds"] = found.pop("duration")
            length_ns = round(duration * 1e9)
            start_ns = end_ns if found.pop("begins", False) else max(0, end_ns - length_ns)
            end_ns = start_ns + length_ns
        kind = route_of(match["request"][1:-1])
        if kind is None:
            self._sink.count("requests_without_route", detail=f"no method and path, first at line {line}")
        attributes = orjson.dumps(found, option=orjson.OPT_SORT_KEYS).decode() if found else None
        status = None if match["status"] == "-" else match["status"]
        self._batch.add(request_id, kind, start_ns, end_ns, status, attributes)

    def close(self) -> None:
        self._batch.flush()
        self._numbers.settle_clock()

    def _rest(self, rest: str, found: dict[str, Any], line: int) -> None:
        """Fields behind the size: what is a time, an id or a named number is kept."""
        if len(rest) > MAX_REST:
            self._sink.count("unread_fields", detail=f"behind {MAX_REST} characters, first at line {line}")
            rest = rest[:MAX_REST]
        matches = list(_FIELD.finditer(rest))
        fields = [(match["name"], match["value"]) for match in matches]
        quoted = [value for name, value in fields[:2] if name is None and value[0] == '"']
        if len(quoted) == 2:  # referrer and user agent
            fields = fields[2:]
            if match := _INGRESS.fullmatch(rest[matches[1].end() :].strip()):
                self._ingress(match, found)
                return
        for name, value in fields:
            value = value.strip('"[]')
            if value in ("-", ""):
                continue
            key = key_of(name) if name else ""
            base, _, unit = key.rpartition("_")
            if key in _NAMED_TIMES and (seconds := _seconds(value)) is not None:
                found[_NAMED_TIMES[key]] = seconds
            elif base in _NAMED_TIMES and unit in UNIT_NS and _PLAIN.fullmatch(value):
                found[_NAMED_TIMES[base]] = float(value) * UNIT_NS[unit] / 1e9
            elif name == "D" and value.isdecimal():  # Apache: how long in µs, and its time is the start
                found["duration"], found["begins"] = int(value[:18]) / 1e6, True
            elif value in (":", ","):
                continue
            elif key in _ID_NAMES or (not name and _ID.fullmatch(value)):
                found.setdefault("id", clean_text(value, 200))
            elif name and _PLAIN.fullmatch(value):
                found[key[:80]] = float(value) if "." in value else int(value)
            elif not name and _SECONDS.fullmatch(value.rstrip(",")):
                # nginx: $request_time, then $upstream_response_time.
                column = "upstream_seconds" if "duration" in found else "duration"
                found[column] = round(found.get(column, 0.0) + (_seconds(value) or 0.0), 9)
            else:
                self._sink.count("unread_fields", detail=f"{key or 'a field without a name'}, first at line {line}")

    def _ingress(self, match: re.Match[str], found: dict[str, Any]) -> None:
        for name in ("duration", "upstream_seconds"):
            if (seconds := _seconds(match[name])) is not None:
                found[name] = seconds
        if match["request_length"].isdecimal():
            found["request_bytes"] = int(match["request_length"][:18])
        if match["upstream_name"]:
            found["upstream"] = clean_text(match["upstream_name"], 200)
        found["upstream_status"] = clean_text(match["upstream_status"], 200)
        if match["id"] != "-":
            found["id"] = clean_text(match["id"], 200)


def read(path: Path, sink: Sink) -> None:
    """Read `requests`; a line in another form is counted."""
    reader = _Reader(sink)
    with open_lines(path, sink) as lines:
        for number, line in lines:
            if not line or line.isspace():
                continue
            if lines.is_cut:
                # A server ends every line with a line feed: without one the last value may lack digits.
                sink.count("cut_last_line", severity="data_loss", detail=f"line {number} has no line end")
                continue
            reader.line(line.rstrip(), number)
    reader.close()


IMPORTER = Importer(
    name="access_log",
    priority=53,
    title="Access log, common and combined form",
    source="access_log",
    clock="realtime",
    versions="nginx combined and main, ingress-nginx, Apache common, combined and vhost_combined; fields behind them",
    produced_by="nginx, ingress-nginx, Apache httpd",
    recipe="""log_format timed '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent'"""
    """ '"$http_referer" "$http_user_agent" rt=$request_time urt="$upstream_response_time" id=$request_id';""",
    left_out="client addresses, users, query strings, referrers, user agents; bare fields that are no nginx time or id",
    reference="https://nginx.org/en/docs/http/ngx_http_log_module.html",
    tables=("requests",),
    sniff=sniff,
    read=read,
)
