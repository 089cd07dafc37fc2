"""Times as tools and people write them into text: dates with and without a zone, `date` output, Unix times.

(Times of day without a date: `ingest.daytime`.)

A time without a zone is the recording machine's local time: its nanoseconds are counted as if it were UTC and the
file's clock stays `unknown`; capture.yaml places it, by an offset or by saying that the machine ran on UTC.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

from ingest.numbers import INT64_MAX
from ingest.sink import Sink

_LONGEST = 120
DAY_NS = 86_400 * 10**9
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MONTHS = "janfebmaraprmayjunjulaugsepoctnovdec"
_CLOCK = r"(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})(?:[.,](?P<f>\d{1,9}))?)?"
_ZONE = r"(?P<zone>Z|[A-Z]{2,5}|(?:UTC|GMT)?[+-]\d{2}:?\d{2})"
_ISO = re.compile(
    rf"(?P<year>\d{{4}})(?P<sep>[-/.]?)(?P<month>\d{{1,2}})(?P=sep)(?P<day>\d{{1,2}})[T ]\s*{_CLOCK}\s*{_ZONE}?",
    re.ASCII,
)
_CTIME = re.compile(
    rf"[A-Za-z]{{3}},? +(?:(?P<day>\d{{1,2}}) +)?(?P<month>[A-Za-z]{{3}}) +(?:(?P<day2>\d{{1,2}}) +)?"
    rf"(?:(?P<year>\d{{4}}) +)?{_CLOCK}(?: *(?P<half>[AP]M))?(?: +{_ZONE})?(?: +(?P<year2>\d{{4}}))?",
    re.ASCII,
)
_EPOCH = re.compile(r"(?P<whole>\d{9,19})(?:[.,](?P<f>\d{1,9}))?", re.ASCII)
_UTC = frozenset(("Z", "UTC", "GMT"))


@lru_cache(maxsize=64)
def _day_ns(year: int, month: int, day: int) -> int | None:
    try:
        return (date(year, month, day).toordinal() - _EPOCH_DAY) * DAY_NS
    except ValueError:
        return None


def _clock_ns(match: re.Match[str], half: str | None = None) -> int | None:
    hour, minute, second = int(match["h"]), int(match["m"]), int(match["s"] or 0)
    if half is not None:
        hour = hour % 12 + (12 if half == "PM" else 0)
    if hour > 23 or minute > 59 or second > 60:
        return None
    return (hour * 3600 + minute * 60 + second) * 10**9 + int((match["f"] or "").ljust(9, "0") or 0)


def _zone_ns(zone: str | None) -> int | None:
    """What local time is ahead of UTC, ns; None for a name that is not unique on Earth (CST)."""
    if zone is None:
        return None
    if zone in _UTC:
        return 0
    digits = zone.removeprefix("UTC").removeprefix("GMT").replace(":", "")
    if len(digits) == 5 and digits[0] in "+-":
        seconds = int(digits[1:3]) * 3600 + int(digits[3:5]) * 60
        return (-seconds if digits[0] == "-" else seconds) * 10**9
    return None


def parse_time(text: str) -> tuple[int, bool] | None:
    """`(ns since 1970, whether that is UTC)` of a date with a time, or of a Unix time in s, ms, us or ns; else None."""
    return _parse(text.strip()) if len(text) <= _LONGEST else None


@lru_cache(maxsize=1024)
def _parse(text: str) -> tuple[int, bool] | None:
    if match := _EPOCH.fullmatch(text):
        whole, fraction = match["whole"], match["f"]
        power = 9 if len(whole) <= 10 else (6 if len(whole) <= 13 else (3 if len(whole) <= 16 else 0))
        value = int(whole) * 10**power + (int(fraction.ljust(9, "0")) * 10**power // 10**9 if fraction else 0)
        return (value, True) if value <= INT64_MAX else None
    match = _ISO.fullmatch(text)
    if match is not None:
        day = _day_ns(int(match["year"]), int(match["month"]), int(match["day"]))
        clock = _clock_ns(match)
    else:
        match = _CTIME.fullmatch(text)
        if match is None:
            return None
        year, day_text = match["year"] or match["year2"], match["day"] or match["day2"]
        place = _MONTHS.find(match["month"].lower())
        if year is None or day_text is None or place % 3:
            return None
        day, clock = _day_ns(int(year), place // 3 + 1, int(day_text)), _clock_ns(match, match["half"])
    if day is None or clock is None or day < 0:
        return None
    ahead = _zone_ns(match["zone"])
    return (day + clock - (ahead or 0), ahead is not None)


class WallClock:
    """Reads the times of one file and settles what clock they are on.

    Its first times decide whether they are UTC or local; one of the other sort would lie hours off and is counted and
    left out.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._is_utc: bool | None = None
        self._of_that_sort = 0
        self._latest_ns: int | None = None

    def time_ns(self, text: str, line: int, *, is_utc: bool = False) -> int | None:
        """A point in time, ns; None when `text` is none, which is counted. `is_utc`: the producer says so elsewhere."""
        found = parse_time(text)
        if found is None:
            self._damaged(f"{text.strip()[:40]!r}, first at line {line}")
            return None
        return self.known_ns(found[0], line, is_utc=found[1] or is_utc)

    def known_ns(self, ns: int, line: int, *, is_utc: bool) -> int | None:
        """A time that `parse_time` found."""
        if self._is_utc is not None and self._is_utc != is_utc:
            self._damaged(f"times with and without a zone in one file, first at line {line}")
            if self._of_that_sort > 1:
                return None
            self._of_that_sort = 0
        self._is_utc = is_utc
        self._of_that_sort += 1
        if self._latest_ns is not None and ns < self._latest_ns:
            self._sink.count("times_go_back", detail=f"a clock change, or files joined; first at line {line}")
        self._latest_ns = ns
        return ns

    def settle(self) -> None:
        """After the last row: the file's clock is realtime when its times said so, else unknown."""
        self._sink.clock = "realtime" if self._is_utc else "unknown"
        if self._is_utc is False:
            self._sink.count(
                "local_times", detail="times without a zone: `clock: realtime` or an offset in capture.yaml"
            )

    def _damaged(self, detail: str) -> None:
        self._sink.count("damaged_times", severity="data_loss", detail=detail)
