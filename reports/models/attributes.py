"""Request attributes that tell the requests with survivors from the rest."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from reports.source import CaptureTables, Row
from reports.text import tidy

MAX_VALUES = 4  # values shown of one attribute
MAX_ATTRIBUTES = 8


@dataclass(frozen=True, slots=True)
class AttributeRow:
    """How many requests with and without survivors have one value; the value `None` stands for all other values."""

    attribute: str
    value: str | None
    leaking_count: int
    other_count: int
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Attributes:
    """Requests that keep something and requests that don't, and rows with the best separating attribute first."""

    leaking_total: int
    other_total: int
    rows: tuple[AttributeRow, ...]
    left_out_count: int

    def chosen(self) -> AttributeRow | None:
        """The row of the attribute that the analysis named."""
        return next((row for row in self.rows if row.is_chosen), None)


def read_attributes(
    tables: CaptureTables, suspect_id: int, process_id: int | None, chosen: str | None
) -> Attributes | None:
    """Attribute counts of one suspect's requests; None when its survivors belong to no request of the log.

    `chosen` is the suspect's own `attribute`, as `name=value`.
    """
    ranked = tables.query("attributes", suspect_id=suspect_id, process_id=process_id, values=MAX_VALUES)
    if not ranked:
        return None
    rows: list[AttributeRow] = []
    groups = [(name, list(group)) for name, group in groupby(ranked, key=lambda row: row["attribute"])]
    for name, group in groups[:MAX_ATTRIBUTES]:
        rows += _rows(name, group, chosen)
    return Attributes(
        ranked[0]["leaking_total"], ranked[0]["others_total"], tuple(rows), max(0, len(groups) - MAX_ATTRIBUTES)
    )


def _rows(name: str, group: list[Row], chosen: str | None) -> list[AttributeRow]:
    rows = [
        AttributeRow(tidy(name, 60), tidy(r["value"], 60), r["leaking"], r["others"], f"{name}={r['value']}" == chosen)
        for r in group
    ]
    leaking = group[0]["all_leaking"] - sum(row.leaking_count for row in rows)
    others = group[0]["all_others"] - sum(row.other_count for row in rows)
    if leaking or others:
        rows.append(AttributeRow(rows[0].attribute, None, leaking, others, False))
    return rows
