"""Times of day, as tools print them that give no date."""

from __future__ import annotations

import re

from ingest.sink import Sink

TIME_OF_DAY = r"(\d{1,2}):(\d{1,2}):(\d{1,2})"
DAY_NS = 86_400 * 10**9
_TIME = re.compile(TIME_OF_DAY, re.ASCII)


class DayTimes:
    """Times of day of one file to ns since midnight of its first day, on a clock that nobody names.

    A time far before the one above it (a night is more likely than a clock set back by hours) is of the next day.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._last: int | None = None
        self._day = 0

    def ns(self, text: str) -> int | None:
        """ns of `HH:MM:SS`, also without leading zeros; None when it is no time of day, which is counted."""
        match = _TIME.fullmatch(text)
        hours, minutes, seconds = map(int, match.groups()) if match else (24, 0, 0)
        if hours > 23 or minutes > 59 or seconds > 60:
            self._sink.count("damaged_values", severity="data_loss", detail=f"no time of day: {text[:40]!r}")
            return None
        time = ((hours * 60 + minutes) * 60 + seconds) * 10**9
        if self._last is None:
            self._sink.clock = "unknown"
        elif time < self._last - DAY_NS // 2:
            self._day += 1
        self._last = time
        detail = "times of day: ns are counted from midnight of the first day, in the host's time zone"
        self._sink.count("times_without_date", detail=detail)
        return self._day * DAY_NS + time
