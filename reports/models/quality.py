"""What was lost, not read or not aligned: the limits of what the report can say."""

from __future__ import annotations

from dataclasses import dataclass

from reports.source import CaptureTables, Row
from reports.text import tidy, tidy_middle

MAX_FILES = 40
MAX_COUNTS = 40


@dataclass(frozen=True, slots=True)
class FileState:
    """One capture file with how it was read and how its clock was aligned."""

    file_id: int
    path: str
    format: str
    size_bytes: int | None
    row_count: int
    read_state: str
    message: str
    clock: str
    method: str
    anchor_count: int | None
    offset_ns: int | None
    residual_p99_ns: int | None
    check_difference_ns: int | None
    is_aligned: bool | None
    is_disagreement: bool


@dataclass(frozen=True, slots=True)
class Count:
    """One kind of damage, loss or thing left out; `path` is empty for a stage that reads no file."""

    severity: str
    name: str
    stage: str
    path: str
    count: int
    detail: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A table that could not be used."""

    name: str
    grain: str
    state: str
    note: str


@dataclass(frozen=True, slots=True)
class Quality:
    """Files, counts with the worst first, and tables that are not there; `*_left_out` is how many are not shown."""

    files: tuple[FileState, ...]
    files_left_out: int
    counts: tuple[Count, ...]
    counts_left_out: int
    missing: tuple[Missing, ...]
    lost_count: int
    unaligned_count: int
    unread_count: int


def read_quality(tables: CaptureTables) -> Quality:
    """Read the three tables that say what is not known."""
    files = tables.query("capture_files", limit=MAX_FILES)
    counts = tables.query("diagnostics", limit=MAX_COUNTS)
    (totals,) = tables.rows(
        """
        SELECT (SELECT count(*) FROM diagnostics WHERE severity <> 'info') AS lost,
               (SELECT count(*) FROM clock_alignments WHERE NOT clock_aligned AND method <> 'no_times') AS unaligned,
               (SELECT count(*) FROM capture_files WHERE read_state <> 'read') AS unread
        """
    )
    missing = [
        s for s in tables.states.values() if s.state != "present" and (s.layer != "raw" or s.state == "unreadable")
    ]
    return Quality(
        files=tuple(_file(row) for row in files),
        files_left_out=files[0]["total"] - len(files) if files else 0,
        counts=tuple(_count(row) for row in counts),
        counts_left_out=counts[0]["total"] - len(counts) if counts else 0,
        missing=tuple(Missing(s.name, s.grain, s.state, tidy(s.note, 200)) for s in missing),
        lost_count=totals["lost"],
        unaligned_count=totals["unaligned"],
        unread_count=totals["unread"],
    )


def _file(row: Row) -> FileState:
    numbers = {name: row[name] for name in ("anchor_count", "offset_ns", "residual_p99_ns", "check_difference_ns")}
    return FileState(
        file_id=row["file_id"],
        path=tidy_middle(row["path"], 90),
        format=tidy(row["format"], 40).replace("_", " "),
        size_bytes=row["size_bytes"],
        row_count=row["row_count"],
        read_state=tidy(row["read_state"], 30).replace("_", " "),
        message=tidy(row["message"], 400),
        clock=tidy(row["clock"], 30),
        method=tidy(row["method"], 40).replace("_", " "),
        is_aligned=row["clock_aligned"],
        is_disagreement=bool(row["is_disagreement"]),
        **numbers,
    )


def _count(row: Row) -> Count:
    return Count(
        tidy(row["severity"], 20).replace("_", " "),
        tidy(row["name"], 80).replace("_", " "),
        tidy(row["stage"], 30),
        tidy_middle(row["path"], 60),
        row["occurrence_count"],
        tidy(row["detail"], 400),
    )
