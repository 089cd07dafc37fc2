"""Checks of a table against itself and others: keys are given once, and what is referred to is there."""

from __future__ import annotations

from pipeline.checks.rows import Check
from schemas.rules import OF_ANOTHER_CAPTURE
from schemas.tables import Table

_TARGETS = {
    "file_id": "SELECT file_id FROM capture_files",
    "suspect_id": "SELECT suspect_id FROM leak_suspects",
    "allocation_id": "SELECT allocation_id FROM allocations",
    "call_path_id": "SELECT call_path_id FROM call_paths",
    "range_id": "SELECT range_id FROM ranges",
    "request_id": "SELECT request_id FROM request_spans UNION ALL SELECT request_id FROM requests"
    " UNION ALL SELECT request_id FROM kv_block_events UNION ALL SELECT request_id FROM tokens",
}
"""Columns that refer to another table by what they are called, alone or at the end, and what they refer to."""


def repeated_keys(table: Table) -> str:
    """SQL of (rows beyond the first of their key, one of the keys as text)."""
    if len(table.key) == 1:
        name = f'"{table.key[0]}"'
        return f"SELECT count({name}) - count(DISTINCT {name}), NULL FROM {table.name}"
    names = ", ".join(f'"{name}"' for name in table.key)
    words = ", ', ', ".join(f"'{name} = ', coalesce(left(\"{name}\"::VARCHAR, 80), 'null')" for name in table.key)
    return (
        f"SELECT coalesce(sum(rows - 1), 0)::BIGINT, any_value(words) FROM (SELECT count(*) AS rows, concat({words})"
        f" AS words FROM {table.name} GROUP BY {names} HAVING count(*) > 1)"
    )


def references(table: Table) -> list[Check]:
    """Columns of the table that name a row of another table."""
    if table.name in OF_ANOTHER_CAPTURE:
        return []
    found = []
    for name in table.columns:
        for target, rows in _TARGETS.items():
            is_own = table.key == (name,)
            if not is_own and (name == target or name.endswith(f"_{target}")):
                known = f"SELECT {target} FROM ({rows}) WHERE {target} IS NOT NULL"
                found.append(
                    Check(
                        table.name, "unknown_reference", f'"{name}" IS NOT NULL AND "{name}" NOT IN ({known})', (name,)
                    )
                )
    return found
