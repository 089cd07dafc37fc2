"""What a capture's results come to in a few facts: for the terminal, for scripts, and for the index page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import orjson

from pipeline.progress import printable
from reports.models.suspects import where_to_look

TOP_SUSPECTS = 5
_SHOWN_MISSING = 20
_MISSING_LENGTH = 300


@dataclass(frozen=True, slots=True)
class SuspectLine:
    """One growing suspect: `place` is the innermost frame of the user's own code, growth is null where unknown."""

    rank: int
    root_cause: str | None
    retained_count: int
    retained_bytes: int
    growth_bytes_per_hour: float | None
    confidence: float | None
    attribute: str | None
    place: str | None


@dataclass(frozen=True, slots=True)
class CaptureSummary:
    """`verdict` is leak, warning, clean or unknown; `missing` says what could not be read, placed or kept."""

    capture: str
    verdict: str
    headline: str
    detail: str
    suspects: tuple[SuspectLine, ...]
    suspects_count: int
    retained_bytes: int
    growth_bytes_per_hour: float | None
    findings_count: int
    missing: tuple[str, ...]
    report: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON and templates."""
        return dataclasses.asdict(self)


def _rows(connection: duckdb.DuckDBPyConnection, folder: Path, table: str, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query over one table, named `t` in it; none when the table is not there."""
    path = folder / "tables" / f"{table}.parquet"
    if not path.is_file():
        return []
    connection.execute(f"CREATE OR REPLACE TEMP VIEW t AS SELECT * FROM read_parquet('{_quoted(path)}')")
    return connection.execute(sql).fetchall()


def _quoted(path: Path) -> str:
    text = str(path)
    for wild in "[*?":
        text = text.replace(wild, f"[{wild}]")
    return text.replace("'", "''")


def _suspects(connection: duckdb.DuckDBPyConnection, folder: Path) -> list[SuspectLine]:
    rows = _rows(
        connection,
        folder,
        "leak_suspects",
        "SELECT root_cause, retained_count, retained_bytes, growth_bytes_per_hour, confidence, attribute,"
        " leak_path FROM t WHERE verdict = 'growing' ORDER BY suspect_rank NULLS LAST, suspect_id",
    )
    lines = []
    for number, (cause, count, size, growth, confidence, attribute, leak_path) in enumerate(rows, start=1):
        place = where_to_look(leak_path) or None
        attribute = printable(attribute) if attribute else None
        lines.append(SuspectLine(number, cause, count, size, growth, confidence, attribute, place))
    return lines


def _missing(connection: duckdb.DuckDBPyConnection, folder: Path) -> list[str]:
    files = _rows(
        connection,
        folder,
        "capture_files",
        "SELECT path, read_state, message FROM t WHERE read_state IN ('refused', 'unknown_format') ORDER BY file_id",
    )
    lost = _rows(
        connection,
        folder,
        "diagnostics",
        "SELECT name, sum(occurrence_count)::BIGINT, min(detail) FROM t WHERE severity <> 'info'"
        " GROUP BY name ORDER BY 2 DESC, 1",
    )
    adrift = _rows(
        connection,
        folder,
        "clock_alignments",
        "SELECT count(*) FROM t WHERE NOT clock_aligned AND method <> 'no_times'",
    )
    said = {"unknown_format": "not recognised"}
    found = [f"{path}: {said.get(state) or message or 'refused'}" for path, state, message in files]
    found += [f"{name.replace('_', ' ')}: {count:,}{f' ({detail})' if detail else ''}" for name, count, detail in lost]
    if adrift and adrift[0][0]:
        found.append(f"{adrift[0][0]} of its files could not be put on the common clock")
    return [printable(line)[:_MISSING_LENGTH] for line in found]


def _verdict(folder: Path, suspects: Sequence[SuspectLine]) -> tuple[str, str, str, int]:
    """Tone, headline, detail and number of findings, as findings.json has them."""
    try:
        content = orjson.loads((folder / "findings.json").read_bytes())
        verdict = content["verdict"]
        headline, detail = printable(verdict["headline"]), printable(verdict["detail"])
        return verdict["tone"], headline, detail, int(content["findings_count"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown", "Not reported yet: run `leakpath report`.", "", 0


def summarise(folder: Path) -> CaptureSummary:
    """The summary of one capture's output folder, from its tables and findings.json; what is absent counts as none."""
    with duckdb.connect() as connection:
        suspects = _suspects(connection, folder)
        missing = _missing(connection, folder)
    tone, headline, detail, findings_count = _verdict(folder, suspects)
    growth = [line.growth_bytes_per_hour for line in suspects if line.growth_bytes_per_hour is not None]
    report = folder / "report.html"
    return CaptureSummary(
        capture=folder.name,
        verdict=tone,
        headline=headline,
        detail=detail,
        suspects=tuple(suspects[:TOP_SUSPECTS]),
        suspects_count=len(suspects),
        retained_bytes=sum(line.retained_bytes for line in suspects),
        growth_bytes_per_hour=sum(growth) if growth else None,
        findings_count=findings_count,
        missing=tuple(missing[:_SHOWN_MISSING]),
        report=f"{folder.name}/report.html" if report.is_file() else None,
    )
