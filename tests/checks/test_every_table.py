"""Checks derived from the data contract: each fires on a row that is broken in that one way, and on no other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.checks.keys import references
from pipeline.checks.rows import Check, row_checks
from pipeline.checks.tables import check_tables
from pipeline.database import Database
from schemas.fields import FIELDS, Field
from schemas.rules import BROKEN
from schemas.tables import TABLES, Table
from tests.checks.planting import WINDOW, empty, harmless, put

JUDGED = [table for table in TABLES.values() if table.layer != "raw"]
_each = pytest.mark.parametrize("table", JUDGED, ids=lambda table: table.name)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with empty(tmp_path) as opened:
        yield opened


def _beyond(field: Field) -> list[float]:
    low, high = field.range
    step = 1 if field.kind != "float64" else 1e-6
    return [
        end for end in (None if low is None else low - step, None if high is None else high + step) if end is not None
    ]


def _broken(table: Table, check: Check) -> list[dict[str, Any]]:
    """Rows that break exactly this check, starting from a harmless one."""
    row, first = harmless(table), check.columns[0]
    if check.fault == "missing_value":
        return [row | {first: None}]
    if check.fault == "no_number":
        return [row | {first: value} for value in (math.nan, math.inf, -math.inf)]
    if check.fault == "value_out_of_range":
        return [row | {first: value} for value in _beyond(FIELDS[first])]
    if check.fault == "time_outside_capture":
        return [row | {first: value} for value in (WINDOW[0] - 1, WINDOW[1] + 1)]
    low, high = check.columns
    return [row | {low: row[low] + 0.25 if FIELDS[low].kind == "float64" else row[low] + 1, high: row[high]}]


def _met(database: Database, check: Check) -> bool:
    [(count,)] = database.rows(f"SELECT count(*) FROM {check.table} WHERE {check.condition}")
    return bool(count)


@_each
def test_a_harmless_row_breaks_nothing(table: Table, database: Database) -> None:
    put(database, table.name, harmless(table))
    derived = [check for check in row_checks(table, [WINDOW]) if check.fault not in BROKEN.get(table.name, {})]
    assert [check for check in derived if _met(database, check)] == []


@_each
def test_each_derived_check_sees_its_fault(table: Table, database: Database) -> None:
    for check in row_checks(table, [WINDOW]):
        if check.fault in BROKEN.get(table.name, {}):
            continue
        for row in _broken(table, check):
            put(database, table.name, row)
            assert _met(database, check), (check, row)


@_each
def test_what_is_not_known_breaks_nothing(table: Table, database: Database) -> None:
    row = harmless(table) | {field.name: None for field in table.fields if field.nullable}
    put(database, table.name, row)
    checks = [*row_checks(table, [WINDOW]), *references(table)]
    nulls = {field.name for field in table.fields if field.nullable}
    assert [c for c in checks if _met(database, c) and nulls.issuperset(c.columns)] == []


@_each
def test_a_key_given_twice_and_a_reference_to_nothing(table: Table, database: Database) -> None:
    put(database, table.name, harmless(table), harmless(table))
    found = {row["name"]: row for row in check_tables(database, [table.name])}
    repeated = found[f"repeated_key_in_{table.name}"]
    assert (repeated["occurrence_count"], repeated["severity"], repeated["stage"]) == (1, "error", "analyze")
    targets = references(table)
    # what lies in the table itself (an allocation's parent) is there
    lost = sum(_met(database, check) for check in targets)
    unknown = found.get(f"unknown_reference_in_{table.name}")
    assert (unknown is not None) == bool(lost)
    if unknown:
        assert unknown["occurrence_count"] == 2 * lost


def test_references_are_found_by_what_a_column_is_called() -> None:
    named = {table.name: {check.columns[0] for check in references(table)} for table in JUDGED}
    assert named["leak_evidence"] == {"suspect_id", "allocation_id", "request_id", "call_path_id"}
    assert {"parent_allocation_id", "alloc_call_path_id", "free_call_path_id", "range_id"} <= named["allocations"]
    assert "allocation_id" not in named["allocations"], "an own number refers to nothing"
    assert named["root_causes"] == {"suspect_id"}


def test_no_rows_no_faults(database: Database) -> None:
    assert check_tables(database) == []


def test_percentiles_and_bounds_are_in_order() -> None:
    pairs = {
        table: {check.columns for check in row_checks(TABLES[table], []) if check.fault == "wrong_order"}
        for table in ("request_latency", "leak_suspects", "token_memory", "allocations")
    }
    latency = ("p50_ns", "p95_ns", "p99_ns", "max_ns")
    assert set(itertools.pairwise(latency)) <= pairs["request_latency"]
    assert ("retained_bytes_low", "retained_bytes") in pairs["leak_suspects"]
    assert ("retained_bytes", "retained_bytes_high") in pairs["leak_suspects"]
    assert ("interval_slope_low_ns", "interval_slope_ns") in pairs["token_memory"]
    assert ("alloc_ts_ns", "free_ts_ns") in pairs["allocations"]
