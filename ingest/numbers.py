"""Numbers out of text: what is not there, not a number or too large is counted, never guessed."""

from __future__ import annotations

import math
import re
from typing import TypeGuard

from ingest.sink import Sink

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
UINT64_MAX = 2**64 - 1
OLDEST_REALTIME_NS = 946_684_800 * 10**9
"""2000-01-01 UTC; a file whose times all lie before it was not recorded on the realtime clock."""

MISSING = frozenset(
    ("", "-", "n/a", "[n/a]", "na", "nan", "null", "none", "[not supported]", "not supported", "not available")
)
"""Texts, in lower case, that producers write for a value they do not have."""

_INTEGER = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_HEX = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,40}", re.ASCII)
_REAL = re.compile(r"[+-]?(\d{1,40}(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value out of JSON is a whole number; true and false are none, though Python counts with them."""
    return isinstance(value, int) and not isinstance(value, bool)


def to_integer(text: str) -> int:
    """The whole number in `text`, also when written as 426.0 or 1e9. Raises ValueError for anything else."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if not _REAL.fullmatch(text):
        raise ValueError(f"not a number: {text[:40]!r}")
    real = float(text)
    if not real.is_integer():
        raise ValueError(f"not a whole number: {text[:40]!r}")
    return int(real)


def to_real(text: str) -> float:
    """The finite number in `text`. Raises ValueError for anything else."""
    if not _REAL.fullmatch(text) or not math.isfinite(value := float(text)):
        raise ValueError(f"not a number: {text[:40]!r}")
    return value


def seconds_to_ns(text: str) -> int:
    """Seconds with a decimal point, as kernel tools print times, to whole ns without rounding. Raises ValueError."""
    whole, _, fraction = text.partition(".")
    if not (whole.isascii() and whole.isdecimal()) or (fraction and not (fraction.isascii() and fraction.isdecimal())):
        raise ValueError(f"not a time in seconds: {text[:40]!r}")
    return int(whole[:40]) * 10**9 + int(fraction[:9].ljust(9, "0"))


class NumberReader:
    """Reads numbers of one file and counts what is wrong with them."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._latest_ns: int | None = None

    def integer(self, text: str, name: str, line: int, *, damage: str = "damaged_values") -> int | None:
        """A whole number from 0 to 2^63-1; None when it is missing, damaged, negative or larger, which is counted.

        Damage is counted under `damage`; "damaged_rows" where the row is worth nothing without the number, and
        there a missing number is damage too.
        """
        if len(text) < 20 and text.isascii() and text.isdecimal() and (value := int(text)) <= INT64_MAX:
            return value  # nearly all of them
        text = text.strip()
        if text.lower() in MISSING and damage == "damaged_values":
            self._sink.count("missing_values", detail=f"{name}, first at line {line}")
            return None
        try:
            value = to_integer(text)
        except ValueError as error:
            self._sink.count(damage, severity="data_loss", detail=f"{name}: {error}, first at line {line}")
            return None
        return value if self._is_in_range(value, name, line) else None

    def real(self, text: str, name: str, line: int) -> float | None:
        """A finite number not below 0; None when it is missing, damaged or negative, which is counted."""
        if len(text) < 16 and text.isascii() and text.isdecimal():
            return float(text)
        text = text.strip()
        if text.lower() in MISSING:
            self._sink.count("missing_values", detail=f"{name}, first at line {line}")
            return None
        try:
            value = to_real(text)
        except ValueError as error:
            detail = f"{name}: {error}, first at line {line}"
            self._sink.count("damaged_values", severity="data_loss", detail=detail)
            return None
        return value if self._is_in_range(value, name, line) else None

    def address(self, text: str, name: str, line: int) -> int | None:
        """An address in hexadecimal, 0x in front or not, (nil) or (null); None when damaged, which is counted."""
        if text in ("(nil)", "(null)"):
            return 0
        if not _HEX.fullmatch(text):
            detail = f"{name}: not an address: {text[:40]!r}, first at line {line}"
            self._sink.count("damaged_rows", severity="data_loss", detail=detail)
            return None
        if (value := int(text, 16)) > UINT64_MAX:
            detail = f"{name}, first at line {line}"
            self._sink.count("numbers_beyond_64_bits", severity="data_loss", detail=detail)
            return None
        return value

    def time_ns(self, text: str, name: str, line: int) -> int | None:
        """A point in time, ns; None when there is none, which is counted as a damaged row."""
        value = self.integer(text, name, line, damage="damaged_rows")
        self.saw_time(value)
        return value

    def saw_time(self, value: int | None) -> None:
        """Remember a time for `settle_clock`."""
        if value is not None and (self._latest_ns is None or value > self._latest_ns):
            self._latest_ns = value

    def settle_clock(self) -> None:
        """After the last row: a realtime file whose times all lie before 2000 is on a clock nobody names."""
        if self._latest_ns is not None and self._latest_ns < OLDEST_REALTIME_NS and self._sink.clock == "realtime":
            self._sink.clock = "unknown"
            self._sink.count("times_not_realtime", detail=f"the latest time is {self._latest_ns} ns")

    def _is_in_range(self, value: float, name: str, line: int) -> bool:
        if value < 0:
            self._sink.count("negative_values", severity="data_loss", detail=f"{name}, first at line {line}")
            return False
        if value > INT64_MAX:
            detail = f"{name}, first at line {line}"
            self._sink.count("numbers_beyond_64_bits", severity="data_loss", detail=detail)
            return False
        return True
