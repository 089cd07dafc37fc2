"""findings.json: the findings table with the rows it rests on, for scripts and CI jobs."""

from __future__ import annotations

from typing import Any

import orjson

from reports.models.findings import parse_evidence
from reports.models.verdict import Verdict
from reports.source import CaptureTables
from schemas.tables import TABLES

MAX_ROWS = 10_000


def write_findings(tables: CaptureTables, verdict: Verdict, version: str) -> bytes:
    """JSON with sorted keys: `leakpath` (version), `capture`, `verdict`, `findings` in their order, `tables`.

    `findings_count` is the table's own count; a file holds at most `MAX_ROWS` of them. `tables` names each
    table that is there with its path relative to the file and its rows.
    """
    rows = tables.rows("SELECT * FROM findings ORDER BY finding_id LIMIT $limit", {"limit": MAX_ROWS})
    content = {
        "leakpath": {"version": version},
        "capture": tables.name,
        "verdict": {"tone": verdict.tone, "headline": verdict.headline, "detail": verdict.detail},
        "findings_count": tables.states["findings"].row_count,
        "findings": [_finding(row) for row in rows],
        "tables": {
            name: {
                "path": f"tables/{name}.parquet",
                "row_count": state.row_count,
                "columns": list(TABLES[name].columns),
            }
            for name, state in tables.states.items()
            if state.state == "present"
        },
    }
    return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def _finding(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"evidence": parse_evidence(row["evidence"])}
