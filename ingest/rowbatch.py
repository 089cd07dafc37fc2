"""Rows on their way from a text importer to the sink, in batches of bounded size."""

from __future__ import annotations

from typing import Any

from ingest.sink import Sink

BATCH_ROWS = 16 * 1024


class RowBatch:
    """Collects rows of one raw table as tuples in the order of `columns`, numbered by `event_index` from 0."""

    def __init__(self, sink: Sink, table: str, columns: tuple[str, ...], **constants: Any) -> None:
        self._sink, self._table, self._columns, self._constants = sink, table, columns, constants
        self._rows: list[tuple[Any, ...]] = []
        self._written = 0

    def add(self, *values: Any) -> None:
        """Append one row; writes the batch when it is full."""
        self._rows.append(values)
        if len(self._rows) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is there. To be called once more after the last row."""
        if self._rows:
            columns: dict[str, Any] = dict(zip(self._columns, map(list, zip(*self._rows, strict=True)), strict=True))
            columns["event_index"] = range(self._written, self._written + len(self._rows))
            self._sink.write(self._table, columns, **self._constants)
            self._written += len(self._rows)
            self._rows.clear()
