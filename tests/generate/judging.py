"""Run the pipeline on a capture in this process, and read what it says of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from ingest.capture import capture_files
from pipeline.steps import analyze, ingest
from schemas.config import Config

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The tables that a verdict rests on; `evidence` maps a suspect to its (folder, device, address)."""

    out: Path
    suspects: list[Row]
    evidence: dict[int, set[tuple[str | None, int, int]]]
    findings: list[Row]

    @property
    def growing(self) -> list[Row]:
        return [row for row in self.suspects if row["verdict"] == "growing"]

    def of(self, address: tuple[str | None, int, int]) -> Row | None:
        """The judged group that an allocation is in."""
        return next((row for row in self.suspects if address in self.evidence.get(row["suspect_id"], ())), None)


def rows(out: Path, sql: str) -> list[Row]:
    """Rows of a query over a capture's tables; `{name}` stands for a table."""
    connection = duckdb.connect()
    names = {path.stem: f"read_parquet('{path}')" for path in (out / "tables").glob("*.parquet")}
    cursor = connection.execute(sql.format(**names))
    columns = [column[0] for column in cursor.description]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def run_pipeline(capture: Path, out: Path, config: Config | None = None) -> Verdicts:
    """Ingest and analyze a capture folder."""
    ingest(capture_files(capture), capture, out)
    analyze(out, config or Config())
    return read_verdicts(out)


def read_verdicts(out: Path) -> Verdicts:
    """Verdicts of an analyzed capture."""
    evidence: dict[int, set[tuple[str | None, int, int]]] = {}
    for row in rows(
        out,
        "SELECT e.suspect_id, a.device_index, a.address, f.folder FROM {leak_evidence} AS e"
        " JOIN {allocations} AS a USING (allocation_id)"
        " LEFT JOIN (SELECT DISTINCT m.process_id, regexp_extract(c.path, '^([^/]+)/', 1) AS folder"
        "   FROM {memory_events} AS m JOIN {capture_files} AS c USING (file_id)) AS f ON f.process_id = a.process_id",
    ):
        evidence.setdefault(row["suspect_id"], set()).add((row["folder"] or None, row["device_index"], row["address"]))
    return Verdicts(
        out,
        rows(out, "SELECT * FROM {leak_suspects} ORDER BY suspect_id"),
        evidence,
        rows(out, "SELECT * FROM {findings} ORDER BY finding_id"),
    )
