"""Plain, gzip, zstd and xz files: the same bytes, every loss raised, and no room for decompression bombs."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import random
import zlib
from pathlib import Path
from typing import cast

import pytest
import zstandard

from ingest import opening
from ingest.errors import BadInput, UnsafeInput
from ingest.opening import DAMAGED_STREAM, compression, open_bytes, read_head
from tests.ingest.peak_memory import peak_bytes, reset_peak


def _text(size: int = 800_000) -> bytes:
    source = random.Random(7)
    return b"".join(b"%d alloc %d\n" % (i, source.randrange(2**40)) for i in range(size // 20))


def _skippable(content: bytes) -> bytes:
    """A frame that decompressors skip: https://datatracker.ietf.org/doc/html/rfc8878#section-3.1.2"""
    return b"\x53\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


def _pack(kind: str, data: bytes) -> bytes:
    if kind == "zstd":
        return zstandard.ZstdCompressor(level=1).compress(data)
    if kind == "xz":
        return lzma.compress(data, preset=1)
    return gzip.compress(data, 1) if kind == "gzip" else data


def _read(path: Path) -> tuple[bytes, BaseException | None]:
    """What a line-by-line reader gets before the stream ends or breaks."""
    got = bytearray()
    with open_bytes(path) as stream:
        try:
            while part := stream.read1(10_000):  # type: ignore[attr-defined]
                got += part
        except DAMAGED_STREAM as error:
            return bytes(got), error
    return bytes(got), None


@pytest.mark.parametrize("kind", ["plain", "gzip", "zstd", "xz"])
def test_the_same_bytes_however_packed(kind: str, tmp_path: Path) -> None:
    data = _text()
    path = tmp_path / "x.bin"
    path.write_bytes(_pack(kind, data))
    assert _read(path) == (data, None)
    with open_bytes(path) as stream:
        assert stream.read() == data
    assert read_head(path, 1000) == data[:1000]


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz"])
def test_several_frames_are_one_file(kind: str, tmp_path: Path) -> None:
    pieces = [_text(200_000), b"", b"x", _text(50_000)[::-1]]
    path = tmp_path / "x.bin"
    path.write_bytes(b"".join(_pack(kind, piece) for piece in pieces))
    assert _read(path) == (b"".join(pieces), None)


def test_hundreds_of_tiny_zstd_frames_in_one_packed_piece(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    path.write_bytes(b"".join(_pack("zstd", b"%d\n" % i) for i in range(700)))
    assert _read(path) == (b"".join(b"%d\n" % i for i in range(700)), None)


def test_skippable_zstd_frames_before_between_and_after(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    one, two = _text(100_000), b"tail"
    path.write_bytes(
        _skippable(b"pzstd size") + _pack("zstd", one) + _skippable(b"z" * 3000) + _pack("zstd", two) + _skippable(b"")
    )
    assert _read(path) == (one + two, None)


def test_zstd_frames_without_a_declared_size(tmp_path: Path) -> None:
    """What a pipe into zstd writes."""
    writer = zstandard.ZstdCompressor(level=3).compressobj()
    data = _text(500_000)
    path = tmp_path / "x.zst"
    path.write_bytes(writer.compress(data) + writer.flush())
    assert _read(path) == (data, None)


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz"])
@pytest.mark.parametrize("tenth", range(1, 10))
def test_a_cut_stream_hands_over_its_start_and_then_raises(kind: str, tenth: int, tmp_path: Path) -> None:
    data = _text()
    packed = _pack(kind, data)
    path = tmp_path / "x.bin"
    path.write_bytes(packed[: len(packed) * tenth // 10])
    got, error = _read(path)
    assert isinstance(error, EOFError)
    assert data.startswith(got)
    assert len(got) > len(data) * (tenth - 1.5) / 10
    with open_bytes(path) as stream, pytest.raises(EOFError):
        stream.read()


@pytest.mark.parametrize("kept", [4, 5, 8])
def test_zstd_cut_inside_a_frame_header(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    path.write_bytes(_pack("zstd", b"first frame") + _pack("zstd", _text(1000))[:kept])
    got, error = _read(path)
    assert got == b"first frame"
    assert isinstance(error, EOFError)


def test_zstd_cut_in_its_last_byte(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    path.write_bytes(_pack("zstd", b"abc" * 1000)[:-1])
    assert isinstance(_read(path)[1], EOFError)


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz"])
def test_bytes_that_follow_the_last_frame_are_damage(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(_pack(kind, b"good") + b"not a frame at all")
    got, error = _read(path)
    assert got == b"good"
    assert isinstance(error, DAMAGED_STREAM)


def test_flipped_bytes_never_pass_a_checksum_unseen(tmp_path: Path) -> None:
    data = _text(60_000)
    packed = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(data)
    path = tmp_path / "x.zst"
    for place in range(10, len(packed), len(packed) // 25):
        path.write_bytes(packed[:place] + bytes([packed[place] ^ 0x40]) + packed[place + 1 :])
        _, error = _read(path)
        assert isinstance(error, DAMAGED_STREAM), f"byte {place}"


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz"])
def test_a_bomb_is_refused_without_eating_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    if kind == "gzip":
        with gzip.open(path, "wb", 9) as file:
            for _ in range(100):
                file.write(b"\0" * (1 << 20))
    else:
        packer = zstandard.ZstdCompressor(level=1).compressobj()
        path.write_bytes(b"".join(packer.compress(b"\0" * (1 << 20)) for _ in range(400)) + packer.flush())
    before = reset_peak()
    with open_bytes(path) as stream, pytest.raises(UnsafeInput, match="unpacks to more than 64 MiB; unpack it"):
        while stream.read(1 << 16):
            pass
    assert peak_bytes() - before < 100 << 20


def test_the_ratio_limit_grows_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MAX_RATIO_FREE_BYTES", 1000)
    path = tmp_path / "x.zst"
    data = _text(100_000)
    path.write_bytes(_pack("zstd", data))
    assert _read(path) == (data, None)
    path.write_bytes(_pack("zstd", b"\0" * 100_000_000))
    with pytest.raises(UnsafeInput):
        _read(path)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x50\x2a\x4d\x18", "zstd"),
        (b"\x5f\x2a\x4d\x18", "zstd"),
        (b"\x60\x2a\x4d\x18", None),
        (b"\x28\xb5\x2f", None),
        (b"\x80\x04}.", None),
        (b"", None),
    ],
)
def test_compression_is_told_by_magic_number(head: bytes, kind: str | None) -> None:
    assert compression(head) == kind


def test_a_missing_file_and_a_folder_are_bad_input(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(BadInput, match="check the path"), open_bytes(path):
            pass


def test_head_of_a_damaged_file_is_what_could_be_unpacked(tmp_path: Path) -> None:
    data = _text()
    path = tmp_path / "x.zst"
    path.write_bytes(_pack("zstd", data)[:100_000])
    head = read_head(path)
    assert len(head) > 10_000
    assert data.startswith(head)
    path.write_bytes(_pack("zstd", data)[:6])
    assert read_head(path) == b""


def test_xz_that_asks_for_too_much_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 1 << 30}]
    path.write_bytes(lzma.compress(b"abc", filters=filters))
    got, error = _read(path)
    assert got == b""
    assert isinstance(error, lzma.LZMAError)


def test_xz_streams_with_padding_between(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(_pack("xz", b"one\n") + b"\0" * 1028 + _pack("xz", b"two\n") + b"\0" * 4)
    assert _read(path) == (b"one\ntwo\n", None)


def test_damaged_gzip_gives_no_less_than_the_standard_reader(tmp_path: Path) -> None:
    chance = random.Random(8)
    lines = b"".join(str(chance.random()).encode() + b"\n" for _ in range(30_000))
    packed = gzip.compress(lines[:200_000]) + gzip.compress(lines[200_000:], 1)
    for number in range(60):
        damaged, place = bytearray(packed), chance.randrange(len(packed))
        if number % 2:
            del damaged[place:]
        else:
            damaged[place] ^= chance.randrange(1, 256)
        path = tmp_path / "x.bin"
        path.write_bytes(damaged)
        ours, standard, is_damaged = bytearray(), bytearray(), False
        with open_bytes(path) as stream, contextlib.suppress(*DAMAGED_STREAM):
            while part := cast("io.BufferedReader", stream).read1(65536):
                ours += part
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(damaged)) as file:
                while part := file.read1(8192):
                    standard += part
        except (EOFError, zlib.error, gzip.BadGzipFile):
            is_damaged = True
        assert len(ours) >= len(standard) - 64, f"damage at {place}"
        assert ours[: max(0, len(standard) - 64)] == standard[: max(0, len(standard) - 64)]
        assert is_damaged or ours == lines
