"""What kernels work on, by rules over their names and the frames that launched them (kernels.yaml)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pyarrow as pa
import yaml

from pipeline.database import Database

_FILE = Path(__file__).with_name("kernels.yaml")
MAX_NAME = 4000
"""Characters of a name that patterns look at."""

Patterns = tuple[tuple[int, re.Pattern[str]], ...]


@cache
def _rules() -> list[dict[str, str]]:
    found: list[dict[str, str]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))["shares"]
    return found


@cache
def _types() -> tuple[tuple[str, re.Pattern[str]], ...]:
    rows = yaml.safe_load(_FILE.read_text(encoding="utf-8"))["types"]
    return tuple((row["type"], re.compile(row["kernel"])) for row in rows)


@cache
def _patterns(key: str) -> Patterns:
    """Numbers and patterns of the rules that look at `key` (op, kernel or frame)."""
    return tuple((number, re.compile(rule[key])) for number, rule in enumerate(_rules()) if key in rule)


def _first(key: str, text: str) -> int | None:
    return next((number for number, pattern in _patterns(key) if pattern.search(text[:MAX_NAME])), None)


def rule_of(op: str, name: str | None) -> int | None:
    """Number of the first rule that an operation of a device falls under by itself, None when there is none."""
    found = _first("op", op)
    return found if found is not None or op != "kernel" or name is None else _first("kernel", name)


def share_of(op: str, name: str | None, frames: tuple[str, ...] = ()) -> str:
    """What an operation belongs to: transfer, attention, rotary, cast, layout_copy, matmul, …, else `other`."""
    numbers = [rule_of(op, name), *(_first("frame", frame) for frame in frames)]
    known = [number for number in numbers if number is not None]
    return _rules()[min(known)]["share"] if known else "other"


def number_type(name: str | None) -> str | None:
    """half, float or double by a kernel's name, None where it does not tell."""
    return next((kind for kind, pattern in _types() if pattern.search(name[:MAX_NAME])), None) if name else None


def rule_kernels(database: Database) -> None:
    """Make `share_rules`, `kernel_rules` and `frame_rules` for the operations of `hot_ops` and what launched them."""
    shares = [rule["share"] for rule in _rules()]
    _table(database, "share_rules", {"rule": pa.array(range(len(shares)), pa.int32()), "share": pa.array(shares)})
    rows = database.rows("SELECT DISTINCT op, name FROM hot_ops ORDER BY ALL")
    _table(
        database,
        "kernel_rules",
        {
            "op": pa.array([op for op, _ in rows], pa.string()),
            "name": pa.array([name for _, name in rows], pa.string()),
            "rule": pa.array([rule_of(op, name) for op, name in rows], pa.int32()),
            "number_type": pa.array([number_type(name) for _, name in rows], pa.string()),
        },
    )
    frames = database.rows(
        "SELECT function, list(DISTINCT frame_id) FROM frames WHERE frame_id IN (SELECT unnest(frame_ids)"
        " FROM call_paths WHERE call_path_id IN (SELECT call_path_id FROM hot_ops)) GROUP BY function ORDER BY function"
    )
    ruled = [(number, _first("frame", function)) for function, numbers in frames for number in numbers]
    known = [(number, rule) for number, rule in ruled if rule is not None]
    _table(
        database,
        "frame_rules",
        {
            "frame_id": pa.array([number for number, _ in known], pa.int64()),
            "rule": pa.array([rule for _, rule in known], pa.int32()),
        },
    )


def _table(database: Database, name: str, columns: dict[str, pa.Array]) -> None:
    database.connection.register("_columns", pa.table(columns))
    database.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM _columns")
    database.connection.unregister("_columns")
