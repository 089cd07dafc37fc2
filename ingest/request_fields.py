"""The keys request logs use for the same few things, and the times they write, to our columns.

Keys by name of the producers: OpenAI-style `usage` names (prompt_tokens, completion_tokens,
https://platform.openai.com/docs/api-reference/chat/object), vLLM's benchmark (prompt_len, output_len,
https://github.com/vllm-project/vllm/blob/main/vllm/benchmarks/serve.py) and access logs (status_code).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from ingest.numbers import INT64_MAX

TEXT_KEYS: dict[str, tuple[str, ...]] = {
    "request_id": ("request_id", "requestId", "req_id", "id", "rid"),
    "status": ("status", "status_code", "statusCode", "http_status"),
    "request_kind": ("kind", "request_kind", "request_type", "type"),
    "model": ("model", "model_name", "model_id"),
}
COUNT_KEYS: dict[str, tuple[str, ...]] = {
    "prompt_tokens": ("prompt_tokens", "prompt_len", "input_tokens", "input_len", "num_prompt_tokens"),
    "output_tokens": (
        "output_tokens", "output_len", "completion_tokens", "generated_tokens", "num_output_tokens",
    ),
    "process_id": ("process_id", "pid"),
}  # fmt: skip
_TIME_NAMES: dict[str, tuple[str, ...]] = {
    "arrival_ns": ("arrival", "arrival_time", "arrived", "arrived_at", "received", "received_at", "enqueued_at"),
    "start_ns": ("start", "start_time", "started", "started_at", "scheduled", "scheduled_time"),
    "first_token_ns": ("first_token", "first_token_time", "first_token_at"),
    "end_ns": ("end", "end_time", "ended", "ended_at", "finish", "finish_time", "finished", "finished_at"),
}
_UNIT_NS: dict[str, int | None] = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


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
    for column, names in _TIME_NAMES.items():
        spelled = [(f"{name}_{unit}", ns) for unit, ns in _UNIT_NS.items() for name in names]
        spelled += [(name, None) for name in names]
        keys |= {key: Key(column, rank, unit) for rank, (key, unit) in enumerate(spelled)}
    return keys


TIME_COLUMNS = tuple(_TIME_NAMES)
KEYS = _keys()
"""Key of a log line → its column. A time's unit is None where the key does not name it."""
_OUTCOMES = frozenset(("status", "prompt_tokens", "output_tokens"))

_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?\s*(Z|[+-]\d\d:?\d\d)?", re.IGNORECASE | re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_BELOW, _MS_BELOW, _US_BELOW = 10**11, 10**14, 10**17


def is_request(keys: Iterable[str]) -> bool:
    """Whether an object with these keys is a request: an id, and two of its times or one with its outcome."""
    columns = {KEYS[key].column for key in keys if key in KEYS}
    times = len(columns.intersection(TIME_COLUMNS))
    return "request_id" in columns and (times > 1 or (times == 1 and not columns.isdisjoint(_OUTCOMES)))


def _unit_by_size(value: Decimal) -> int:
    """ns a unit of a Unix time whose key names none: seconds, ms, µs and ns since 1970 lie far apart."""
    size = abs(value)
    if size < _SECONDS_BELOW:
        return 10**9
    if size < _MS_BELOW:
        return 10**6
    return 1000 if size < _US_BELOW else 1


def time_ns(value: Any, unit_ns: int | None) -> int:
    """A point in time as ns: a number in the given unit (or the one its size tells), or ISO 8601 text.

    Text without a zone is taken as UTC. Raises ValueError for what is no time, OverflowError beyond 64 bits.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"not a time: {str(value)[:40]!r}")
    if isinstance(value, int) and unit_ns:
        ns = value * unit_ns
    elif isinstance(value, str) and (match := _ISO.fullmatch(value.strip())):
        day, clock, fraction, zone = match.groups()
        since = datetime.fromisoformat(f"{day}T{clock}{(zone or 'Z').upper()}") - _EPOCH
        ns = (since.days * 86_400 + since.seconds) * 10**9 + int((fraction or "").ljust(9, "0"))
    else:
        try:
            number = Decimal(str(value).strip()[:80])
            ns = int((number * (unit_ns or _unit_by_size(number))).to_integral_value())
        except (InvalidOperation, OverflowError, ValueError) as error:  # text, or NaN and infinity
            raise ValueError(f"not a time: {str(value)[:40]!r}") from error
    if not 0 <= ns <= INT64_MAX:
        raise OverflowError(f"{ns} ns")
    return ns
