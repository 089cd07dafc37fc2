"""Blocks of text: the same lines under the same numbers as line by line, whatever the encoding and the damage."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ingest import textblocks
from ingest.sink import Sink
from ingest.textblocks import open_blocks
from ingest.textlines import MAX_LINE_CHARACTERS, open_lines


def by_lines(path: Path, tmp_path: Path) -> tuple[list[tuple[int, str]], dict[tuple[str, str], int]]:
    sink = Sink(tmp_path, 0, "x")
    with open_lines(path, sink) as lines:
        found = [(number, line) for number, line in lines if line]
    return found, {key: count for key, (count, _) in sink.counts.items()}


def by_blocks(path: Path, tmp_path: Path) -> tuple[list[tuple[int, str]], dict[tuple[str, str], int]]:
    sink = Sink(tmp_path, 0, "x")
    found = []
    with open_blocks(path, sink) as blocks:
        for number, text, _ in blocks.blocks():
            found += [(number + place, line) for place, line in enumerate(text.split("\n")) if line]
    return found, {key: count for key, (count, _) in sink.counts.items()}


def text_of(seed: int, size: int) -> str:
    chance = random.Random(seed)
    return "".join(chance.choice(["\n", "\n\n", "a", "b c", "\t1 é", "x" * 50, "y\nz\n"]) for _ in range(size))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "latin-1"])
@pytest.mark.parametrize("size", [0, 1, 50, 60_000])
def test_the_same_lines(size: int, codec: str, end: str, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    for seed in range(3 if size < 1000 else 1):
        path.write_bytes(text_of(seed, size).replace("\n", end).encode(codec))
        assert by_blocks(path, tmp_path) == by_lines(path, tmp_path)


def test_long_blocks_come_in_pieces_and_long_lines_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textblocks, "BLOCK_CHARACTERS", 1000)
    path = tmp_path / "x.bin"
    path.write_text("ab\n" * 100_000 + "c" * (2 * MAX_LINE_CHARACTERS) + "\nd\n\n" + "e\0\n" * 3 + "f")
    (blocks_found, blocks_counts), (lines_found, lines_counts) = by_blocks(path, tmp_path), by_lines(path, tmp_path)
    assert [line for _, line in blocks_found] == [line for _, line in lines_found]
    assert blocks_counts == lines_counts == {("long_lines", "data_loss"): 1, ("lines_with_nul", "data_loss"): 3}
    with open_blocks(path, Sink(tmp_path, 0, "x")) as blocks:
        sizes = [len(text) for _, text, is_end in blocks.blocks() if not is_end]
    assert len(sizes) > 2
    assert max(sizes) < 200_000
    path.write_text("ab\n" * 300 + "c" * 5000 + "d")
    assert by_blocks(path, tmp_path) == by_lines(path, tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"), [("a\n\nb", (True, True)), ("a\n\nb\n", (False, True)), ("a\n\n", (False, False))]
)
def test_the_end(text: str, expected: tuple[bool, bool], tmp_path: Path) -> None:
    """Whether the last line has no line end, and whether the last block has no blank line after it."""
    path = tmp_path / "x.bin"
    path.write_text(text)
    with open_blocks(path, Sink(tmp_path, 0, "x")) as blocks:
        last = [(blocks.is_cut, bool(text), blocks.is_last) for _, text, _ in blocks.blocks()][-1]
    assert last == (*expected, True)
