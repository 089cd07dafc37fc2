"""Frames of rows on their way to the sink, and the expressions that turn an export's "none" values into nulls."""

from __future__ import annotations

from collections import Counter

import polars as pl

from ingest.sink import Sink

MAX_PROCESSES = 100_000


class RowWriter:
    """Writes frames to the sink's tables, numbers their rows, and notes which processes they speak of."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._written: Counter[str] = Counter()
        self.processes: set[int] = set()
        self.cuda_processes: set[int] = set()

    def write(self, table: str, frame: pl.DataFrame, *, cuda: bool = True) -> None:
        """Append rows; `event_index` counts them over the whole file."""
        if not frame.height:
            return
        first = self._written[table]
        self._written[table] += frame.height
        if "process_id" in frame.columns:
            found = set(frame["process_id"].unique().drop_nulls().to_list())
            for processes in (self.processes, self.cuda_processes) if cuda else (self.processes,):
                if len(processes) < MAX_PROCESSES:
                    processes |= found
        arrow = frame.to_arrow()
        columns = {name: arrow[name] for name in arrow.column_names}
        columns["event_index"] = range(first, first + frame.height)
        self._sink.write(table, columns)


def ints(names: str) -> dict[str, type[pl.DataType]]:
    """Columns of whole numbers."""
    return dict.fromkeys(names.split(), pl.Int64)


def none_if(name: str, *none: int) -> pl.Expr:
    """The column, null where it is one of the numbers that stand for none."""
    return pl.when(~pl.col(name).is_in(none)).then(pl.col(name))


def small(name: str) -> pl.Expr:
    """The column in 32 bits, null where it does not fit."""
    return pl.col(name).cast(pl.Int32, strict=False)


def unsigned(name: str) -> pl.Expr:
    """The bits of the column as an unsigned number."""
    return pl.col(name).reinterpret(signed=False)


def triple(stem: str) -> pl.Expr:
    """Three columns as `x,y,z`."""
    return pl.concat_str([pl.col(f"{stem}{axis}") for axis in "XYZ"], separator=",")
