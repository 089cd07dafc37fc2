"""The ledger by process and rank, and counters that can't be (method 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.database import Database
from pipeline.wording import bytes_text, evidence_text, quoted_text

Row = dict[str, Any]
MIN_RUN = 3
"""Samples in a row from which an excess is no sample between two events."""
MAX_FAULTS = 20
_WORDS = {
    "used_above_total": "more is used than the device has",
    "free_above_rest": "used and free together are more than the device has",
    "processes_above_used": "processes hold more than the device uses",
    "allocations_above_process": "its allocations are more than it holds",
    "tensors_above_segments": "more is handed out than reserved",
    "capacity_changes": "its capacity changes",
}


def ledger_findings(database: Database) -> list[Row]:
    """One finding a fault that lasts, the largest excess first; of running totals, one each that falls."""
    rows = database.rows(
        "SELECT fault, device_index, process_id, name, sample_count, total_count, excess_bytes FROM ledger_faults"
        " WHERE coalesce(longest_run >= ?, true) ORDER BY excess_bytes DESC NULLS LAST, 1, 2, 3, 4 LIMIT ?",
        [MIN_RUN, MAX_FAULTS],
    )
    found: list[Row] = []
    for fault, device, process, name, count, total, excess in rows:
        if fault == "total_falls":
            times = f"{count:,} times" if count > 1 else "once"
            title = f"The running total {name} falls {times} in {total:,} samples: it was restarted"
            evidence = evidence_text(("metrics", f"metric = {quoted_text(name)}"))
            severity, advice = "info", "Increases are counted from each restart on; what came in between is not known."
        else:
            who = f"Device {device}" + (f", process {process}" if process is not None else "")
            title = f"{who}: {_WORDS[fault]} in {count:,} of {total:,} samples, by up to {bytes_text(excess)}"
            place = f"device_index = {device} AND " + (
                f"process_id = {process}" if process is not None else "process_id IS NULL"
            )
            evidence = evidence_text(("memory_ledger", place))
            severity, advice = "warning", "Counters of different moments or devices: check who sampled, and how often."
        found.append(
            {
                "finding_kind": "ledger",
                "severity": severity,
                "bytes": excess,
                "title": title,
                "evidence": evidence,
                "advice": advice,
            }
        )
    return found


def judge_ledger(database: Database, publish: Callable[[str, str], None]) -> list[Row]:
    """Publish `memory_ledger` and `process_ledger`; returns findings on counters that can't be."""
    for relation in ("device_samples", "memory_ledger_made", "idle_contexts", "process_ledger_made", "ledger_faults"):
        database.run("ledger", relation)
    publish("memory_ledger", "memory_ledger_made")
    publish("process_ledger", "process_ledger_made")
    return ledger_findings(database)
