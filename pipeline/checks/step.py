"""The checks as a step of the analysis: what fails becomes rows of `diagnostics`, and through them a finding."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipeline.checks.findings import evidence_faults
from pipeline.checks.tables import check_tables
from pipeline.database import Database, table_path
from pipeline.leaks.tables import write_rows
from schemas.tables import TABLES

Row = dict[str, Any]


def _view(database: Database, capture_dir: Path, names: Iterable[str]) -> None:
    """Let SQL read the tables as they were written."""
    for name in names:
        path = table_path(capture_dir, name)
        database.view(TABLES[name], [path] if path.exists() else [])


def _count(database: Database, capture_dir: Path, rows: list[Row]) -> None:
    """Add rows to `diagnostics`."""
    if not rows:
        return
    table = TABLES["diagnostics"]
    names = ", ".join(table.columns)
    known = [dict(zip(table.columns, row, strict=True)) for row in database.rows(f"SELECT {names} FROM diagnostics")]
    merged = {(row["stage"], row["file_id"], row["name"]): row for row in (*known, *rows)}
    write_rows(capture_dir, "diagnostics", [merged[key] for key in sorted(merged)])
    _view(database, capture_dir, ["diagnostics"])


def check_results(database: Database, capture_dir: Path) -> None:
    """Check every core and out table but `findings`, which tell of what was found here."""
    names = [table.name for table in TABLES.values() if table.layer != "raw" and table.name != "findings"]
    _view(database, capture_dir, names)
    _count(database, capture_dir, check_tables(database))


def check_findings(database: Database, capture_dir: Path, findings: list[Row]) -> None:
    """Check `findings` as written, and that the rows they rest on are there."""
    _view(database, capture_dir, ["findings"])
    _count(database, capture_dir, check_tables(database, ["findings"]) + evidence_faults(database, findings))
