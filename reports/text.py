"""Numbers and names as a person reads them. Bytes are decimal: 1 MB is 1,000,000 bytes."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

NOT_KNOWN = "not known"

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_INVISIBLE = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
OLDEST_DATE_NS = 946_684_800 * 10**9
"""2000-01-01 UTC: earlier times are counted from the start of a machine or a recording."""


def bytes_text(value: float | None) -> str:
    """Three significant digits with a decimal unit: 14512128 is `14.5 MB`."""
    if value is None:
        return NOT_KNOWN
    size, unit = float(abs(value)), 0
    while size >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    digits = 0 if unit == 0 or size >= 99.95 else 1 if size >= 9.995 else 2
    number = f"{size:.{digits}f}"
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return f"{'−' if value < 0 else ''}{number} {_BYTE_UNITS[unit]}"


def exact_bytes(value: float | None) -> str:
    """`14,512,128 bytes`."""
    return NOT_KNOWN if value is None else f"{value:,.0f} bytes"


def count_text(value: float | None) -> str:
    """`1,250`."""
    return NOT_KNOWN if value is None else f"{value:,.0f}"


def plural(count: int, noun: str) -> str:
    """`1 request`, `18 requests`, `2 processes`, `3 families`."""
    if count == 1:
        return f"1 {noun}"
    many = noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith("s") else "s")
    return f"{count:,} {many}"


def share_text(value: float | None) -> str:
    """A ratio as a percentage that never rounds to certainty: 0.9996 is `> 99 %`."""
    if value is None:
        return NOT_KNOWN
    if 0.995 <= value < 1:
        return "> 99 %"
    if 0 < value < 0.005:
        return "< 1 %"
    return f"{value * 100:.0f} %"


def p_value_text(value: float | None) -> str:
    """`p = 0.004`, `p < 0.001`."""
    if value is None:
        return NOT_KNOWN
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def duration_text(value: float | None) -> str:
    """Nanoseconds in the unit that reads best."""
    if value is None:
        return NOT_KNOWN
    size, sign = abs(value), "−" if value < 0 else ""
    for limit, divisor, unit in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms"), (120e9, 1e9, "s")):
        if size < limit:
            return f"{sign}{size / divisor:.3g} {unit}"
    for limit, divisor, unit in ((7200e9, 60e9, "min"), (172800e9, 3600e9, "h")):
        if size < limit:
            return f"{sign}{size / divisor:.1f} {unit}"
    return f"{sign}{size / 86400e9:.1f} days"


def place_text(*, rank: int | None = None, process_id: int | None = None, device_index: int | None = None) -> str:
    """`rank 1, process 426, device 0`, as far as known; a negative process id stands for one that no file names."""
    process = None
    if process_id is not None:
        process = f"process {process_id}" if process_id >= 0 else f"unnamed process {-process_id}"
    named = (None if value is None else f"{name} {value}" for name, value in (("rank", rank), ("device", device_index)))
    first, last = named
    return ", ".join(part for part in (first, process, last) if part)


def epoch_noun(kind: str | None) -> str:
    """What one epoch of a kind is called: request, step; one of a range family is a range."""
    noun = tidy(kind or "epoch", 40).replace("_", " ")
    return "range" if noun == "range family" else noun


def utc_text(ts_ns: int | None) -> str:
    """`2026-11-30 13:48:02 UTC`; `50.286 s, no date` on a clock without one; what no calendar has is given in ns."""
    if ts_ns is None:
        return NOT_KNOWN
    if 0 <= ts_ns < OLDEST_DATE_NS:
        return f"{ts_ns / 1e9:.3f} s, no date"
    try:
        moment = datetime.fromtimestamp(ts_ns // 1_000_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ts_ns} ns"
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def tidy(value: object, limit: int = 200) -> str:
    """Text of a capture made harmless to read: cut to `limit` characters, invisible ones spelled out.

    Direction marks, line breaks, terminal escapes and alike become `\\u202e`: they could make a name look
    like another one. HTML is left to the template, which escapes everything.
    """
    text = "" if value is None else str(value)
    shown = text if len(text) <= limit else text[: max(0, limit - 1)] + "…"
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(
        f"\\u{ord(c):04x}" if unicodedata.category(c) in _INVISIBLE and c != "\t" else " " if c == "\t" else c
        for c in shown
    )


def tidy_middle(value: object, limit: int = 90) -> str:
    """Like `tidy`, but cuts the middle: the end of a path tells more than its start."""
    text = "" if value is None else str(value)
    if len(text) > limit:
        text = text[: limit // 3] + "…" + text[-(limit - limit // 3 - 1) :]
    return tidy(text, limit)
