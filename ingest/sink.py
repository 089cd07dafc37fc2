"""Where an importer puts what it reads: rows, call paths, clock, and counts of what was lost."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from ingest.bounds import bounded
from ingest.callpaths import CallPaths, clean_text
from ingest.clocks import Clock, ClockPair
from ingest.writer import ROW_GROUP_ROWS, Column, ParquetFile, to_arrow
from schemas.tables import TABLES

Severity = Literal["info", "data_loss", "error"]


class Sink:
    """Collects one capture file's rows into `parts/<table>/<file_id>.parquet`, in bounded batches.

    Importers set `clock`, `format_version`, `process_id`, `rank` and `host` as they learn them;
    `request_columns` is the map of a request log's keys that the user gave. Columns
    `file_id`, `source`, `clock_aligned` (False until the clock step) are filled here.
    """

    def __init__(self, parts: Path, file_id: int, source: str, *, clock: Clock = "unknown") -> None:
        self.parts, self.file_id, self.source = parts, file_id, source
        self.clock: Clock = clock
        self.clock_pairs: list[ClockPair] = []
        self.format_version: str | None = None
        self.process_id: int | None = None
        self.rank: int | None = None
        self.host: str | None = None
        self.recording: str | None = None
        self.request_columns: Mapping[str, str] = {}
        self.call_paths = CallPaths()
        self.counts: dict[tuple[str, Severity], tuple[int, str | None]] = {}
        self._files: dict[str, ParquetFile] = {}
        self._pending: dict[str, list[pa.Table]] = {}
        self._pending_rows: dict[str, int] = {}

    def write(self, table: str, columns: Mapping[str, Column], **constants: Any) -> None:
        """Append one batch of rows to a raw table.

        `columns` maps column name to values of equal length (list, numpy or Arrow array; None is null),
        `constants` fill a column with one value. Undeclared names raise ValueError, absent columns are null.
        """
        declared = TABLES[table]
        if not columns or not len(next(iter(columns.values()))):
            return
        fixed = {"file_id": self.file_id, "source": self.source, "clock_aligned": False} | constants
        fixed = {name: value for name, value in fixed.items() if name in declared.columns and name not in columns}
        rows, lost = bounded(declared, to_arrow(declared, columns, fixed))
        for name, rows_lost in lost.items():
            self.count("value_out_of_range", rows_lost, severity="data_loss", detail=f"{table}.{name}")
        if not rows.num_rows:
            return
        self._pending.setdefault(table, []).append(rows)
        self._pending_rows[table] = self._pending_rows.get(table, 0) + rows.num_rows
        if self._pending_rows[table] >= ROW_GROUP_ROWS:
            self.flush(table)

    def count(self, name: str, occurrences: int = 1, *, severity: Severity = "info", detail: str | None = None) -> None:
        """Count damage, loss or something left out under a stable snake_case name; the first detail is kept."""
        if occurrences:
            known, first = self.counts.get((name, severity), (0, None))
            self.counts[(name, severity)] = (known + occurrences, first or (detail and clean_text(detail)))

    def rows(self) -> int:
        """Rows written so far, all tables."""
        return sum(file.rows for file in self._files.values()) + sum(self._pending_rows.values())

    def flush(self, table: str) -> None:
        """Write what waits of a table: for importers that are done with one, or keep much else in memory."""
        if self._pending_rows.get(table):
            self._file(table).write_behind(pa.concat_tables(self._pending.pop(table)))
            self._pending_rows[table] = 0

    def _file(self, table: str) -> ParquetFile:
        if table not in self._files:
            self._files[table] = ParquetFile(
                TABLES[table], self.parts / table / f"{self.file_id:05d}.parquet", codec="lz4"
            )
        return self._files[table]

    def _finish(self, table: str) -> None:
        """Write what waits of a table, and give its part its name."""
        if self._pending_rows.get(table):
            self._file(table).write(pa.concat_tables(self._pending.pop(table)))
            self._pending_rows[table] = 0
        self._file(table).close()

    def close(self) -> None:
        """Write call paths, clock pairs and counts, and give every part its name."""
        for table, columns in self.call_paths.tables().items():
            self.write(table, columns)
        if self.clock_pairs:
            self.write(
                "clock_pairs", {name: [getattr(p, name) for p in self.clock_pairs] for name in ClockPair._fields}
            )
        if self.counts:
            keys = list(self.counts)
            self.write(
                "diagnostics",
                {
                    "name": [name for name, _ in keys],
                    "severity": [severity for _, severity in keys],
                    "occurrence_count": [self.counts[key][0] for key in keys],
                    "detail": [self.counts[key][1] for key in keys],
                },
                stage="ingest",
            )
        # Tables are compressed outside the interpreter's lock: two at a time.
        names = dict.fromkeys([*self._files, *self._pending])
        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(self._finish, names))

    def discard(self) -> None:
        """Drop everything written so far."""
        self._pending.clear()
        for file in self._files.values():
            file.discard()
