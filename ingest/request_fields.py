"""The keys request logs use for the same few things, and the times they write, to our columns.

Keys by name of the producers: OpenAI-style `usage` names (prompt_tokens, completion_tokens,
https://platform.openai.com/docs/api-reference/chat/object), vLLM's benchmark (prompt_len, output_len,
https://github.com/vllm-project/vllm/blob/main/vllm/benchmarks/serve.py) and access logs (status_code, and the
variables of https://nginx.org/en/docs/http/ngx_http_log_module.html). A line's own time (`timestamp`, `msec`) is
the request's end: a line with an outcome is written when the request is over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from ingest.callpaths import clean_text
from ingest.numbers import INT64_MAX
from ingest.privacy import without_query
from ingest.unixtimes import dated, unix_ns

TEXT_KEYS: dict[str, tuple[str, ...]] = {
    "request_id": ("request_id", "requestid", "req_id", "reqid", "id", "rid", "http_x_request_id", "x_request_id"),
    "status": ("status", "status_code", "statuscode", "http_status", "response_code"),
    "request_kind": ("kind", "request_kind", "request_type", "type"),
    "model": ("model", "model_name", "model_id"),
}
COUNT_KEYS: dict[str, tuple[str, ...]] = {
    "prompt_tokens": (
        "prompt_tokens", "prompt_len", "input_tokens", "input_len", "num_prompt_tokens", "p_tokens",
    ),
    "output_tokens": (
        "output_tokens", "output_len", "completion_tokens", "generated_tokens", "num_output_tokens",
        "num_generation_tokens", "d_tokens",
    ),
    "process_id": ("process_id", "pid"),
}  # fmt: skip
_TIME_NAMES: dict[str, tuple[str, ...]] = {
    "arrival_ns": ("arrival", "arrival_time", "arrived", "arrived_at", "received", "received_at", "enqueued_at"),
    "start_ns": ("start", "start_time", "started", "started_at", "scheduled", "scheduled_time"),
    "first_token_ns": ("first_token", "first_token_time", "first_token_at"),
    "end_ns": ("end", "end_time", "ended", "ended_at", "finish", "finish_time", "finished", "finished_at"),
}
LINE_TIME = "logged_ns"
_LINE_TIMES = ("timestamp", "ts", "time", "datetime", "date_time", "logged_at", "time_iso8601", "time_local", "msec")
_DURATIONS: dict[str, tuple[str, ...]] = {
    "duration_ns": (
        "duration", "latency", "e2e_latency", "total_time", "total_latency", "request_time", "request_latency",
        "response_time", "elapsed", "elapsed_time", "took",
    ),
    "first_token_after_ns": ("time_to_first_token", "ttft", "first_token_latency"),
}  # fmt: skip
UNIT_NS: dict[str, int] = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "sec": 1_000_000_000,
    "secs": 1_000_000_000,
    "seconds": 1_000_000_000,
}


class Key(NamedTuple):
    """Where a key's value goes; of several keys of one column the lowest `rank` is used."""

    column: str
    rank: int
    unit_ns: int | None = None


def _keys() -> dict[str, Key]:
    keys = {
        key: Key(column, rank)
        for columns in (TEXT_KEYS, COUNT_KEYS)
        for column, names in columns.items()
        for rank, key in enumerate(names)
    }
    for column, names in (_TIME_NAMES | {LINE_TIME: _LINE_TIMES}).items():
        keys |= {key: Key(column, rank, unit) for rank, (key, unit) in enumerate(_spelled(names) + _bare(names))}
    for column, names in _DURATIONS.items():
        keys |= {key: Key(column, rank, unit) for rank, (key, unit) in enumerate(_spelled(names))}
    keys["request_time"] = Key("duration_ns", len(keys), UNIT_NS["s"])  # as nginx and ingress-nginx write it
    return keys


def _spelled(names: tuple[str, ...]) -> list[tuple[str, int | None]]:
    return [(f"{name}_{unit}", ns) for unit, ns in UNIT_NS.items() for name in names]


def _bare(names: tuple[str, ...]) -> list[tuple[str, int | None]]:
    return [(name, None) for name in names]


TIME_COLUMNS = tuple(_TIME_NAMES)
DURATIONS = tuple(_DURATIONS)
KEYS = _keys()
"""Key of a log line (see `key_of`) → its column. A time's unit is None where the key does not name it."""
_OUTCOMES = frozenset(("status", "prompt_tokens", "output_tokens"))
REQUEST_LINES = frozenset(("request", "request_line", "method", "request_method", "http_method"))
LOCATIONS = ("route", "uri", "path", "request_uri", "url", "endpoint", "target")

_NOT_WORD = re.compile(r"[^0-9a-z]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_REQUEST_LINE = re.compile(r"([A-Z]{3,16})\s+(\S.*?)(?:\s+HTTP/[\d.]+)?")
MAX_ROUTE = 512
_MAX_REQUEST_LINE = 2048
MAX_KEY = 120


def key_of(name: str) -> str:
    """A key as KEYS spells it: `requestId`, `Request ID` and `request-id` are `request_id`."""
    return _key_of(name[:MAX_KEY])


@lru_cache(maxsize=4096)
def _key_of(name: str) -> str:
    return _NOT_WORD.sub("_", _CAMEL.sub("_", name.strip()).lower()).strip("_")


def is_request(names: Iterable[str], find: Callable[[str], Key | None] | None = None) -> bool:
    """Whether an object with these keys is a request: an id and two of its times, or one with its outcome.

    Without an id: a line of an access log, with its time, its status, and how long it took or what was asked for.
    """
    names = list(names)
    found = [key.column for name in names if (key := find(name) if find else KEYS.get(key_of(name)))]
    columns = frozenset(found)
    times = len(columns.intersection((*TIME_COLUMNS, LINE_TIME)))
    lengths = columns.intersection(DURATIONS)
    if "request_id" in columns and times and (times + len(lengths) > 1 or not columns.isdisjoint(_OUTCOMES)):
        return True
    asked = any(key_of(name) in REQUEST_LINES for name in names)
    return times > 0 and "status" in columns and (bool(lengths) or asked)


def route_of(request_line: str) -> str | None:
    """Method and route of a request line, `POST /v1/completions`, without query string; None when it is none."""
    return _route_of(request_line.strip()[:_MAX_REQUEST_LINE])


@lru_cache(maxsize=4096)
def _route_of(request_line: str) -> str | None:
    match = _REQUEST_LINE.fullmatch(request_line)
    if match is None:
        return None
    target = without_query(match[2])
    if "://" in target:
        target = "/" + target.split("://", 1)[1].partition("/")[2]
    return clean_text(f"{match[1]} {target}", MAX_ROUTE)


def time_ns(value: Any, unit_ns: int | None) -> tuple[int, bool]:
    """A point in time as ns, and whether that is UTC: a number, or a date with a time of day that may lack its zone.

    A number is in the given unit, or the one its size tells. Raises ValueError for what is no time, OverflowError
    beyond 64 bits.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"not a time: {str(value)[:40]!r}")
    ns, is_utc = (dated(value) if isinstance(value, str) else None) or (unix_ns(value, unit_ns), True)
    if not 0 <= ns <= INT64_MAX:
        raise OverflowError(f"{ns} ns")
    return ns, is_utc
