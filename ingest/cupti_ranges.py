"""NVTX ranges from CUPTI's MARKER records: a range is two records with one id, a mark is one.

Record: https://docs.nvidia.com/cupti/api/structCUpti__ActivityMarker2.html. The name stands on the start only, and the
two records may lie far apart in the file, or in the wrong order: buffers are delivered when they are full.
"""

from __future__ import annotations

import polars as pl

from ingest.callpaths import MAX_TEXT
from ingest.cupti_enums import MARKER_END, MARKER_INSTANT, MARKER_START, OBJECT_PROCESS, OBJECT_THREAD

MAX_OPEN = 1_000_000
"""Records that wait for their other half; beyond it the oldest are given up, to bound memory."""

ATTRIBUTES = [
    *("flags_", "timestamp", "id", "object_kind", "object_id_process_id", "object_id_thread_id", "name", "domain"),
    *("event_index", "process_id"),
]

_KEY = ["process_id", "id"]


class RangePairs:
    """Pairs starts and ends over all batches of a file.

    Each batch has ATTRIBUTES, `process_id` filled in where the record names none. Rows come out with the columns of
    `ranges`: `event_index` of the start record, `end_ns` null for a range that was not closed.
    """

    def __init__(self) -> None:
        self._open: pl.DataFrame | None = None
        self.unclosed = 0
        """Ranges without an end."""
        self.unopened = 0
        """Ends without a start: no row, for neither name nor start is known."""
        self.unknown = 0
        """Records that are neither start, end nor mark."""

    def add(self, records: pl.DataFrame) -> pl.DataFrame:
        """Rows of `ranges` that this batch completes."""
        flags = pl.col("flags_").fill_null(0)
        has_process = pl.col("object_kind").is_in((OBJECT_PROCESS, OBJECT_THREAD))
        markers = records.select(
            "event_index",
            pl.when(has_process & (pl.col("object_id_process_id") != 0))
            .then("object_id_process_id")
            .otherwise("process_id")
            .alias("process_id"),
            pl.when(pl.col("object_kind") == OBJECT_THREAD).then("object_id_thread_id").alias("thread_id"),
            "id",
            pl.col("name").str.slice(0, MAX_TEXT),
            pl.col("domain").fill_null("").str.slice(0, MAX_TEXT),
            pl.when(pl.col("timestamp") != 0).then("timestamp").alias("ts_ns"),
            pl.when(flags & MARKER_START != 0)
            .then(0)
            .when(flags & MARKER_END != 0)
            .then(1)
            .when(flags & MARKER_INSTANT != 0)
            .then(2)
            .alias("role"),
        )
        self.unknown += markers["role"].null_count()
        marks = markers.filter(pl.col("role") == 2)
        halves = markers.filter(pl.col("role") < 2)
        if self._open is not None:
            halves = pl.concat([self._open, halves])
        # An id may come back after 2^32 ranges or in another recording of the same file: next to each other in time
        # and in the order start, end they are one range; anything else is a half whose partner was lost.
        halves = halves.sort(*_KEY, "ts_ns", "role", "event_index", nulls_last=True)
        same = pl.all_horizontal(pl.col(key).eq_missing(pl.col(key).shift(-1)) for key in _KEY)
        opens = (pl.col("role") == 0) & (pl.col("role").shift(-1) == 1) & same
        halves = halves.with_columns(
            opens.fill_null(False).alias("opens"), pl.col("ts_ns").shift(-1).alias("next_ns")
        ).with_columns(pl.col("opens").shift(1, fill_value=False).alias("closes"))
        waiting = halves.filter(~pl.col("opens") & ~pl.col("closes")).sort("event_index")
        self._open = waiting.select(markers.columns)
        rows = [
            _rows(halves.filter("opens"), "next_ns"),
            _rows(marks, "ts_ns"),
        ]
        if self._open.height > MAX_OPEN:
            given_up = self._open.height - MAX_OPEN
            rows.append(self._give_up(self._open.head(given_up)))
            self._open = self._open.tail(MAX_OPEN)
        return pl.concat(rows)

    def finish(self) -> pl.DataFrame:
        """Rows of the ranges that nothing closed."""
        return self._give_up(self._open) if self._open is not None else pl.DataFrame()

    def _give_up(self, halves: pl.DataFrame) -> pl.DataFrame:
        starts = halves.filter(pl.col("role") == 0)
        self.unclosed += starts.height
        self.unopened += halves.height - starts.height
        return _rows(starts, None)


def _rows(starts: pl.DataFrame, end: str | None) -> pl.DataFrame:
    ends = pl.lit(None, pl.Int64) if end is None else pl.col(end)
    columns = ["event_index", "process_id", "thread_id", "name", "domain"]
    return starts.sort("event_index").select(*columns, pl.col("ts_ns").alias("start_ns"), ends.alias("end_ns"))
