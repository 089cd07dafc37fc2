"""All checks over a capture's core and out tables, as rows of `diagnostics` (stage `analyze`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pipeline.checks.keys import references, repeated_keys
from pipeline.checks.rows import Check, Window, row_checks
from pipeline.database import Database
from schemas.tables import TABLES, Table

Row = dict[str, Any]
_MAX_CELL = 60


def recorded_windows(database: Database) -> list[Window]:
    """First and last time of all raw rows: those on the capture's clock, and those that are not. ns"""
    seen: dict[bool, list[int]] = {}
    for table in TABLES.values():
        if table.layer != "raw" or not table.timestamps:
            continue
        times = ", ".join(f'min("{name}"), max("{name}")' for name in table.timestamps)
        aligned = '"clock_aligned"' if "clock_aligned" in table.columns else "true"
        for is_aligned, *ends in database.rows(f"SELECT {aligned}, {times} FROM {table.name} GROUP BY 1"):
            seen.setdefault(is_aligned, []).extend(end for end in ends if end is not None)
    return [(min(ends), max(ends)) for _, ends in sorted(seen.items()) if ends]


def _fault(check: Check, count: int, detail: str | None) -> Row:
    return {"name": f"{check.fault}_in_{check.table}", "occurrence_count": count, "detail": detail}


def _example(database: Database, table: Table, check: Check) -> str:
    """The columns and the key of the first row at fault, in words."""
    names = list(dict.fromkeys((*check.columns, *table.key)))
    cells = ", ".join(f'left("{name}"::VARCHAR, {_MAX_CELL})' for name in names)
    order = ", ".join(f'"{name}"' for name in table.key)
    [row] = database.rows(f"SELECT {cells} FROM {table.name} WHERE {check.condition} ORDER BY {order} LIMIT 1")
    words = [f"{name} = {'null' if cell is None else cell}" for name, cell in zip(names, row, strict=True)]
    own = len(check.columns)
    return " and ".join(words[:own]) + (f" where {', '.join(words[own:])}" if words[own:] else "")


def _rows_at_fault(database: Database, table: Table, checks: list[Check]) -> Iterator[Row]:
    """One pass over the table for all conditions, then an example of each that is met."""
    counts = ", ".join(f"count(*) FILTER ({check.condition})" for check in checks)
    [found] = database.rows(f"SELECT {counts} FROM {table.name}")
    for check, count in zip(checks, found, strict=True):
        if count:
            yield _fault(check, count, _example(database, table, check))


def _check_table(database: Database, table: Table, windows: list[Window]) -> Iterator[Row]:
    if not database.rows(f"SELECT 1 FROM {table.name} LIMIT 1"):
        return
    yield from _rows_at_fault(database, table, [*row_checks(table, windows), *references(table)])
    [(repeated, words)] = database.rows(repeated_keys(table))
    if repeated:
        key = Check(table.name, "repeated_key", "", table.key)
        yield _fault(key, repeated, words or f"{table.key[0]} is given more than once")


def _merged(rows: Iterable[Row]) -> list[Row]:
    """One row a name, with the first one's words."""
    found: dict[str, Row] = {}
    for row in rows:
        if (known := found.setdefault(row["name"], row)) is not row:
            known["occurrence_count"] += row["occurrence_count"]
    return [{"stage": "analyze", "file_id": -1, "severity": "error"} | row for row in found.values()]


def check_tables(database: Database, names: Iterable[str] | None = None) -> list[Row]:
    """Rows of `diagnostics`, one a kind of fault and table; none when everything holds.

    `names` are the tables to check, all core and out ones unless given; sums between tables then too.
    """
    windows = recorded_windows(database)
    wanted = [
        table for table in TABLES.values() if table.layer != "raw" and (names is None or table.name in set(names))
    ]
    rows = [row for table in wanted for row in _check_table(database, table, windows)]
    if names is None:
        database.run("checks", "sums_made")
        columns = ("name", "occurrence_count", "detail")
        rows += [dict(zip(columns, row, strict=True)) for row in database.rows("SELECT * FROM sums_made ORDER BY name")]
    return _merged(rows)
