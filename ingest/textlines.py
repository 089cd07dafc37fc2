"""Lines of a text capture in bounded memory, whatever happened to its encoding.

Byte order marks, UTF-16, Latin-1, NUL bytes, CRLF, endless lines and truncated packing are met here once:
each is repaired or counted, none raises.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ingest.errors import BadInput
from ingest.opening import DAMAGED_STREAM, open_bytes
from ingest.sink import Sink

CHUNK_BYTES = 64 * 1024
MAX_LINE_CHARACTERS = 1024 * 1024

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def encoding_of(head: bytes) -> tuple[str, int]:
    """Codec of a text's first bytes and the length of its byte order mark; UTF-8 unless something says otherwise."""
    for mark, codec in _MARKS:
        if head.startswith(mark):
            return codec, len(mark)
    sample = head[:512]
    if len(sample) >= 8:
        # ASCII in UTF-16 without a mark: every second byte is NUL, the others hardly ever.
        even, odd = sample[::2].count(0) / len(sample[::2]), sample[1::2].count(0) / len(sample[1::2])
        if odd > 0.9 and even < 0.1:
            return "utf-16-le", 0
        if even > 0.9 and odd < 0.1:
            return "utf-16-be", 0
    return "utf-8", 0


def head_lines(head: bytes) -> list[str]:
    """The lines of a file's first bytes, for sniffing: NULs at either end removed, blank lines left out."""
    codec, skip = encoding_of(head)
    text = head[skip:].decode(codec, "replace")
    return [line for line in (raw.strip("\0\r ") for raw in text.replace("\r", "\n").split("\n")) if line]


class TextLines:
    """Iterates `(line number from 1, line without its end)` and counts in `sink` what had to be repaired.

    `is_cut` is True while the last line is out and it had no line end: the file may have been cut there.
    """

    def __init__(self, stream: BinaryIO, sink: Sink, *, max_line: int = MAX_LINE_CHARACTERS) -> None:
        self._stream = cast("io.BufferedReader", stream)
        self._sink, self._max_line = sink, max_line
        self.is_cut = False

    def __iter__(self) -> Iterator[tuple[int, str]]:
        number, pending, skipping, line_end = 0, "", False, ""
        for text in self._texts():
            if not line_end:
                text, pending = pending + text, ""
                line_end = "\n" if "\n" in text else "\r" if "\r" in text[:-1] else ""
            lines = text.split(line_end or "\n")
            lines[0] = pending + lines[0]
            pending = lines.pop()
            for line in lines:
                number += 1
                if skipping:
                    skipping = False
                elif len(line) > self._max_line:
                    self._too_long(number)
                else:
                    yield number, self._repaired(line, number)
            if len(pending) > self._max_line:
                if not skipping:
                    self._too_long(number + 1)
                pending, skipping = "", True
        if pending and not skipping:
            self.is_cut = not pending.endswith("\r")
            yield number + 1, self._repaired(pending, number + 1)

    def _texts(self) -> Iterator[str]:
        """Decoded text, piece by piece. Bytes that are no UTF-8 become lone surrogates, see `_repaired`."""
        decoder: codecs.IncrementalDecoder | None = None
        for data in self._chunks():
            if decoder is None:
                codec, skip = encoding_of(data)
                errors = "surrogateescape" if codec == "utf-8" else "replace"
                decoder = codecs.getincrementaldecoder(codec)(errors)
                data = data[skip:]
                if codec != "utf-8":
                    self._sink.count("other_encoding", detail=f"read as {codec}")
            yield decoder.decode(data)
        if decoder is not None:
            yield decoder.decode(b"", final=True)

    def _chunks(self) -> Iterator[bytes]:
        try:
            while data := self._stream.read1(CHUNK_BYTES):
                yield data
        except DAMAGED_STREAM as error:
            self._sink.count("truncated_stream", severity="data_loss", detail=str(error))

    def _repaired(self, line: str, number: int) -> str:
        line = line.rstrip("\r")
        if "\0" in line:
            # Files of a machine that crashed end in, or have holes of, NULs: what stands beside them is whole.
            self._sink.count("lines_with_nul", severity="data_loss", detail=f"first at line {number}")
            line = line.strip("\0")
        if line.isascii():
            return line
        try:
            line.encode("utf-8")
        except UnicodeEncodeError:
            self._sink.count("not_utf8_lines", detail=f"read as Latin-1, first at line {number}")
            line = line.encode("utf-8", "surrogateescape").decode("latin-1")
        if "\ufffd" in line:
            self._sink.count("undecodable_lines", severity="data_loss", detail=f"first at line {number}")
        return line.lstrip("\ufeff")

    def _too_long(self, number: int) -> None:
        detail = f"longer than {self._max_line} characters, first at line {number}"
        self._sink.count("long_lines", severity="data_loss", detail=detail)


@contextmanager
def open_lines(path: Path, sink: Sink) -> Iterator[TextLines]:
    """The lines of a capture file, packed or not. Raises BadInput when it can't be opened or read."""
    with open_bytes(path) as stream:
        try:
            yield TextLines(stream, sink)
        except OSError as error:
            todo = "check the disk, or copy the file again"
            raise BadInput(error.strerror or str(error), where=str(path), todo=todo) from error
