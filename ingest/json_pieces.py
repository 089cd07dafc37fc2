"""Pieces of JSON text of any size: the elements of named arrays, one at a time, in bounded memory.

The text may be one document, one document a line, or documents one after the other; it may end anywhere.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ingest.opening import DAMAGED_STREAM, open_bytes
from ingest.sink import Sink
from ingest.textlines import CHUNK_BYTES, encoding_of

MAX_PIECE_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 200
_MAX_KEY_BYTES = 256

_OUTSIDE = re.compile(rb'["{}\[\],:\n]')
_UNTIL_BRACKET = re.compile(rb'(?:[^"{}\[\]\n]++|"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*")*')
"""Up to the next bracket or line break outside of strings, or to a string that does not end in this text."""
_NULS = re.compile(rb"\0+")
_BLANK = b" \t\r,\x1e"
_IN_STRING = re.compile(rb'[\\"\n]')


class Piece(NamedTuple):
    """An object's text and the key it stands below; `text` is empty where only its beginning was asked for."""

    key: str
    text: bytes


class JsonPieces:
    """Iterates the pieces in `chunks`.

    An object below a key of `pieces`, directly or as an element of an array, is a piece. Of an object in an array
    below a key of `marks` only the beginning is told. Pieces that are too large, documents that end inside a value,
    nesting deeper than 200 outside of pieces, other values where pieces stand, and text between documents are counted
    in `sink`. Where each line is a document, damage ends with its
    line; elsewhere at the next line break within a string, which JSON does not have.
    """

    def __init__(self, chunks: Iterable[bytes], sink: Sink, pieces: frozenset[str], marks: frozenset[str]) -> None:
        self._chunks, self._sink = chunks, sink
        self._pieces, self._marks = pieces, marks
        self._keys: list[str] = []  # of each open container, the key it stands below
        self._kinds = bytearray()  # and its opening bracket
        self._key, self._text, self._is_key_done = "", bytearray(), False
        self._in_string = self._skip_one = False
        self._depth = 0  # within a piece
        self._piece: bytearray | None = None
        self._is_too_large = False
        self._has_begun = self._is_stray = False
        self._is_by_line: bool | None = None

    def __iter__(self) -> Iterator[Piece]:
        for chunk in self._chunks:
            yield from self._feed(chunk)
        self._reset()

    def _reset(self) -> None:
        """Forget what is open: the document is over, or it is damaged."""
        if self._piece is not None or self._keys or self._in_string:
            detail = "the JSON text ends inside a value"
            self._sink.count("cut_document", severity="data_loss", detail=detail)
        self._keys.clear()
        self._kinds.clear()
        self._key, self._in_string, self._piece, self._depth = "", False, None, 0

    def _line_end(self) -> None:
        is_open = self._piece is not None or bool(self._keys) or self._in_string
        if self._is_by_line is None and self._has_begun:
            self._is_by_line = not is_open
        if self._is_by_line or self._in_string:
            self._reset()

    def _feed(self, chunk: bytes) -> Iterator[Piece]:
        at, size = 0, len(chunk)
        if self._skip_one and size:
            self._skip_one = False
            self._take(chunk[:1])
            at = 1
        while at < size:
            if self._in_string:
                found = _IN_STRING.search(chunk, at)
                end = size if found is None else found.end()
                byte = 0 if found is None else chunk[found.start()]
                if byte == 0x5C:
                    self._skip_one = end == size
                    end = min(end + 1, size)
                self._take(chunk[at:end])
                if byte == 0x0A:
                    self._line_end()
                elif byte == 0x22:
                    self._in_string = False
                at = end
                continue
            if self._piece is not None:
                at = self._scan_piece(chunk, at)
                if self._piece is not None and not self._depth:
                    yield from self._finished()
                continue
            found = _OUTSIDE.search(chunk, at)
            end = size if found is None else found.start()
            if not self._is_stray and (text := chunk[at:end].strip(_BLANK)):
                self._stray(text)
            if found is None:
                return
            self._is_stray = False
            at = found.end()
            if chunk[at - 1] == 0x0A:
                self._line_end()
            elif (piece := self._structure(chunk[at - 1])) is not None:
                yield piece

    def _stray(self, text: bytes) -> None:
        """A value that is no object begins with `text`, or text that is no JSON."""
        self._is_stray = True
        if not self._kinds:
            self._sink.count("text_between_documents", severity="data_loss", detail="text that is no JSON object")
        elif self._key in self._pieces and text[:1] != b"n":  # null
            self._sink.count("values_not_objects", severity="data_loss", detail=f"below {self._key}")

    def _scan_piece(self, chunk: bytes, start: int) -> int:
        """Take a piece's text from `start` on; where the piece, a string in it, or the chunk went on from there."""
        at, size, depth = start, len(chunk), self._depth
        while depth:
            match = _UNTIL_BRACKET.match(chunk, at)
            at = size if match is None else match.end()
            if at >= size:
                break
            byte = chunk[at]
            at += 1
            if byte == 0x22:
                self._in_string = True
                break
            if byte != 0x0A:
                depth += 1 if byte in b"{[" else -1
            elif self._is_by_line:
                self._reset()
                return at
        self._take(chunk[start:at])
        self._depth = depth
        return at

    def _finished(self) -> Iterator[Piece]:
        text, self._piece = self._piece, None
        if text is None or self._is_too_large:
            detail = f"larger than {MAX_PIECE_BYTES >> 20} MiB"
            self._sink.count("large_values", severity="data_loss", detail=detail)
        else:
            yield Piece(self._key, self._utf8(bytes(text)))

    def _utf8(self, text: bytes) -> bytes:
        """`text`, or what its bytes are in Latin-1 where they are no UTF-8."""
        if not text.isascii():
            try:
                text.decode()
            except UnicodeDecodeError:
                self._sink.count("not_utf8_lines", detail="read as Latin-1")
                return text.decode("latin-1").encode()
        return text

    def _take(self, data: bytes) -> None:
        """Keep text of a piece, or of a string that may be a key."""
        if self._piece is None:
            if len(self._text) < _MAX_KEY_BYTES:
                self._text += data[:_MAX_KEY_BYTES]
        elif len(self._piece) + len(data) > MAX_PIECE_BYTES:
            self._is_too_large = True
        else:
            self._piece += data

    def _structure(self, byte: int) -> Piece | None:
        self._has_begun = True
        if byte == 0x22:
            self._in_string = True
            self._text.clear()
            if not self._kinds or self._key in self._pieces:
                self._stray(b'"')
            return None
        if byte == 0x3A:
            self._key = bytes(self._text[:-1]).decode("utf-8", "replace")
        elif byte == 0x2C:
            if self._kinds and self._kinds[-1] == 0x7B:
                self._key = ""
        elif byte in b"{[":
            return self._open(byte)
        elif self._keys:
            self._keys.pop()
            self._kinds.pop()
            self._key = self._keys[-1] if self._kinds and self._kinds[-1] == 0x5B else ""
        return None

    def _open(self, byte: int) -> Piece | None:
        if byte == 0x7B and self._key in self._pieces:
            self._piece, self._depth, self._is_too_large = bytearray(b"{"), 1, False
            return None
        if len(self._keys) >= MAX_DEPTH:
            detail = f"deeper than {MAX_DEPTH}"
            self._sink.count("nested_too_deep", severity="data_loss", detail=detail)
            self._keys.clear()
            self._kinds.clear()
        is_marked = byte == 0x7B and self._key in self._marks
        key = self._key
        self._keys.append(key)
        self._kinds.append(byte)
        if byte == 0x7B:
            self._key = ""
        return Piece(key, b"") if is_marked else None


def utf8_chunks(path: Path, sink: Sink) -> Iterator[bytes]:
    """The text of a capture file as UTF-8 without its byte order mark, piece by piece; damaged packing is counted."""
    with open_bytes(path) as stream:
        decoder: codecs.IncrementalDecoder | None = None
        is_first = True
        try:
            while data := stream.read1(CHUNK_BYTES):  # type: ignore[attr-defined]
                if is_first:
                    is_first = False
                    codec, skip = encoding_of(data)
                    data = data[skip:]
                    if codec != "utf-8":
                        sink.count("other_encoding", detail=f"read as {codec}")
                        decoder = codecs.getincrementaldecoder(codec)("replace")
                text = data if decoder is None else decoder.decode(data).encode("utf-8", "replace")
                if b"\0" in text:
                    text, holes = _NULS.subn(b"", text)
                    sink.count("lines_with_nul", holes, severity="data_loss", detail="left out")
                yield text
        except DAMAGED_STREAM as error:
            sink.count("truncated_stream", severity="data_loss", detail=str(error))
