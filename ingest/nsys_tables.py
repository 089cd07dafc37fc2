"""What an Nsight Systems export is to its readers: named tables of integers, texts and reals, whatever holds them.

The tables and columns are those of the SQLite Schema Reference
(https://docs.nvidia.com/nsight-systems/UserGuide/index.html); folders of parquetdir and arrowdir hold the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import polars as pl

from ingest.callpaths import MAX_TEXT

TEXT_LIMIT = MAX_TEXT + 1
"""Characters kept of a text on its way to a table, one more than a table holds: what is cut can still be told."""

BATCH_ROWS = 64 * 1024
MAX_NAMES_SHOWN = 12

Columns = Mapping[str, type[pl.DataType]]
"""Column name → Int64, String or Float64."""

MARKERS = (
    b"CUPTI_ACTIVITY_KIND_",
    b"ENUM_NSYS_EVENT_TYPE",
    b"TARGET_INFO_SESSION_START_TIME",
    b"TARGET_INFO_SYSTEM_ENV",
    b"TARGET_INFO_CUDA_",
    b"EXPORT_META_DATA",
    b"META_DATA_EXPORT",
    b"PROFILER_OVERHEAD",
    b"SAMPLING_CALLCHAINS",
    b"OSRT_API",
    b"NVTX_EVENTS",
    b"ProcessStreams",
)
"""Names that only an export has; one of them and StringIds tell it."""

# Read by nobody here, and no loss: what describes the machine, the command line and the environment, and the texts of
# enumerations that are not needed.
_SILENT = re.compile(
    r"ENUM_\w*|META_DATA_\w*|EXPORT_META_DATA|ANALYSIS_(?:DETAILS|FILE)|ProcessStreams|UnwindMethodType|StringIds"
    r"|ThreadNames|PROCESSES|DIAGNOSTIC_EVENT|NVTX_PAYLOAD_\w*|TARGET_INFO_\w*|sqlite_\w*"
)
_VERSION = re.compile(r"\d{1,4}", re.ASCII)


class Export(Protocol):
    """One export."""

    def tables(self) -> Mapping[str, Sequence[str]]:
        """Readable tables and their columns."""

    def has_rows(self, table: str) -> bool:
        """Whether the table holds anything."""

    def filled(self, table: str, columns: Sequence[str]) -> set[str]:
        """Those of the table's columns that hold anything: reading empty ones takes as long as reading full ones."""

    def batches(
        self, table: str, columns: Columns, where: tuple[str, Sequence[int]] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Rows in the order of the table, in batches of bounded size with exactly these columns.

        A column that the table does not have is null. `where` keeps the rows whose column is one of the numbers.
        Damage is counted by the export itself; what can be read is given.
        """


def resolve(tables: Mapping[str, Sequence[str]], name: str) -> str | None:
    """The table called `name`, or else its newest version `name_V2`, `name_V3`, …; None when there is none.

    The name without a version is the exporter's own choice: a versioned one beside it repeats the rows.
    """
    if name in tables:
        return name
    prefix = f"{name}_V"
    found = [table for table in tables if table.startswith(prefix) and _VERSION.fullmatch(table, len(prefix))]
    versions = {int(table[len(prefix) :]): table for table in found}
    return versions[max(versions)] if versions else None


def left_out(export: Export, read: set[str]) -> list[str]:
    """Tables with rows that nobody reads, sorted."""
    return [
        table
        for table in sorted(export.tables())
        if table not in read and not _SILENT.fullmatch(table) and export.has_rows(table)
    ]


def shaped(frame: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The columns in the declared order and types; absent ones are null."""
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(kind, strict=False).alias(name)
        for name, kind in columns.items()
    )
