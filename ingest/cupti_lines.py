"""Runs of whole lines from a stream of any length and of common encodings, in bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from ingest.opening import DAMAGED_STREAM

RUN_BYTES = 8 * 1024 * 1024
MAX_LINE_BYTES = 4 * 1024 * 1024
"""Lines up to this length are always kept; much longer ones are dropped, for no record is that long."""

_PIECE_BYTES = 1 << 20
_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"{\0", "utf-16-le"),
    (b"\0{", "utf-16-be"),
)

NEWLINE = ord("\n")

Count = Callable[..., None]


@dataclass(frozen=True, slots=True)
class LineRun:
    """Whole lines in UTF-8; `first_line` is the number of the first one, from 0.

    `ends` has, for each line, the offset behind its newline. Only the last line of a file may lack one: `is_open`.
    """

    data: bytes
    first_line: int
    ends: np.ndarray[Any, np.dtype[np.int64]]
    is_open: bool

    def line(self, number: int) -> bytes:
        """The line with that number in the file, with its newline."""
        place = number - self.first_line
        return self.data[int(self.ends[place - 1]) if place else 0 : int(self.ends[place])]


def encoding_of(head: bytes) -> str | None:
    """Name of the encoding when the first bytes tell that it is not plain UTF-8."""
    return next((encoding for start, encoding in _ENCODINGS if head.startswith(start)), None)


def to_utf8(head: bytes) -> bytes:
    """The first bytes of a file in UTF-8."""
    encoding = encoding_of(head)
    return head.decode(encoding, "ignore").encode("utf-8", "ignore") if encoding else head


def line_runs(stream: BinaryIO, count: Count) -> Iterator[LineRun]:
    """Runs of at least RUN_BYTES, cut at line ends; the same runs however the stream delivers its bytes.

    Damage of a compressed stream ends the runs and is counted, as are lines too long to be records.
    """
    buffer, line, is_skipping = bytearray(), 0, False
    for piece in _pieces(stream, count):
        buffer += piece
        while True:
            if is_skipping:
                end = buffer.find(b"\n") + 1
                if not end:
                    buffer.clear()
                    break
                del buffer[:end]
                line, is_skipping = line + 1, False
            limit = RUN_BYTES + MAX_LINE_BYTES
            end = buffer.find(b"\n", RUN_BYTES - 1, limit) + 1
            if not end and len(buffer) >= limit:
                end, is_skipping = buffer.rfind(b"\n", 0, limit) + 1, True
            if end:
                with memoryview(buffer) as view:
                    run = _run(bytes(view[:end]), line)
                yield run
                line += len(run.ends)
                del buffer[:end]
            if is_skipping:
                detail = f"line {line + 1} is longer than {MAX_LINE_BYTES >> 20} MiB"
                count("lines_too_long", severity="data_loss", detail=detail)
            elif not end:
                break
    if buffer and not is_skipping:
        yield _run(bytes(buffer), line)


def _run(data: bytes, line: int) -> LineRun:
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == NEWLINE) + 1
    is_open = not data.endswith(b"\n")
    return LineRun(data, line, np.append(ends, len(data)) if is_open else ends, is_open)


def _pieces(stream: BinaryIO, count: Count) -> Iterator[bytes]:
    # read1 hands over what is there: a longer read would throw it away when the stream turns out damaged.
    read = getattr(stream, "read1", stream.read)
    decoder: codecs.IncrementalDecoder | None = None
    is_first = True
    try:
        while piece := read(_PIECE_BYTES):
            if is_first and (encoding := encoding_of(piece)):
                decoder = codecs.getincrementaldecoder(encoding)("replace")
                count("transcoded_file", detail=f"the text is {encoding}, not UTF-8")
            is_first = False
            yield decoder.decode(piece).encode("utf-8", "replace") if decoder else piece
    except DAMAGED_STREAM as error:
        count("truncated_stream", severity="data_loss", detail=f"the compressed stream is damaged: {error}")
