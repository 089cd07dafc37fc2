"""Where time goes (method 10): by call path, function, kernel and kind of work; and what profiled kernels belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.database import Database
from pipeline.hotspot_findings import hotspot_findings
from pipeline.kernel_shares import rule_kernels
from pipeline.leaks.paths import CallPathReader, PathFrame
from pipeline.recomputation import Rising, reason_not_judged, rising_calls
from pipeline.wording import LIBRARY_FRAME
from schemas.config import Config

Row = dict[str, Any]
PLACES = 16
"""Processes (of one event) and process-device pairs that are told apart; the others are one."""


def find_hotspots(database: Database, suspects: Sequence[Mapping[str, Any]], config: Config) -> None:
    """Make `hotspots_made`, the rows of `hotspots`. `suspects` are the rows of `leak_suspects`."""
    for name, value in {"hotspot_rows": config.hotspots.rows, "hotspot_places": PLACES}.items():
        database.connection.execute(f"SET VARIABLE {name} = ?", [value])
    for relation in (
        "hot_samples",
        "hot_ops",
        "hot_weights",
        "hot_paths",
        "hot_functions",
        "hot_kernels",
        "hot_ranges",
    ):
        database.run("hotspots", relation)
    rule_kernels(database)
    for relation in (
        "hot_shares",
        "hot_operands",
        "hot_rounding",
        "profiled_launches",
        "hot_profiled",
        "token_windows",
        "token_calls",
    ):
        database.run("hotspots", relation)
    rising = rising_calls(database, config.hotspots)
    _rows(database, "hot_rising", _RISING, [_rising_row(row) for row in rising[: config.hotspots.rows]])
    _rows(database, "hot_abstained", _ABSTAINED, _abstained(database))
    _rows(database, "profiled_suspects", _LINKED, _linked_suspects(database, suspects))
    database.run("hotspots", "hotspots_made")


_RISING = {
    "process_id": pa.int64(),
    "name": pa.string(),
    "call_path_id": pa.int64(),
    "early": pa.float64(),
    "late": pa.float64(),
    "p_value": pa.float64(),
    "calls": pa.int64(),
}
_ABSTAINED = {"hotspot_kind": pa.string(), "process_id": pa.int64(), "abstained_reason": pa.string()}
_LINKED = {"number": pa.int64(), "suspect_id": pa.int64(), "reason": pa.string()}


def _rows(database: Database, name: str, columns: dict[str, pa.DataType], rows: list[Row]) -> None:
    table = pa.table({key: pa.array([row[key] for row in rows], kind) for key, kind in columns.items()})
    database.connection.register("_rows", table)
    database.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM _rows")
    database.connection.unregister("_rows")


def _rising_row(row: Rising) -> Row:
    return {key: getattr(row, key) for key in _RISING}


def _abstained(database: Database) -> list[Row]:
    """What could not be told, by kind of row. Of a capture without any time by call path, only that."""
    [(samples, launches, paths, tensors, operands)] = database.rows(
        "SELECT (SELECT count(*) FROM hot_samples), (SELECT count(*) FROM hot_ops),"
        " (SELECT count(call_path_id) FROM hot_ops), (SELECT count(*) FROM hot_rounding),"
        " (SELECT count(*) FROM hot_operands)"
    )
    missing = {}
    if not samples:
        missing["cpu_path"] = "no stack samples: record with perf, py-spy or nsys --sample"
    if not launches:
        missing["gpu_path"] = "no operations of a device: record with CUPTI, nsys or the PyTorch profiler"
    elif not paths:
        missing["gpu_path"] = "no call paths of launches: record stacks (with_stack=True, nsys --cudabacktrace)"
    if not tensors:
        missing["rounding"] = "no tensors with both the bytes asked for and those handed out: record a PyTorch snapshot"
    if not operands:
        missing["operand_type"] = "no types of operands in the tables: the reader of traces leaves `Input type` out"
    if reason := reason_not_judged(database):
        missing["recomputation"] = reason
    return [{"hotspot_kind": kind, "process_id": None, "abstained_reason": reason} for kind, reason in missing.items()]


def _function(frame: PathFrame) -> tuple[str, str]:
    """Function and file name: what a snapshot and a trace call alike."""
    return frame.function, (frame.file or "").rpartition("/")[2]


def _holder(frames: Sequence[PathFrame]) -> tuple[str, str] | None:
    """The innermost function of the user's own code."""
    own = [frame for frame in frames if frame.file and not LIBRARY_FRAME.search(frame.text())]
    return _function(own[-1]) if own else None


def _linked_suspects(database: Database, suspects: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The growing suspect that a profiled kernel lies beside, and why: one range, or one function of the user's."""
    growing = [row for row in suspects if row["verdict"] == "growing"]
    kernels = database.rows("SELECT number, process_id, call_path_id, range_path FROM hot_profiled WHERE NOT is_other")
    if not growing or not kernels:
        return []
    paths = CallPathReader(database)
    found = []
    for number, process, path, range_path in kernels:
        above = {_function(frame) for frame in (() if path is None else paths.frames(path))}
        for row in growing:
            if row["process_id"] != process:
                continue
            holder = None if row["call_path_id"] is None else _holder(paths.frames(row["call_path_id"]))
            if holder is not None and holder in above:
                reason = f"runs below {holder[0]} ({holder[1]}), which keeps the memory"
            elif range_path is not None and range_path == row["range_path"]:
                reason = f"runs in the range {range_path}, in which the memory is kept"
            else:
                continue
            found.append({"number": number, "suspect_id": row["suspect_id"], "reason": reason})
            break
    return found


Publish = Callable[[str, str], None]


def publish_hotspots(
    database: Database, suspects: Sequence[Mapping[str, Any]], config: Config, publish: Publish
) -> list[Row]:
    """Make and publish `hotspots`; returns its findings."""
    find_hotspots(database, suspects, config)
    publish("hotspots", "hotspots_made")
    return hotspot_findings(database, config.hotspots)
