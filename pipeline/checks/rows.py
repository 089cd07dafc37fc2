"""Checks of one row by itself, derived from the data contract: required values, ranges, order and times."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

from schemas.fields import Field
from schemas.rules import BROKEN, MAY_LEAVE_CAPTURE
from schemas.tables import Table

_TIMES = re.compile(r"(?:.+_)?(?:ts|start|end|arrival|first_token)_ns")
_PERCENTILE = re.compile(r"p(\d\d)(?=_|$)")
_ROUNDING = 1e-9
_PAIRS = (("start_ns", "end_ns"), ("alloc_ts_ns", "free_ts_ns"), ("alloc_ts_ns", "free_requested_ts_ns"))


class Check(NamedTuple):
    """Rows of `table` that meet `condition` are at fault; `columns` are those that tell of it."""

    table: str
    fault: str
    condition: str
    columns: tuple[str, ...]


Window = tuple[int, int]


def is_time(field: Field) -> bool:
    """Whether the column is a point on the capture's clock, not a duration."""
    return field.kind == "int64" and _TIMES.fullmatch(field.name) is not None


def _range(field: Field) -> str | None:
    """Condition of a value outside the column's range; what sums of doubles are off by is let pass."""
    low, high = field.range
    slack = _ROUNDING if field.kind == "float64" else 0
    parts = []
    if low is not None:
        parts.append(f'"{field.name}" < {low - slack}')
    if high is not None:
        parts.append(f'"{field.name}" > {high + slack}')
    return " OR ".join(parts) or None


def _ordered(table: Table) -> list[tuple[str, str]]:
    """Pairs of columns of which the first is never above the second: times, bounds, percentiles."""
    names = set(table.columns)
    pairs = [pair for pair in _PAIRS if names.issuperset(pair)]
    for name in table.columns:
        if "_low" in name:
            value, high = name.replace("_low", "", 1), name.replace("_low", "_high", 1)
            pairs += [
                (one, other) for one, other in ((name, value), (value, high), (name, high)) if {one, other} <= names
            ]
    families: dict[str, list[tuple[int, str]]] = {}
    for name in table.columns:
        if match := _PERCENTILE.search(name):
            highest = name[: match.start()] + "max" + name[match.end() :]
            families.setdefault(highest, []).append((int(match[1]), name))
    for highest, members in families.items():
        steps = [name for _, name in sorted(members)] + [highest] * (highest in names)
        pairs += itertools.pairwise(steps)
    return list(dict.fromkeys(pairs))


def row_checks(table: Table, windows: list[Window]) -> list[Check]:
    """Checks of the table's rows; `windows` are the times that were recorded (none: times are not checked)."""
    checks = []
    outside = MAY_LEAVE_CAPTURE.get(table.name, ())
    for field in table.fields:
        name = f'"{field.name}"'
        if not field.nullable:
            checks.append(Check(table.name, "missing_value", f"{name} IS NULL", (field.name,)))
        if field.kind == "float64":
            checks.append(Check(table.name, "no_number", f"NOT isfinite({name})", (field.name,)))
        if condition := _range(field):
            checks.append(Check(table.name, "value_out_of_range", condition, (field.name,)))
        if windows and is_time(field) and field.name not in outside:
            inside = " OR ".join(f"{name} BETWEEN {first} AND {last}" for first, last in windows)
            checks.append(Check(table.name, "time_outside_capture", f"NOT ({inside})", (field.name,)))
    for low, high in _ordered(table):
        checks.append(Check(table.name, "wrong_order", f'"{low}" > "{high}"', (low, high)))
    for fault, condition in BROKEN.get(table.name, {}).items():
        columns = tuple(name for name in table.columns if re.search(rf"\b{name}\b", condition))
        checks.append(Check(table.name, fault, condition, columns))
    return checks
