"""Trace events out of text that is no JSON as it stands: cut, flipped or written wrong by its producer.

What producers are known to have written: `nan` and `inf` for numbers, bare quotes in names (PyTorch issue 146900),
bytes that are no UTF-8, lone surrogates, a comma behind the last event.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import islice, pairwise
from typing import Any

import orjson

from ingest.sink import Sink

BLANK = b" \t\r\n\0"
BOUNDARY = re.compile(rb'\}\s*(,)\s*\{\s*"[^"\\]{0,200}"\s*:')
MAX_JOINED = 64
"""Pieces that may belong to one event: what looks like the border of two events also stands in lists of objects."""
MAX_TRAILER_BYTES = 64 << 20
MAX_QUOTED_BYTES = 64 << 10

_NOT_A_NUMBER = re.compile(rb"(?<=[:,\[])(\s*)-?(?:nan|inf|infinity)(?=\s*[,}\]])", re.IGNORECASE)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_NAME = re.compile(rb'("name"\s*:\s*")((?:(?!"name"\s*:).)*?)("\s*,\s*"(?:pid|ph|cat|ts|tid)"\s*:)', re.DOTALL)
_START = re.compile(rb'\{\s*"(?:ph|name|cat|pid|ts)"\s*:')
_BARE_QUOTE = re.compile(rb'(?<!\\)"')
_END = re.compile(rb'\}\s*+,?\s*+(\])\s*+(?:,\s*"|\}\s*$|$)')
MAX_ENDS = 16
"""Places in a piece that look like the end of the array of events: lists of objects within an event do, too."""


def mended(text: bytes) -> bytes:
    """`text` with what producers write wrong put right; lengths may differ."""
    text = _NOT_A_NUMBER.sub(rb"\1null", text)
    text = _SURROGATE.sub(lambda match: match[0] if len(match[0]) == 12 else rb"\ufffd", text)
    return text.decode("utf-8", "replace").encode()


def _quoted(text: bytes) -> bytes:
    if len(text) > MAX_QUOTED_BYTES:
        return text
    text = _NAME.sub(lambda match: match[1] + _BARE_QUOTE.sub(rb"\"", match[2]) + match[3], text, count=1)
    return _CONTROL.sub(b" ", text)


def _loads(text: bytes) -> Any:
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(text)
    return None


def _is_open(text: bytes, taken: int, has_more: bool) -> bool:
    """Whether pieces that do not parse may be the first of more that do, together."""
    return has_more and taken < MAX_JOINED and text.count(b"[") > text.count(b"]")


def _beginning(text: bytes) -> tuple[Any, int]:
    """What `text` begins with, up to one of its last closing braces, and its length; (None, 0) when that is nothing."""
    end = len(text)
    for _ in range(MAX_ENDS):
        end = text.rfind(b"}", 0, end)
        if end < 0:
            break
        found = _loads(text[: end + 1])
        if found is not None:
            return found, end + 1
    return None, 0


class Pieces:
    """Reads blocks that do not parse, event by event. `is_past_events` once the array of events has ended."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.is_past_events = False
        self.trailer = b""

    def keep_trailer(self, text: bytes) -> None:
        """Keep text behind the array of events, up to a limit."""
        if len(self.trailer) + len(text) > MAX_TRAILER_BYTES:
            detail = f"keys behind the events hold more than {MAX_TRAILER_BYTES >> 20} MiB"
            self._sink.count("trailer_too_long", severity="data_loss", detail=detail)
            return
        self.trailer += text

    def parse(self, block: bytes, *, is_last: bool = False) -> list[Any]:
        """Events of a block; damage is counted. The last block may end within an event or behind a comma."""
        text = mended(block)
        whole = _loads(b"[" + text.rstrip(b", ") + b"]")
        if isinstance(whole, list):
            if text != block:
                self._sink.count("repaired_blocks", detail="numbers or texts that are no JSON")
            return whole
        return self._each(text, is_last=is_last)

    def _each(self, text: bytes, *, is_last: bool) -> list[Any]:
        cuts = [match.start(1) for match in BOUNDARY.finditer(text)]
        starts, ends = [0, *(cut + 1 for cut in cuts)], [*cuts, len(text)]
        events: list[Any] = []
        place = 0
        while place < len(starts):
            start, taken = starts[place], 1
            event = _loads(text[start : ends[place]])
            while event is None and _is_open(text[start : ends[place + taken - 1]], taken, place + taken < len(starts)):
                following = _loads(text[starts[place + taken] : ends[place + taken]])
                if isinstance(following, dict) and "ph" in following:
                    break
                taken += 1
                event = _loads(text[start : ends[place + taken - 1]])
            if event is None:
                taken = 1
                event = _loads(_quoted(text[start : ends[place]]))
                if event is not None:
                    self._sink.count("repaired_events", detail="bare quotes or control characters in texts")
            if event is None and (last := self._end(text, start, ends[place])) is not None:
                return [*events, last]
            if event is None:
                events += self._salvaged(text[start : ends[place]], is_last=is_last and place + 1 == len(starts))
            else:
                events.append(event)
            place += taken
        return events

    def _end(self, text: bytes, start: int, end: int) -> Any:
        """The last event of the array, when the array ends behind it; None when it does not."""
        for match in islice(_END.finditer(text, start, end), MAX_ENDS):
            event = _loads(text[start : match.start() + 1])
            if event is not None:
                self.is_past_events = True
                self.keep_trailer(text[match.end(1) :])
                return event
        return None

    def _salvaged(self, text: bytes, *, is_last: bool) -> list[Any]:
        """Whole events in a piece: with something behind them, or behind the beginning of another."""
        starts = [0, *(match.start() for match in islice(_START.finditer(text, 1), MAX_JOINED))]
        events = []
        for start, end in pairwise([*starts, len(text)]):
            event, length = _beginning(text[start:end])
            if isinstance(event, dict) and "ph" in event:
                events.append(event)
                start += length
            self._broken(text[start:end], is_last=is_last and end == len(text))
        return events

    def _broken(self, text: bytes, *, is_last: bool) -> None:
        text = text.strip(b", ]}" + BLANK)
        if not text:
            return
        name = "truncated_event" if is_last else "damaged_events"
        self._sink.count(name, severity="data_loss", detail=text[:80].decode("utf-8", "replace"))
