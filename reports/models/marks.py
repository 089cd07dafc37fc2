"""Epochs on the time axis, with those that keep memory told apart."""

from __future__ import annotations

from dataclasses import dataclass

from reports.source import CaptureTables
from reports.text import bytes_text, epoch_noun, plural, tidy

MAX_MARKS = 240


@dataclass(frozen=True, slots=True)
class Mark:
    """One epoch, or a run of neighbours drawn as one. `kept_bytes` is what growing suspects keep of it."""

    start_ns: int
    end_ns: int
    label: str
    kept_bytes: int


def read_marks(
    tables: CaptureTables, process_id: int | None, start_ns: int, end_ns: int
) -> tuple[tuple[Mark, ...], str]:
    """At most `MAX_MARKS` marks of a process in time order, and one sentence that explains them."""
    (total,) = tables.rows(
        "SELECT count(*) AS n, min(epoch_kind) AS kind FROM epochs"
        " WHERE process_id IS NOT DISTINCT FROM $process_id AND start_ns IS NOT NULL",
        {"process_id": process_id},
    )
    if not total["n"]:
        return (), ""
    group = -(-total["n"] // MAX_MARKS)
    rows = tables.query("marks", process_id=process_id, group=group)
    kind = epoch_noun(total["kind"])
    marks = []
    for row in rows:
        label = f"{kind} {tidy(row['first_name'], 60)}" + (f" and {row['n'] - 1} more" if row["n"] > 1 else "")
        if row["n"] == 1 and row["status"]:
            label += f", status {tidy(row['status'], 20)}"
        label += f": keeps {bytes_text(row['bytes'])}" if row["bytes"] else ": keeps nothing"
        marks.append(Mark(max(start_ns, row["start_ns"]), min(end_ns, row["end_ns"]), label, row["bytes"]))
    note = plural(total["n"], kind) + (f", {group} a mark" if group > 1 else "")
    return tuple(marks), note
