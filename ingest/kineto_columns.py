"""Lists of JSON values to Arrow columns: whole numbers, texts and times; what does not fit is null and counted."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal, localcontext
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.callpaths import MAX_TEXT, clean_text
from ingest.numbers import INT64_MAX
from ingest.sink import Sink

Int64s = npt.NDArray[np.int64]
Times: TypeAlias = "npt.NDArray[np.int64] | npt.NDArray[np.float64]"

NO_TIME = np.iinfo(np.int64).min
"""Stands for a time that is not known in arrays of numpy."""
MAX_NS = 2**62 - 1
EXACT_FRACTION = 2.0**43
"""Below it a double tells thousandths apart: 2^43 µs are 101 days."""

_NUMBER = re.compile(r"\s*([+-]?\d{1,40}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,3})?)\s*", re.ASCII)
_WHOLE = re.compile(r"\s*(0[xX][0-9a-fA-F]{1,40}|-?\d{1,40})\s*", re.ASCII)


def pick(rows: Sequence[dict[str, Any]], key: str) -> list[Any]:
    """The value at `key` of each object, None where there is none."""
    try:
        return list(map(itemgetter(key), rows))
    except KeyError:
        return [row.get(key) for row in rows]


def distinct(numbers: npt.NDArray[np.int32]) -> list[int]:
    """The different ones of small numbers from 0, rising. (np.unique would load numpy.ma, which takes its time.)"""
    return np.flatnonzero(np.bincount(numbers)).tolist()


def whole_number(value: Any) -> int | None:
    """A whole number, also written as 7.0, "7" or "0x7"; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    if isinstance(value, str) and len(value) < 48 and (match := _WHOLE.fullmatch(value)):
        return int(match[1], 0) if match[1][:2].lower() == "0x" else int(match[1])
    return None


def arguments(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`args` of each event, empty where it is no object."""
    found = pick(events, "args")
    return found if set(map(type, found)) == {dict} else [each if type(each) is dict else {} for each in found]


class Whole(NamedTuple):
    """A whole number: its key, limits and type, and whether -1 stands for none."""

    key: str
    low: int = 0
    high: int = INT64_MAX
    kind: pa.DataType = pa.int64()
    is_id: bool = False


class Columns:
    """Converts values of one file. `ns_per_unit` is what a time of 1 stands for: 1000, or 1 in traces of ns.

    Each column is made in two steps: the values of a block as an array while they are at hand, then many such parts in
    one with what does not fit taken out.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.ns_per_unit = 1000

    def numbers(self, values: list[Any], number: Whole) -> pa.Array:
        """A part of whole numbers, null for what is none (counted)."""
        try:
            return pa.array(values, number.kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return pa.array([self._number(value, number) for value in values], number.kind)

    def _number(self, value: Any, number: Whole) -> int | None:
        found = whole_number(value)
        if value is None or (found == -1 and number.is_id):
            return None
        if found is None:
            self._damaged(number.key, value)
        elif not number.low <= found <= number.high:
            self._out_of_range(number.key, value)
            found = None
        return found

    def limited(self, parts: list[pa.Array], number: Whole) -> pa.Array:
        """Parts in one; null for what lies beyond the limits (counted)."""
        found = pa.concat_arrays(parts)
        smallest, largest = (each.as_py() for each in pc.min_max(found).values())
        if smallest is None or (number.low <= smallest and largest <= number.high):
            return found
        outside = pc.or_(pc.less(found, number.low), pc.greater(found, number.high))
        is_lost = pc.and_(outside, pc.not_equal(found, -1)) if number.is_id else outside
        if lost := pc.sum(is_lost).as_py():
            example = smallest if smallest < number.low else largest
            self._out_of_range(number.key, example, lost)
        return pc.if_else(outside, pa.scalar(None, found.type), found)

    def words(self, values: list[Any]) -> pa.Array:
        """A part of texts; other values as they print."""
        try:
            return pa.array(values, pa.string())
        except (pa.ArrowException, TypeError, ValueError):
            texts = [None if v is None else clean_text(v if isinstance(v, str) else str(v)) for v in values]
            return pa.array(texts, pa.string())

    def shortened(self, parts: list[pa.Array]) -> pa.Array:
        """Parts in one, the long texts cut."""
        found = pa.concat_arrays(parts)
        if (pc.max(pc.binary_length(found)).as_py() or 0) <= MAX_TEXT:
            return found
        return pa.array([None if text is None else clean_text(text) for text in found.to_pylist()], pa.string())

    def moments(self, values: list[Any], name: str) -> Times:
        """A part of times or durations: in the file's unit as float64, or in ns as int64."""
        try:
            found: npt.NDArray[Any] = np.array(values)
        except (ValueError, OverflowError):
            found = np.empty(0, np.bool_)
        if found.ndim == 1 and found.dtype == np.float64:
            return found
        if found.ndim == 1 and found.dtype == np.int64 and np.abs(found).max(initial=0) <= MAX_NS // self.ns_per_unit:
            return found * self.ns_per_unit
        return np.array([self._time(value, name) for value in values], np.int64)

    def typed_moments(self, values: list[int | float], name: str) -> Times:
        """As `moments`, of numbers only."""
        found = np.fromiter(values, np.float64, len(values))
        return found if np.abs(found).max(initial=0) < EXACT_FRACTION else self.moments(values, name)

    def nanoseconds(self, parts: list[Times], name: str) -> Int64s:
        """Parts in one, in ns and exact; NO_TIME for what is missing, damaged or beyond 2^62."""
        if len({part.dtype for part in parts}) > 1:
            return np.concatenate([self.nanoseconds([part], name) for part in parts])
        found = np.concatenate(parts)
        if found.dtype == np.int64:
            return found.astype(np.int64, copy=False)
        limit = EXACT_FRACTION if self.ns_per_unit > 1 else 2.0**53
        if np.abs(found).max(initial=0) < limit:
            whole = np.floor(found)
            fraction = np.rint((found - whole) * self.ns_per_unit)
            return whole.astype(np.int64) * self.ns_per_unit + fraction.astype(np.int64)
        return np.array([self._time(value, name) for value in found.tolist()], np.int64)

    def times(self, values: list[Any], name: str) -> Int64s:
        """One part alone, in ns."""
        return self.nanoseconds([self.moments(values, name)], name)

    def integers(self, values: list[Any], number: Whole) -> pa.Array:
        """One part of whole numbers alone."""
        return self.limited([self.numbers(values, number)], number)

    def texts(self, values: list[Any]) -> pa.Array:
        """One part of texts alone."""
        return self.shortened([self.words(values)])

    def _time(self, value: Any, name: str) -> int:
        if value is None:
            return NO_TIME
        if (isinstance(value, float) and math.isfinite(value)) or (
            isinstance(value, int) and not isinstance(value, bool)
        ):
            exact = Decimal(value)
        elif isinstance(value, str) and (match := _NUMBER.fullmatch(value)):
            exact = Decimal(match[1])
        else:
            self._damaged(name, value)
            return NO_TIME
        if abs(exact) > MAX_NS:
            self._out_of_range(name, value)
            return NO_TIME
        with localcontext(prec=60):
            found = int((exact * self.ns_per_unit).to_integral_value())
        if abs(found) > MAX_NS:
            self._out_of_range(name, value)
            return NO_TIME
        return found

    def _damaged(self, name: str, value: Any) -> None:
        self._sink.count("damaged_values", severity="data_loss", detail=f"{name}: {str(value)[:60]}")

    def _out_of_range(self, name: str, value: Any, count: int = 1) -> None:
        self._sink.count("value_out_of_range", count, severity="data_loss", detail=f"{name}: {str(value)[:40]}")
