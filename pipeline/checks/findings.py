"""Whether the rows that findings rest on are there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import duckdb

from pipeline.database import Database
from schemas.tables import TABLES

Row = dict[str, Any]
MAX_FINDINGS = 50
"""Findings whose rows are looked up, the first ones; the rest are of the same kinds."""


def _problem(database: Database, finding: Row) -> str | None:
    """Why the evidence is none: it names no table, does not run, or none of its conditions meets a row."""
    is_met = False
    for part in json.loads(finding.get("evidence") or "[]"):
        if part["table"] not in TABLES:
            return f"no table {part['table']}"
        try:
            is_met |= bool(database.rows(f"SELECT 1 FROM {part['table']} WHERE {part['where']} LIMIT 1"))
        except duckdb.Error as error:
            return str(error).splitlines()[0]
    return None if is_met else "no row meets it"


def evidence_faults(database: Database, findings: Iterable[Row]) -> list[Row]:
    """A row of `diagnostics` when evidence leads nowhere; none when all does."""
    problems = []
    for finding in list(findings)[:MAX_FINDINGS]:
        if problem := _problem(database, finding):
            problems.append(f"finding {finding['finding_id']} ({finding['finding_kind']}): {problem}")
    if not problems:
        return []
    return [
        {
            "stage": "analyze",
            "file_id": -1,
            "name": "evidence_without_rows_in_findings",
            "severity": "error",
            "occurrence_count": len(problems),
            "detail": problems[0][:300],
        }
    ]
