"""Unix times by the size of the number, and the dates of access logs, to ns since 1970.

Access logs write `30/Nov/2026:11:00:00 +0000` (https://httpd.apache.org/docs/2.4/mod/mod_log_config.html, %t).
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from ingest.wallclock import parse_time

_SECONDS_BELOW, _MS_BELOW, _US_BELOW = 10**11, 10**14, 10**17
_MAX_DIGITS = 40
_MAX_DATE = 80
_LOG_DATE = re.compile(r"(\d\d)/([A-Za-z]{3})/(\d{4}):(\d\d:\d\d:\d\d(?:\.\d{1,9})?)( [+-]\d{4})?", re.ASCII)


def dated(text: str) -> tuple[int, bool] | None:
    """`(ns since 1970, whether that is UTC)` of a date with a time of day, also as access logs write it; else None."""
    return _dated(text.strip()) if len(text) <= _MAX_DATE else None


@lru_cache(maxsize=1024)
def _dated(text: str) -> tuple[int, bool] | None:
    if match := _LOG_DATE.fullmatch(text):
        day, month, year, clock, zone = match.groups()
        text = f"Day {day} {month} {year} {clock}{zone or ''}"
    return parse_time(text) if text.isascii() and not text.replace(".", "").isdigit() else None


def unix_ns(value: int | float | str, unit_ns: int | None = None) -> int:
    """ns of a Unix time: in the given unit, or the one its size tells (s, ms, µs and ns since 1970 lie far apart).

    Raises ValueError for what is no number, OverflowError for one beyond any clock.
    """
    if isinstance(value, int) and unit_ns:
        return value * unit_ns
    try:
        number = Decimal(str(value).strip()[:80])
        if not number.is_finite():
            raise ValueError("not finite")
    except (InvalidOperation, ValueError) as error:
        raise ValueError(f"not a time: {str(value)[:40]!r}") from error
    if number.adjusted() > _MAX_DIGITS:
        raise OverflowError(f"{number:.3e} ns")
    return int((number * (unit_ns or _unit_by_size(number))).to_integral_value())


def _unit_by_size(value: Decimal) -> int:
    size = abs(value)
    if size < _SECONDS_BELOW:
        return 10**9
    if size < _MS_BELOW:
        return 10**6
    return 1000 if size < _US_BELOW else 1
