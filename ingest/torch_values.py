"""Values out of an unpickled snapshot, where anything may stand in for anything: what does not fit is counted."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from reprlib import Repr
from typing import Any, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from ingest.callpaths import clean_text
from ingest.sink import Sink

MAX_TEXT = 1024
Limits = tuple[int, int]

# Far above what exists, and low enough that sums of times, and of an address and a size, stay within int64.
INT64: Limits = (-(2**63), 2**63 - 1)
ADDRESS: Limits = (0, 2**62)
BYTES: Limits = (0, 2**46)
TIME_US: Limits = (0, 2**62 // 1000)
DEVICE: Limits = (0, 2**31 - 1)


def is_integer(value: Any, limits: Limits) -> TypeGuard[int]:
    """Whether a value is a whole number within limits (bool is none)."""
    return type(value) is int and limits[0] <= value <= limits[1]


def column(events: Sequence[dict[str, Any]], key: str) -> list[Any]:
    """One key of many dicts, None where it is absent."""
    try:
        return list(map(itemgetter(key), events))
    except KeyError:
        return [event.get(key) for event in events]


def integers(sink: Sink, values: list[Any], limits: Limits = INT64, kind: pa.DataType | None = None) -> pa.Array:
    """Arrow integers (int64 unless said); what is no whole number within limits becomes null and is counted."""
    kind = kind or pa.int64()
    if set(map(type, values)) <= {int, type(None)}:  # Arrow's refusal would print the value, however nested it is
        try:
            array = pa.array(values, type=kind)
        except (pa.ArrowException, OverflowError):
            pass
        else:
            smallest, largest = pc.min_max(array).values()
            if not smallest.is_valid or (limits[0] <= smallest.as_py() and largest.as_py() <= limits[1]):
                return array
    good = [value if is_integer(value, limits) else None for value in values]
    lost = [value for value, kept in zip(values, good, strict=True) if kept is None and value is not None]
    numbers = sum(type(value) is int for value in lost)
    sink.count("value_not_an_integer", len(lost) - numbers, severity="data_loss")
    sink.count("value_out_of_range", numbers, severity="data_loss", detail=f"not within {limits[0]} to {limits[1]}")
    return pa.array(good, type=kind)


_bounded = Repr()
_bounded.maxlevel, _bounded.maxdict, _bounded.maxlist, _bounded.maxtuple = 3, 64, 64, 64
_bounded.maxstring = _bounded.maxother = _bounded.maxlong = 4000


def short_text(value: Any, limit: int = MAX_TEXT) -> str:
    """Text of any value; nesting is cut, since a few bytes of pickle can nest lists that take forever to print."""
    try:
        return clean_text(value if isinstance(value, str) else _bounded.repr(value), limit)
    except ValueError:  # Python prints no number of more than 4,300 digits
        return "a number too long to print"


def texts(values: list[Any], absent: str = "") -> pa.Array | list[str | None]:
    """Text columns; `absent` stands for no value."""
    if values.count(absent) + values.count(None) == len(values):
        return pa.nulls(len(values), pa.string())
    return [None if value is None or value == absent else short_text(value) for value in values]
