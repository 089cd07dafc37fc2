"""Bounded lines: numbers, ends, repairs and counts."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ingest.sink import Sink
from ingest.textlines import CHUNK_BYTES, TextLines, encoding_of


def lines_of(data: bytes, tmp_path: Path, max_line: int = 1000) -> tuple[list[tuple[int, str]], Sink, bool]:
    sink = Sink(tmp_path, 0, "test")
    lines = TextLines(io.BufferedReader(io.BytesIO(data)), sink, max_line=max_line)  # type: ignore[arg-type]
    return list(lines), sink, lines.is_cut


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends(end: str, tmp_path: Path) -> None:
    lines, sink, is_cut = lines_of(f"a{end}{end}b{end}".encode(), tmp_path)
    assert lines == [(1, "a"), (2, ""), (3, "b")]
    assert not is_cut
    assert sink.counts == {}


def test_a_last_line_without_end_is_told(tmp_path: Path) -> None:
    assert lines_of(b"a\nb", tmp_path)[::2] == ([(1, "a"), (2, "b")], True)
    assert lines_of(b"", tmp_path)[::2] == ([], False)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_across_pieces_of_the_file(end: str, tmp_path: Path) -> None:
    """Characters of several bytes and line ends fall on every place of a piece's border."""
    words = ["é" * (n % 7) + "x" * (n % 5) for n in range(CHUNK_BYTES // 4)]
    lines, sink, _ = lines_of((end.join(words) + end).encode(), tmp_path)
    assert [line for _, line in lines] == words
    assert [number for number, _ in lines] == list(range(1, len(words) + 1))
    assert sink.counts == {}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("length", [100, CHUNK_BYTES - 1, CHUNK_BYTES, 3 * CHUNK_BYTES])
def test_line_ends_after_a_first_line_of_any_length(end: str, length: int, tmp_path: Path) -> None:
    data = f"{'x' * length}{end}a{end}{end}b{end}".encode()
    lines, sink, is_cut = lines_of(data, tmp_path, max_line=10 * CHUNK_BYTES)
    assert [line for _, line in lines] == ["x" * length, "a", "", "b"]
    assert not is_cut
    assert sink.counts == {}


@pytest.mark.parametrize("length", [1001, CHUNK_BYTES, 5 * CHUNK_BYTES + 3])
def test_a_long_line_is_left_out_and_keeps_its_number(length: int, tmp_path: Path) -> None:
    lines, sink, _ = lines_of(b"a\n" + b"x" * length + b"\nb\n" + b"y" * 1000 + b"\n", tmp_path)
    assert lines == [(1, "a"), (3, "b"), (4, "y" * 1000)]
    assert sink.counts == {("long_lines", "data_loss"): (1, "longer than 1000 characters, first at line 2")}


def test_an_endless_line_is_not_held(tmp_path: Path) -> None:
    lines, sink, _ = lines_of(b"a\n" + b"x" * (20 * CHUNK_BYTES), tmp_path)
    assert lines == [(1, "a")]
    assert sink.counts[("long_lines", "data_loss")][0] == 1


def test_nul_bytes(tmp_path: Path) -> None:
    lines, sink, _ = lines_of(b"\0\0a\0b\0\nc\n", tmp_path)
    assert lines == [(1, "a\0b"), (2, "c")]
    assert sink.counts == {("lines_with_nul", "data_loss"): (1, "first at line 1")}


def test_each_line_that_is_no_utf8_is_read_as_latin_1(tmp_path: Path) -> None:
    lines, sink, _ = lines_of("é\n".encode() + b"\xe9\nc\n", tmp_path)
    assert lines == [(1, "é"), (2, "é"), (3, "c")]
    assert sink.counts == {("not_utf8_lines", "info"): (1, "read as Latin-1, first at line 2")}


def test_half_a_utf16_character(tmp_path: Path) -> None:
    lines, sink, is_cut = lines_of("ab\ncd".encode("utf-16")[:-1], tmp_path)
    assert lines == [(1, "ab"), (2, "c\ufffd")]
    assert is_cut
    assert sink.counts[("undecodable_lines", "data_loss")] == (1, "first at line 2")


def test_encodings_are_told_by_their_first_bytes() -> None:
    text = "timestamp_ns,device_index\n"
    for codec in ("utf-8", "utf-16-le", "utf-16-be"):
        assert encoding_of(text.encode(codec)) == (codec, 0)
    assert encoding_of(text.encode("utf-8-sig")) == ("utf-8", 3)
    assert encoding_of(b"") == ("utf-8", 0)
    assert encoding_of(b"\0" * 600) == ("utf-8", 0)
