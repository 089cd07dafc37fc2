"""Rows that wait on disk for what only the end of the file tells: the base of its times, and who called whom."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.writer import output_error


class Spool:
    """Tables of one schema in a nameless file of `folder`: appended, then read once from the start, in order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Any = None
        self._writer: Any = None
        self.rows = 0

    def add(self, rows: pa.Table) -> None:
        """Append rows. Raises OutputError when the disk is full."""
        try:
            if self._writer is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - lives until it was read
                self._writer = pa.ipc.new_stream(self._file, rows.schema)
            self._writer.write_table(rows)
        except OSError as error:
            raise output_error(error, self._folder) from error
        self.rows += rows.num_rows

    def __iter__(self) -> Iterator[pa.Table]:
        if self._writer is None:
            return
        self._writer.close()
        self._file.seek(0)
        with self._file, pa.ipc.open_stream(self._file) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])
        self._writer = None
