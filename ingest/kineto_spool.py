"""Rows that wait on disk for what only the end of the file tells: the base of its times, and who called whom."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.atomic import output_error


@contextmanager
def system_memory() -> Iterator[None]:
    """Arrow's memory is the system's inside the block: its own allocator keeps what many small tables gave back."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


class Spool:
    """Tables of one schema in a nameless file of `folder`: appended, then read from the start, in order, at will."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Any = None
        self._writer: Any = None
        self.rows = 0

    def add(self, rows: pa.Table) -> None:
        """Append rows; not after the first reading. Raises OutputError when the disk is full."""
        try:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - lives as long as the spool
                self._writer = pa.ipc.new_stream(self._file, rows.schema)
            self._writer.write_table(rows)
        except OSError as error:
            raise output_error(error, self._folder) from error
        self.rows += rows.num_rows

    def __iter__(self) -> Iterator[pa.Table]:
        if self._file is None:
            return
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._file.seek(0)
        for batch in pa.ipc.open_stream(self._file):
            yield pa.Table.from_batches([batch])

    def close(self) -> None:
        """Give the disk back."""
        if self._file is not None:
            self._file.close()
