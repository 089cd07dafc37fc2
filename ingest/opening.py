"""Opening capture files: plain, gzip, zstd or xz by content, with limits against decompression bombs."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

import zstandard

from ingest.errors import BadInput, UnsafeInput

HEAD_BYTES = 64 * 1024
MAX_RATIO = 400
MAX_RATIO_FREE_BYTES = 64 * 1024 * 1024
MAX_UNPACKED_BYTES = 64 * 1024**3
ZSTD_PIECE_BYTES = 512  # four packed bytes can mean a block of 128 KiB: a piece unpacks to 16 MiB at most

MAX_XZ_MEMORY_BYTES = 256 * 1024 * 1024  # of `xz -9` 65 MiB; a header may ask for 4 GiB

DAMAGED_STREAM = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError, lzma.LZMAError)
"""What a truncated or damaged compressed stream raises while it is read."""


class _Frames(io.RawIOBase):
    """The unpacked bytes of zstd frames or xz streams, one after another.

    zstandard's own reader takes a cut frame for the end of the file, and lzma's allocates what the file asks for.
    """

    def __init__(self, packed: IO[bytes], kind: str) -> None:
        self._packed_file, self._packed, self._ready, self._kind = packed, b"", b"", kind
        self._frame: zstandard.ZstdDecompressionObj | lzma.LZMADecompressor | None = None

    def readable(self) -> bool:
        return True

    def read1(self, size: int) -> bytes:
        """Up to `size` bytes, none at the end. Raises EOFError when the file ends inside a frame."""
        while not self._ready:
            self._packed = self._packed or self._packed_file.read(ZSTD_PIECE_BYTES)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError(f"the {self._kind} stream ends inside a frame")
                return b""
            if self._frame is None:
                self._packed = self._packed.lstrip(b"\0") if self._kind == "xz" else self._packed  # its padding
                if not self._packed:
                    continue
                self._frame = _new_frame(self._kind)
            self._ready = self._frame.decompress(self._packed)
            self._packed = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        part, self._ready = self._ready[:size], self._ready[size:]
        return part


def _new_frame(kind: str) -> zstandard.ZstdDecompressionObj | lzma.LZMADecompressor:
    if kind == "xz":
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY_BYTES)
    return zstandard.ZstdDecompressor().decompressobj()


class _Bounded(io.RawIOBase):
    """A decompressed stream that refuses to grow past the ratio and size limits."""

    def __init__(self, stream: IO[bytes], packed_bytes: int, name: str) -> None:
        self._stream, self._name = stream, name
        self._limit = min(MAX_UNPACKED_BYTES, max(MAX_RATIO_FREE_BYTES, packed_bytes * MAX_RATIO))
        self._seen = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read1(len(buffer))  # type: ignore[attr-defined]
        self._seen += len(data)
        if self._seen > self._limit:
            raise UnsafeInput(
                f"unpacks to more than {self._limit >> 20} MiB",
                where=self._name,
                todo="unpack it yourself if you trust it, and pass the unpacked file",
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def compression(head: bytes) -> str | None:
    """gzip, zstd or xz by magic number, None for anything else."""
    if head[:4] == b"\xfd7zX":
        return "xz"
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    if head[:4] == b"\x28\xb5\x2f\xfd" or (head[:1] and head[0] >> 4 == 5 and head[1:4] == b"\x2a\x4d\x18"):
        return "zstd"  # a frame, or a skippable one (pzstd puts one before each frame)
    return None


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The file's unpacked bytes as a buffered stream.

    Raises BadInput when it can't be opened, UnsafeInput past the unpacking limits; a damaged compressed
    stream raises one of DAMAGED_STREAM at the place of the damage.
    """
    try:
        raw = path.open("rb")
        magic = raw.read(4)
        raw.seek(0)
    except OSError as error:
        raise BadInput(
            error.strerror or str(error), where=str(path), todo="check the path and its permissions"
        ) from error
    kind = compression(magic)
    stream: BinaryIO
    if kind is None:
        stream = raw
    else:
        packed = path.stat().st_size
        unpacked: IO[bytes]
        if kind == "gzip":
            unpacked = cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
        else:
            unpacked = cast("IO[bytes]", _Frames(raw, kind))
        stream = cast("BinaryIO", io.BufferedReader(_Bounded(unpacked, packed, str(path)), buffer_size=1 << 20))
    try:
        yield stream
    finally:
        stream.close()
        raw.close()


def read_head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """The first unpacked bytes of a file, fewer when it is shorter or its packing is damaged."""
    head = bytearray()
    with open_bytes(path) as stream:
        try:
            # read1: a read that runs into damage would take the good bytes before it along.
            reader = cast("io.BufferedReader", stream)
            while len(head) < size and (part := reader.read1(min(4096, size - len(head)))):
                head += part
        except DAMAGED_STREAM:
            pass
    return bytes(head)
