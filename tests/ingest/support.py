"""Checks that every importer's test shares: read a file into tables, and the four checks of a real file.

A new format's test is a fixture and a few lines:

    def test_real_file(tmp_path):
        tables = check_importer(DATA / "small.csv", tmp_path, IMPORTER)
        assert tables["metrics"].height == 120
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from ingest.opening import compression, read_head
from ingest.registry import Importer, importer_for
from ingest.sink import Sink
from schemas.tables import TABLES

SHARED = Path(__file__).resolve().parents[3] / "shared"
"""Captures too large to bundle; tests that use them are skipped where they are not checked out beside."""

FIX_GOLDEN = "LEAKPATH_FIX_GOLDEN"
"""Environment variable: when set, golden dumps are rewritten instead of compared."""

GOLDEN_ROWS = 20


def read_into(path: Path, folder: Path, importer: Importer | None = None) -> Sink:
    """Read `path` by content into parts under `folder`, as the ingest step does; the closed sink.

    `importer` spares the registry when it is given, and must recognise the file; AssertionError otherwise.
    """
    head = read_head(path)
    chosen = importer or importer_for(head, path)
    assert chosen is not None, f"no importer recognises {path.name}"
    assert chosen.sniff(head, path), f"{chosen.name} does not recognise {path.name}"
    sink = Sink(folder, 0, chosen.source, clock=chosen.clock)
    try:
        chosen.read(path, sink)
    except BaseException:
        sink.discard()
        raise
    sink.close()
    shared = {"diagnostics", "clock_pairs", "frames", "call_paths"}
    undeclared = {part.name for part in folder.iterdir()} - {*chosen.tables, *shared}
    assert not undeclared, f"{chosen.name} writes tables it does not declare: {sorted(undeclared)}"
    return sink


def tables_of(folder: Path) -> dict[str, pl.DataFrame]:
    """Tables written under `folder`, checked against the contract: types, nulls and keys."""
    tables = {}
    for part in sorted(folder.glob("*/*.parquet")):
        declared = TABLES[part.parent.name]
        written = pq.read_table(part)
        assert written.schema.equals(declared.arrow_schema()), f"{declared.name}: schema differs from the contract"
        for field in written.schema:
            nulls = written.column(field.name).null_count
            assert field.nullable or not nulls, f"{declared.name}.{field.name} has {nulls} nulls"
        frame = pl.from_arrow(written)
        assert isinstance(frame, pl.DataFrame)
        if "event_index" in declared.columns:
            assert frame["event_index"].is_unique().all(), f"{declared.name}: event_index is not unique"
        tables[declared.name] = frame
    assert not list(folder.glob("*/.*")), "temporary files are left behind"
    return tables


def ingest_file(path: Path, tmp_path: Path, importer: Importer | None = None) -> dict[str, pl.DataFrame]:
    """Tables that `path` yields, `diagnostics` among them; a table without rows is absent."""
    folder = tmp_path / f"parts{sum(1 for _ in tmp_path.iterdir())}"
    folder.mkdir()
    read_into(path, folder, importer)
    return tables_of(folder)


def counts_of(tables: dict[str, pl.DataFrame]) -> dict[tuple[str, str], int]:
    """(name, severity) → occurrence_count of the diagnostics."""
    if "diagnostics" not in tables:
        return {}
    rows = tables["diagnostics"].select("name", "severity", "occurrence_count").rows()
    return {(name, severity): count for name, severity, count in rows}


def check_importer(
    path: Path, tmp_path: Path, importer: Importer | None = None, golden: Path | None = None
) -> dict[str, pl.DataFrame]:
    """The four checks of a real file; its tables.

    1. `golden`, when given, holds the readable dump of the result (rewritten when LEAKPATH_FIX_GOLDEN is set).
    2. The same result when the file's name is hidden, and when it is packed or unpacked.
    3. What is written reads back by contract (`tables_of`), and nothing undeclared is written.
    4. Reading twice gives the same bytes.
    """
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        read_into(path, folder, importer)
    tables = tables_of(first)
    assert tables, f"{path.name} yields no rows"
    assert _bytes_of(first) == _bytes_of(second), "reading twice gives different bytes"

    hidden = tmp_path / "x.bin"
    hidden.write_bytes(path.read_bytes())
    repacked = tmp_path / "y.bin"
    with gzip.open(path, "rb") if compression(path.read_bytes()[:4]) == "gzip" else path.open("rb") as stream:
        data = stream.read()
    packed = compression(path.read_bytes()[:4]) is not None
    repacked.write_bytes(data if packed else gzip.compress(data, 1))
    for name, copy in (("without its name", hidden), ("repacked", repacked)):
        folder = tmp_path / copy.stem
        folder.mkdir()
        read_into(copy, folder, importer)
        assert _bytes_of(folder) == _bytes_of(first), f"the result differs {name}"

    if golden is not None:
        text = readable(tables)
        if os.environ.get(FIX_GOLDEN):
            golden.parent.mkdir(parents=True, exist_ok=True)
            golden.write_text(text, encoding="utf-8")
        assert golden.read_text(encoding="utf-8") == text, f"differs from {golden.name}; {FIX_GOLDEN}=1 rewrites it"
    return tables


def readable(tables: dict[str, pl.DataFrame], rows: int = GOLDEN_ROWS) -> str:
    """A dump a person can review: row counts, then the first rows of each table without its empty columns."""
    lines = []
    for name in sorted(tables):
        frame = tables[name]
        used = [column for column in frame.columns if frame[column].null_count() < frame.height]
        lines.append(f"# {name}: {frame.height} rows")
        lines.append("\t".join(used))
        for row in frame.select(used).head(rows).iter_rows():
            lines.append("\t".join("" if value is None else str(value) for value in row))
        lines.append("")
    return "\n".join(lines)


def _bytes_of(folder: Path) -> dict[str, bytes]:
    return {part.parent.name: part.read_bytes() for part in sorted(folder.glob("*/*.parquet"))}
