"""The blocks of an Nsight Compute report, read as a stream: what lies around its results, see `ncu_report`."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from ingest.protobuf_wire import Value, fields, part, whole
from ingest.sink import Sink

MAGIC = b"NVR\0"
MAX_HEADER_BYTES = 64 << 20
MAX_RESULT_BYTES = 256 << 20

_LENGTH = struct.Struct("<I")
_PIECE_BYTES = 1 << 20


def is_report(head: bytes) -> bool:
    """The magic number, and a header message of sensible length behind it."""
    return head.startswith(MAGIC) and len(head) >= 12 and 0 < _LENGTH.unpack_from(head, 4)[0] <= MAX_HEADER_BYTES


class Blocks:
    """Results of a report, one after the other, with the process of their block."""

    def __init__(self, stream: BinaryIO, sink: Sink) -> None:
        self._stream, self._sink = stream, sink
        self.strings: list[str] = []
        self.process: dict[int, Value] = {}
        self._take(len(MAGIC))
        self.version = whole(dict(fields(self._take(_LENGTH.unpack(self._take(_LENGTH.size))[0]))), 1) or 0

    def __iter__(self) -> Iterator[bytes]:
        while length := self._stream.read(_LENGTH.size):
            if len(length) < _LENGTH.size:
                raise EOFError("the file ends inside a block")
            header = dict[int, Value]()
            for number, value in fields(self._take(_LENGTH.unpack(length)[0])):
                header[number] = value
            self.strings += [
                value.decode("utf-8", "replace")
                for number, value in fields(part(header, 4))
                if number == 1 and isinstance(value, bytes)
            ]
            self.process = dict(fields(part(header, 6)))
            rest = whole(header, 5) or 0
            sources, results = whole(header, 1) or 0, whole(header, 2) or 0
            for number in range(sources + results):
                if rest < _LENGTH.size:
                    break
                size = _LENGTH.unpack(self._take(_LENGTH.size))[0]
                rest -= _LENGTH.size + size
                if rest < 0:
                    raise ValueError("a result is longer than its block")
                if number < sources:
                    self._skip(size)
                elif size > MAX_RESULT_BYTES:
                    self._sink.count("results_too_large", severity="data_loss", detail=f"{size} bytes")
                    self._skip(size)
                else:
                    yield self._take(size, MAX_RESULT_BYTES)
            if rest:
                self._sink.count("range_results", whole(header, 7) or 1, detail="of a range replay: not read")
                self._skip(rest)

    def _take(self, size: int, limit: int = MAX_HEADER_BYTES) -> bytes:
        if size > limit:
            raise ValueError(f"a message of {size} bytes")
        pieces = []
        while size and (piece := self._stream.read(min(size, _PIECE_BYTES))):
            pieces.append(piece)
            size -= len(piece)
        if size:
            raise EOFError("the file ends inside a block")
        return b"".join(pieces)

    def _skip(self, size: int) -> None:
        while size:
            piece = self._stream.read(min(size, _PIECE_BYTES))
            if not piece:
                raise EOFError("the file ends inside a block")
            size -= len(piece)
