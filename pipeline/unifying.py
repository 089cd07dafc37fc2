"""Parts of a raw table to one file: times on the capture's clock, processes filled in, in the declared order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.bounds import bounded
from ingest.writer import ParquetFile
from pipeline.clock import Alignment
from schemas.tables import Table

_ONCE = {"frames": "frame_id", "call_paths": "call_path_id"}
_OWN_PROCESS_ONLY = {"metrics"}
_STREAMED = ("file_id", "event_index")
RANGE_ID_SHIFT = 32


@dataclass(frozen=True, slots=True)
class Placement:
    """What the clock step found: each file's alignment and process, and each dump's number and last event that counts.

    `dumps` maps (file, device) to (dump_index, cutoff_ns); events at or after the cutoff are in a later dump as well.
    `lost` counts, by file, times that the capture's clock can't have: they become null.
    """

    alignments: Mapping[int, Alignment]
    processes: Mapping[int, int | None]
    dumps: Mapping[tuple[int, int | None], tuple[int, int | None]]
    lost: Counter[int] = field(default_factory=Counter)


def part_files(parts: Path, table: Table) -> list[Path]:
    """Part files of a table in file order."""
    return sorted((parts / table.name).glob("*.parquet"))


def _moved(times: pa.Array | pa.ChunkedArray, alignment: Alignment) -> pa.Array | pa.ChunkedArray:
    """Times on the capture's clock; wrapping sums keep a hostile time from raising."""
    moved = pc.add(times, pa.scalar(alignment.offset_ns or 0, pa.int64()))
    if alignment.drift_ratio:
        away = pc.cast(pc.subtract(times, alignment.origin_ns or 0), pa.float64(), safe=False)
        moved = pc.add(moved, pc.cast(pc.round(pc.multiply(away, alignment.drift_ratio)), pa.int64(), safe=False))
    return moved


def _placed(table: Table, rows: pa.Table, file_id: int, placement: Placement) -> pa.Table:
    """One file's rows with everything the clock step knows of the file."""
    alignment = placement.alignments.get(file_id)

    def replace(name: str, values: pa.Array | pa.ChunkedArray) -> None:
        nonlocal rows
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, table.arrow_schema().field(name), values)

    if table.name == "memory_events":
        rows = _before_cutoff(rows, file_id, placement)
    if alignment is not None and alignment.clock_aligned:
        for name in table.timestamps:
            replace(name, _moved(rows[name], alignment))
        rows, lost = bounded(table, rows)
        placement.lost[file_id] += sum(lost.values())
        if "clock_aligned" in table.columns:
            replace("clock_aligned", pa.repeat(pa.scalar(True), rows.num_rows))
    process = placement.processes.get(file_id)
    if table.name == "capture_files":  # its one part holds a row of every file
        owners = [placement.processes.get(number) for number in rows["file_id"].to_pylist()]
        replace("process_id", pc.coalesce(rows["process_id"], pa.array(owners, pa.int64())))
    elif process is not None and "process_id" in table.columns and table.name not in _OWN_PROCESS_ONLY:
        replace("process_id", pc.fill_null(rows["process_id"], process))
    if "range_id" in table.columns:
        replace("range_id", pc.add(rows["event_index"], file_id << RANGE_ID_SHIFT))
    if "dump_index" in table.columns:
        known = [index for (owner, _), (index, _) in placement.dumps.items() if owner == file_id]
        replace("dump_index", pa.repeat(pa.scalar(min(known, default=0), pa.int32()), rows.num_rows))
    return rows


def _before_cutoff(rows: pa.Table, file_id: int, placement: Placement) -> pa.Table:
    for (owner, device), (_, cutoff) in placement.dumps.items():
        if owner == file_id and cutoff is not None:
            late = pc.and_(pc.equal(rows["device_index"], device), pc.greater_equal(rows["ts_ns"], cutoff))
            rows = rows.filter(pc.invert(pc.fill_null(late, False)))
    return rows


def _batches(files: Sequence[Path]) -> Iterator[tuple[int, pa.Table]]:
    for path in files:
        with pq.ParquetFile(path) as part:
            for group in range(part.num_row_groups):
                yield int(path.stem), part.read_row_group(group)


def _sorted_whole(table: Table, rows: pa.Table) -> pa.Table:
    """All rows of a small table in its declared order, each number of a call path or frame once."""
    keys = [name for name in table.order if not pa.types.is_list(rows.schema.field(name).type)]
    rows = rows.sort_by([(name, "ascending") for name in keys])
    once = _ONCE.get(table.name)
    if once is None:
        return rows
    numbers = rows[once].to_numpy()
    return rows.filter(pa.array(np.concatenate(([True], numbers[1:] != numbers[:-1]))))


def unify(table: Table, files: Sequence[Path], path: Path, placement: Placement) -> int:
    """Write one raw table from its parts; returns the rows written.

    Tables in file order are streamed a row group at a time; the others are small and sorted in memory.
    """
    placed = (_placed(table, rows, file_id, placement) for file_id, rows in _batches(files))
    file = ParquetFile(table, path)
    try:
        if table.order == _STREAMED:
            for rows in placed:
                file.write_behind(rows)
        else:
            file.write(_sorted_whole(table, pa.concat_tables(placed)))
    except BaseException:
        file.discard()
        raise
    file.close()
    return file.rows
