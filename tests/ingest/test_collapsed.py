"""Collapsed stacks: counts of every form, encodings, invalid lines, and what is none of them."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from ingest.collapsed import IMPORTER, sniff
from ingest.errors import BadInput
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file
from tests.ingest.text_damage import (
    Tables,
    check_encodings,
    data_loss,
    flipped,
    read_text,
    rows_of,
)

DATA = Path(__file__).parents[1] / "data" / "collapsed"
CORPUS = SHARED / "corpus" / "collapsed"


def stacks_of(tables: Tables) -> list[tuple[str, int, str]]:
    """(event, count, stack joined by semicolons) in file order."""
    names = dict(tables["frames"].select("frame_id", "function").rows())
    paths = {key: ";".join(names[i] for i in ids) for key, ids, _ in tables["call_paths"].rows()}
    rows = rows_of(tables, "stack_samples", ("event", "sample_count", "call_path_id"))
    return [(str(event), int(str(count)), paths[path]) for event, count, path in rows]


def expected(text: str) -> list[tuple[str, int, str]]:
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith(("#", "//"))]
    return [("samples", int(count), stack) for stack, count in lines if count.isdecimal()]


def test_real_file(tmp_path: Path) -> None:
    path = DATA / "kernel.folded"
    tables = check_importer(path, tmp_path, IMPORTER, golden=DATA / "golden" / "kernel.folded.golden")
    assert stacks_of(tables) == expected(path.read_text())
    assert not counts_of(tables)
    check_encodings(path, tmp_path, IMPORTER)
    whole = Counter(stacks_of(tables))
    for seed in range(10):
        damaged = read_text(flipped(path.read_bytes(), seed, 3, 0), tmp_path, IMPORTER)
        assert (whole - Counter(stacks_of(damaged))).total() <= 6


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not beside the checkout")
def test_corpus(tmp_path: Path) -> None:
    paths = sorted(CORPUS.rglob("*.txt"))
    assert len(paths) >= 25
    for path in paths:
        codec = "utf-16" if "utf16" in path.name else "utf-8"
        tables = ingest_file(path, tmp_path, IMPORTER)
        assert stacks_of(tables) == expected(path.read_text(encoding=codec)), path
        assert data_loss(tables) == ({"invalid_lines": 1} if "invalids" in path.name else {}), path


def test_counts_of_every_form(tmp_path: Path) -> None:
    text = f"a;b 0x1F\na;b 2.5\na;b 2.\na;b  c\t7\na;b {2**63}\na;b -1\na;b 1e3\n" + "a;b 1\n" * 17
    tables = read_text(text, tmp_path, IMPORTER)
    assert stacks_of(tables)[:4] == [
        ("samples", 31, "a;b"),
        ("samples", 3, "a;b"),
        ("samples", 2, "a;b"),
        ("samples", 7, "a;b  c"),
    ]
    assert len(stacks_of(tables)) == 21
    assert data_loss(tables) == {"numbers_beyond_64_bits": 1, "invalid_lines": 2}
    assert counts_of(tables)["fractional_counts", "info"] == 1


def test_differential(tmp_path: Path) -> None:
    tables = read_text("a;b c 3 4\na;d 0 2\n", tmp_path, IMPORTER)
    assert stacks_of(tables) == [
        ("before", 3, "a;b c"),
        ("after", 4, "a;b c"),
        ("before", 0, "a;d"),
        ("after", 2, "a;d"),
    ]


def test_bounds(tmp_path: Path) -> None:
    began = time.process_time()
    deep = "a;" * 5000 + "b 1\n"
    text = deep + "a;b" + " " * 900_000 + "x 1\n" + " " * 900_000 + "1\n" + "a;" * 400_000 + " x\n" + "a;b 1\n" * 40
    tables = read_text(text, tmp_path, IMPORTER)
    assert tables["call_paths"]["depth_count"].max() == 1024
    assert data_loss(tables) == {"deep_stacks": 1, "long_frames": 1, "invalid_lines": 2}
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "main 12\nmain 13\n",
        "time;value\n10:00;gpu 1\n10:01;gpu 2\n",
        "2026-11-30;12 3\n2026-12-01;12 4\n",
        '1.2.3.4 - - [x] "GET / HTTP/1.1" 200 12 "-" "Mozilla/5.0 (X11; Linux x86_64)" 0.123\n',
        "for (i = 0; i < n; i++) 5\nreturn; 3\n",
        "text without counts; really\na;b 1\n",
        "x 1 1.000001: cycles: \n\t 10 f (/x)\n",
        "\0\1\2;\3 1\n",
    ],
)
def test_not_mine(text: str) -> None:
    assert not sniff(text.encode(), Path("x"))


def test_no_valid_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no line in it is a stack and a count"):
        read_text(f"a;b {2**70}\n", tmp_path, IMPORTER)
