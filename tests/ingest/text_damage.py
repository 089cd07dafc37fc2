"""Checks that the text importers share: encodings, cut files, flipped bytes, packing that ends early."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from ingest.errors import BadInput
from ingest.registry import Importer
from tests.ingest.support import counts_of, ingest_file

Tables = dict[str, pl.DataFrame]
Rows = list[tuple[object, ...]]


def write(tmp_path: Path, data: bytes | str) -> Path:
    """A file of that content whose name says nothing."""
    path = tmp_path / f"x{sum(1 for _ in tmp_path.iterdir())}.bin"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def read_text(data: bytes | str, tmp_path: Path, importer: Importer) -> Tables:
    """Tables of a file of that content."""
    return ingest_file(write(tmp_path, data), tmp_path, importer)


def rows_of(tables: Tables, table: str, columns: tuple[str, ...]) -> Rows:
    """The table's rows in file order, those columns."""
    return tables[table].sort("event_index").select(columns).rows() if table in tables else []


def data_loss(tables: Tables) -> Counter[str]:
    """Name → count of what was lost."""
    return Counter({name: n for (name, severity), n in counts_of(tables).items() if severity == "data_loss"})


def check_encodings(path: Path, tmp_path: Path, importer: Importer) -> None:
    """The same tables whatever the line ends and the Unicode encoding."""
    text = path.read_text(encoding="utf-8")
    expected = ingest_file(path, tmp_path, importer)
    variants = {
        "CRLF": text.replace("\n", "\r\n").encode(),
        "CR": text.replace("\n", "\r").encode(),
        "byte order mark": text.encode("utf-8-sig"),
        "UTF-16": text.encode("utf-16"),
        "UTF-16 big-endian": b"\xfe\xff" + text.encode("utf-16-be"),
        "UTF-16 without mark": text.encode("utf-16-le"),
        "UTF-32": text.encode("utf-32"),
        "NULs before and after": b"\0" * 4096 + b"\n" + text.encode() + b"\0" * 100,
    }
    for name, data in variants.items():
        tables = read_text(data, tmp_path, importer)
        for table in expected.keys() - {"diagnostics"}:
            assert tables[table].equals(expected[table]), f"{table} differs: {name}"
        lost = data_loss(tables)
        assert lost == (Counter(lines_with_nul=2) if "NUL" in name else data_loss(expected)), name


def check_cuts(
    path: Path, tmp_path: Path, importer: Importer, table: str, columns: tuple[str, ...], places: int = 10
) -> None:
    """A file that ends early gives the first rows of the whole one and says so; no row is changed."""
    data = path.read_bytes()
    whole = rows_of(ingest_file(path, tmp_path, importer), table, columns)
    assert whole
    read = 0
    for place in range(1, places + 1):
        end = len(data) * place // (places + 1)
        if data[end - 1 : end] == b"\n":
            end -= 3
        try:
            tables = read_text(data[:end], tmp_path, importer)
        except (AssertionError, BadInput):  # cut within the header: not recognised
            assert end < 200
            continue
        rows = rows_of(tables, table, columns)
        assert rows == whole[: len(rows)], f"cut at {end}"
        assert data_loss(tables), f"cut at {end} is not counted"
        read = max(read, len(rows))
    assert read >= len(whole) // 2

    packed = gzip.compress(data, 1)
    for place in range(3, 10):
        tables = read_text(packed[: len(packed) * place // 10], tmp_path, importer)
        rows = rows_of(tables, table, columns)
        assert rows == whole[: len(rows)]
        assert data_loss(tables)["truncated_stream"] == 1


def flipped(data: bytes, seed: int, flips: int, start: int) -> bytes:
    """`data` with that many bytes after `start` changed in one to eight bits."""
    chance = random.Random(seed)
    damaged = bytearray(data)
    for _ in range(flips):
        damaged[chance.randrange(start, len(data))] ^= chance.randrange(1, 256)
    return bytes(damaged)


def check_flips(
    path: Path,
    tmp_path: Path,
    importer: Importer,
    table: str,
    columns: tuple[str, ...],
    rows_a_line: int,
    seeds: Iterator[int] | range = range(30),
) -> None:
    """Flipped bytes cost the rows they are in (and those of a line they split or join), never an exception."""
    data = path.read_bytes()
    whole = Counter(rows_of(ingest_file(path, tmp_path, importer), table, columns))
    start, flips = data.index(b"\n", 60), 3
    for seed in seeds:
        tables = read_text(flipped(data, seed, flips, start), tmp_path, importer)
        kept = whole & Counter(rows_of(tables, table, columns))
        assert whole.total() - kept.total() <= flips * 2 * rows_a_line, f"seed {seed}"
    for seed in range(100, 105):  # a file with more damage than sense
        read_text(flipped(data, seed, len(data) // 20, start), tmp_path, importer)


def check_junk(head: bytes, tmp_path: Path, importer: Importer, line: Callable[[random.Random], bytes]) -> None:
    """Thousands of senseless lines below a good head: read through, all counted."""
    chance = random.Random(7)
    body = b"\n".join(line(chance) for _ in range(2000))
    tables = read_text(head + body + b"\n", tmp_path, importer)
    assert data_loss(tables).total() > 0
