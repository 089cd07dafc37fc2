"""The first step: capture files to raw tables on one clock."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ingest.capture import FileResult, read_capture
from ingest.capture_yaml import CaptureNotes
from ingest.writer import ParquetFile, to_arrow
from pipeline.clock import Alignment, Edge, File, align
from pipeline.database import Database, table_path
from pipeline.unifying import Placement, part_files, unify
from schemas.config import IngestSettings
from schemas.tables import TABLES, Table


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What became of each file, and how each clock was placed."""

    files: list[FileResult]
    alignments: list[Alignment]


def _clock_files(database: Database, results: Sequence[FileResult], notes: CaptureNotes) -> list[File]:
    spans = " UNION ALL ".join(
        f"SELECT file_id, min({column}) AS first_ns, max({column}) AS last_ns FROM {table.name} GROUP BY file_id"
        for table in TABLES.values()
        if table.layer == "raw"
        for column in table.timestamps
    )
    seen = {
        row[0]: row[1:]
        for row in database.rows(f"SELECT file_id, min(first_ns), max(last_ns) FROM ({spans}) GROUP BY file_id")
    }
    pairs = database.rows(
        "SELECT file_id, realtime_ns, monotonic_ns, boottime_ns, monotonic_raw_ns FROM clock_pairs"
        " ORDER BY width_ns, realtime_ns"
    )
    column = {"monotonic": 2, "boottime": 3, "monotonic_raw": 4}
    files = []
    for result in results:
        place = column.get(result.clock or "")
        fitting = [row for row in pairs if place is not None and row[place] is not None]
        own = [row for row in fitting if row[0] == result.file_id] or fitting
        offset = own[0][1] - own[0][place] if own and place is not None else None
        first, last = seen.get(result.file_id, (None, None))
        files.append(
            File(
                result.file_id,
                result.format,
                result.clock or "unknown",
                first,
                last,
                offset,
                notes.of(result.path).get("clock_offset_ns"),
                result.host,
            )
        )
    return files


def _write_rows(table: Table, path: Path, rows: Sequence[Alignment]) -> None:
    file = ParquetFile(table, path)
    if rows:
        file.write(to_arrow(table, {name: [getattr(row, name) for row in rows] for name in table.columns}))
    file.close()


def ingest(
    files: Sequence[Path],
    root: Path,
    out: Path,
    progress: Callable[[str], None] = lambda line: None,
    settings: IngestSettings | None = None,
) -> IngestSummary:
    """Read a capture's files into `out/tables/<raw table>.parquet` and `clock_alignments`.

    `root` is the capture folder (or its only file), `out` the capture's output folder. Tables without rows are
    not written. Raises BadInput when nothing could be read, OutputError when `out` can't be written.
    """
    work = out / ".leakpath-parts"
    parts = work / "parts"
    try:
        columns = (settings or IngestSettings()).request_columns
        results, notes = read_capture(files, root, parts, progress, columns)
        progress("putting files on one clock")
        with Database(work / "duckdb") as database:
            _unify(database, parts, out, results, notes)
            alignments = [
                Alignment(*row)
                for row in database.rows(
                    f"SELECT {', '.join(f.name for f in fields(Alignment))} FROM clock_alignments ORDER BY file_id"
                )
            ]
        return IngestSummary(results, alignments)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unify(database: Database, parts: Path, out: Path, results: Sequence[FileResult], notes: CaptureNotes) -> None:
    raw = [table for table in TABLES.values() if table.layer == "raw"]
    for table in raw:
        database.view(table, part_files(parts, table))
    for relation in ("file_processes", "clock_anchors", "clock_edges", "dumps"):
        database.run("clock", relation)
    edges = [Edge(*row) for row in database.rows(f"SELECT {', '.join(Edge._fields)} FROM clock_edges ORDER BY ALL")]
    read = [result for result in results if result.row_count]
    rows = align(_clock_files(database, read, notes), edges)
    shutil.rmtree(out / "tables", ignore_errors=True)
    path = table_path(out, "clock_alignments")
    _write_rows(TABLES["clock_alignments"], path, rows)
    database.view(TABLES["clock_alignments"], [path])
    processes = dict(database.rows("SELECT file_id, process_id FROM file_processes"))
    dumps = {
        (file, device): (index, cutoff)
        for file, device, index, cutoff in database.rows(
            "SELECT file_id, device_index, dump_index, cutoff_ns FROM dumps"
        )
    }
    placed = Placement({row.file_id: row for row in rows}, processes, dumps)
    for table in sorted(raw, key=lambda table: table.name == "diagnostics"):
        files = part_files(parts, table)
        if table.name == "diagnostics":
            files += _count_lost(table, parts, placed)
        if files:
            unify(table, files, table_path(out, table.name), placed)


def _count_lost(table: Table, parts: Path, placed: Placement) -> list[Path]:
    """A part of `diagnostics` with the times that the clock step could not place, if there are any."""
    lost = {file: count for file, count in sorted(placed.lost.items()) if count}
    if not lost:
        return []
    path = parts / table.name / f"{len(placed.alignments) + 10**6}.parquet"
    file = ParquetFile(table, path)
    columns = {"file_id": list(lost), "occurrence_count": list(lost.values())}
    constants = {
        "stage": "ingest",
        "name": "times_beyond_the_clock",
        "severity": "data_loss",
        "detail": "times that the offset of the file's clock moves before 1970 or beyond 2116; they count as not known",
    }
    file.write(to_arrow(table, columns, constants))
    file.close()
    return [path]
