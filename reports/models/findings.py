"""Findings: what a person reads first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from reports.source import CaptureTables
from reports.text import tidy

MAX_FINDINGS = 40
SEVERITIES = ("critical", "warning", "info")


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; `evidence` are the rows it rests on, as text."""

    finding_id: int
    kind: str
    severity: str
    title: str
    confidence: float | None
    bytes: int | None
    advice: str
    abstained_reason: str
    evidence: tuple[str, ...]


def read_findings(tables: CaptureTables) -> tuple[list[Finding], int]:
    """Findings in their own order, at most `MAX_FINDINGS`, and how many more there are."""
    rows = tables.rows(
        "SELECT *, count(*) OVER () AS total FROM findings ORDER BY finding_id LIMIT $limit", {"limit": MAX_FINDINGS}
    )
    findings = [
        Finding(
            row["finding_id"],
            tidy(row["finding_kind"], 40),
            row["severity"] if row["severity"] in SEVERITIES else "info",
            tidy(row["title"], 400),
            row["confidence"],
            row["bytes"],
            tidy(row["advice"], 800),
            tidy(row["abstained_reason"], 600),
            _evidence(row["evidence"]),
        )
        for row in rows
    ]
    return findings, rows[0]["total"] - len(rows) if rows else 0


def parse_evidence(text: str | None) -> Any:
    """The evidence column as JSON values; the text itself when it is not JSON, None when there is none."""
    if text is None:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _evidence(text: str | None) -> tuple[str, ...]:
    value = parse_evidence(text)
    items = value if isinstance(value, list) else [] if value is None else [value]
    shown = []
    for item in items[:6]:
        if isinstance(item, dict) and "table" in item:
            where = item.get("where")
            shown.append(tidy(item["table"], 40) + (f" where {tidy(where, 120)}" if where and where != "true" else ""))
        else:
            shown.append(tidy(item, 160))
    return (*shown, f"and {len(items) - 6} more") if len(items) > 6 else tuple(shown)
