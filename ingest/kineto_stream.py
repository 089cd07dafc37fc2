"""Trace events out of a Chrome trace's bytes, block by block, in bounded memory and whatever happened to the file.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format): an
object with `traceEvents` or the bare array, which may lack its end. A block is cut where one event ends and the next
begins and is parsed as a whole; only a block that does not parse is taken apart into events.
"""

from __future__ import annotations

import codecs
import io
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import orjson

from ingest.errors import BadInput
from ingest.kineto_columns import EXACT_FRACTION
from ingest.kineto_repair import BLANK, BOUNDARY, Pieces, mended
from ingest.kineto_typed import TypedBlock, TypedReader
from ingest.opening import DAMAGED_STREAM, open_bytes
from ingest.sink import Sink
from ingest.textlines import encoding_of

Event = dict[str, Any]

PIECE_BYTES = 128 * 1024
"""Small enough that a block's objects stay in the processor's cache."""
MAX_EVENT_BYTES = 8 << 20
MAX_HEADER_BYTES = 32 << 20

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*(.)', re.DOTALL)
_EVENT_BOUNDARY = re.compile(rb'\}\s*(,)\s*\{\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp|sf|tdur)"\s*:')
_TRAILING_COMMA = re.compile(rb",(\s*[}\]])")
_LONG_TIME = re.compile(rb'("ts"\s*:\s*)(\d{13,40}\.\d{1,40})')
"""Times since 1970 in µs with a fraction: kept as text, since a double would round them."""
_SEARCH_BYTES = 8192


class EventStream:
    """Iterates lists of events. `header` holds the keys before the events, `trailer` those after them, once read.

    After `take_typed` some lists are a TypedBlock. Damage is counted in `sink`. Raises BadInput when the file holds no
    array of events.
    """

    def __init__(self, path: Path, sink: Sink) -> None:
        self._path, self._sink = path, sink
        self.header: Event = {}
        self.trailer: Event = {}
        self._is_array = self._has_long_times = False
        self._pieces = Pieces(sink)
        self._typed: TypedReader | None = None

    def take_typed(self) -> None:
        """From here on blocks may be decoded by type."""
        self._typed = self._typed or TypedReader()

    def __iter__(self) -> Iterator[list[Event] | TypedBlock]:
        with open_bytes(self._path) as stream:
            try:
                pieces = self._chunks(cast("io.BufferedReader", stream))
                yield from self._blocks(self._read_header(pieces), pieces)
            except OSError as error:
                todo = "check the disk, or copy the file again"
                raise BadInput(error.strerror or str(error), where=str(self._path), todo=todo) from error

    def _chunks(self, stream: io.BufferedReader) -> Iterator[bytes]:
        """Pieces of UTF-8 text, without byte order mark; of one size, so that packing changes no block."""
        decoder: codecs.IncrementalDecoder | None = None
        is_first = True
        for data in self._pieces_of(stream):
            if is_first:
                is_first = False
                codec, skip = encoding_of(data)
                data = data[skip:]
                if codec != "utf-8":
                    decoder = codecs.getincrementaldecoder(codec)("replace")
                    self._sink.count("other_encoding", detail=f"read as {codec}")
            yield data if decoder is None else decoder.decode(data).encode()

    def _pieces_of(self, stream: io.BufferedReader) -> Iterator[bytes]:
        piece = b""
        try:
            while data := stream.read1(PIECE_BYTES - len(piece)):
                piece = piece + data if piece else data
                if len(piece) == PIECE_BYTES:
                    yield piece
                    piece = b""
        except DAMAGED_STREAM as error:
            self._sink.count("truncated_stream", severity="data_loss", detail=str(error))
        if piece:
            yield piece

    def _read_header(self, pieces: Iterator[bytes]) -> bytes:
        """Read up to the first event; what of it was read already is returned."""
        text = b""
        for piece in pieces:
            text = (text + piece).lstrip(BLANK)
            if text[:1] == b"[":
                self._is_array = True
                return text[1:]
            # a few bytes more than a piece: the key may stand across the border
            if match := _EVENTS.search(text, max(0, len(text) - len(piece) - 64)):
                if match[1] != b"[":
                    raise BadInput("`traceEvents` is no array", where=str(self._path), todo="record the trace again")
                self.header = self._keys(text[: match.start()] + b'"":0}', "damaged_header")
                return text[match.end() :]
            if len(text) > MAX_HEADER_BYTES:
                break
        raise BadInput("no `traceEvents` in it", where=str(self._path), todo="record the trace again")

    def _keys(self, text: bytes, damage: str) -> Event:
        """Keys of an object's text; those of Kineto that are numbers also out of damaged text."""
        for is_mended in (False, True):
            with suppress(orjson.JSONDecodeError):
                found = orjson.loads(_TRAILING_COMMA.sub(rb"\1", mended(text)) if is_mended else text)
                if isinstance(found, dict):
                    found.pop("", None)
                    return found
        self._sink.count(damage, severity="data_loss", detail="keys beside the events")
        numbers = re.findall(rb'"(baseTimeNanoseconds|schemaVersion)"\s*:\s*(\d{1,19})\b', text)
        return {key.decode(): int(value) for key, value in numbers}

    def _blocks(self, rest: bytes, pieces: Iterator[bytes]) -> Iterator[list[Event] | TypedBlock]:
        skipping = False
        for piece in pieces:
            rest += piece
            if self._pieces.is_past_events:
                self._pieces.keep_trailer(rest)
                rest = b""
            elif cut := _last_boundary(rest):
                block, rest = rest[: cut - 1], rest[cut:]
                if skipping and (match := BOUNDARY.search(block)):
                    block = block[match.start(1) + 1 :]
                elif skipping:
                    block = b""
                skipping = False
                yield self._parsed(block)
            elif len(rest) > MAX_EVENT_BYTES:
                if not skipping:
                    detail = f"events longer than {MAX_EVENT_BYTES >> 20} MiB, or bytes that are no events"
                    self._sink.count("long_events", severity="data_loss", detail=detail)
                rest, skipping = rest[-_SEARCH_BYTES:], True
        if not skipping:
            yield self._last(rest)
        if self._pieces.trailer:
            self.trailer = self._keys(b'{"":0' + self._pieces.trailer, "damaged_trailer")

    def _parsed(self, block: bytes) -> list[Event] | TypedBlock:
        if self._has_long_times:
            block = _LONG_TIME.sub(rb'\1"\2"', block)
        elif self._typed is not None and (typed := self._typed.read(block)) is not None:
            return typed
        try:
            events = orjson.loads(b"[" + block + b"]")
        except orjson.JSONDecodeError:
            events = self._pieces.parse(block)
        if not self._has_long_times and _are_long(events):
            self._has_long_times = True
            return self._parsed(block)
        return self._objects(events)

    def _objects(self, events: list[Any]) -> list[Event]:
        if set(map(type, events)) - {dict}:
            whole = [event for event in events if isinstance(event, dict)]
            self._sink.count("events_not_objects", len(events) - len(whole), severity="data_loss")
            return whole
        return events

    def _last(self, rest: bytes) -> list[Event]:
        """The last events, and the keys behind them."""
        rest = rest.strip(BLANK)
        if self._pieces.is_past_events:
            self._pieces.keep_trailer(rest)
            return []
        if self._has_long_times or _LONG_TIME.search(rest):
            rest = _LONG_TIME.sub(rb'\1"\2"', rest)
        with suppress(orjson.JSONDecodeError):
            if self._is_array:
                return self._objects(orjson.loads(b"[" + rest))
            found = orjson.loads(b'{"traceEvents":[' + rest)
            events = found.pop("traceEvents")
            if isinstance(events, list):
                self.trailer = found
                return self._objects(events)
        events = self._pieces.parse(rest, is_last=True)
        if not self._pieces.is_past_events:
            # The bare array may lack its end by the format's own word, the object may not.
            detail = "the file ends before the array of events does"
            if self._is_array:
                self._sink.count("array_not_closed", detail=detail)
            else:
                self._sink.count("truncated_file", severity="data_loss", detail=detail)
        return self._objects(events)


def _are_long(events: list[Any]) -> bool:
    """Whether the first times have more digits than a double keeps."""
    times = (event.get("ts") for event in events[:8] if isinstance(event, dict))
    return any(isinstance(time, float) and time >= EXACT_FRACTION for time in times)


def _last_boundary(text: bytes) -> int:
    """Where the last event that has begun in `text` begins, less its opening blanks; 0 when only one has."""
    for pattern in (_EVENT_BOUNDARY, BOUNDARY):
        for size in (_SEARCH_BYTES, len(text)):
            start = max(0, len(text) - size)
            if found := deque(pattern.finditer(text, start), maxlen=1):
                return found[0].start(1) + 1
            if not start:
                break
    return 0
