"""Leaks, idle contexts and what kept a capture from being judged, as findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.abstaining import level_requests, plural, reason_not_judged
from pipeline.database import Database
from pipeline.wording import bytes_text, evidence_text
from schemas.config import LeakSettings

Row = dict[str, Any]
_CAUSES = {
    "kv_cache": "KV cache leak",
    "autograd_graph": "Autograd graph leak",
    "outside_allocator": "Leak outside the caching allocator",
    "host_memory": "Host memory leak",
    "graph_pool": "CUDA graph pool leak",
    "unclassified": "Leak",
}
_LEVELS = {"tensor": "tensors", "driver": "driver allocations", "host": "host allocations"}


def _objects(suspect: Mapping[str, Any]) -> str:
    """Which kernel objects they are, by the leaf of the leak path; nothing where they are none."""
    leaf = (suspect["leak_path"] or "").rpartition("\n")[2]
    is_named = suspect["level"] == "host" and leaf.endswith(" (slab)")
    return f" ({leaf.removesuffix(' (slab)')})" if is_named else ""


def leak_finding(suspect: Mapping[str, Any], advice: str | None) -> Row:
    """A growing suspect in one sentence; `advice` is that of its root cause."""
    who = f" in rank {suspect['rank']}" if suspect["rank"] is not None else ""
    count, what = suspect["retained_count"], _LEVELS.get(suspect["level"], "allocations")
    kept = f"{count} {what[:-1] if count == 1 else what}{_objects(suspect)}, {bytes_text(suspect['retained_bytes'])}"
    epochs = f"kept by {suspect['surviving_epochs_count']} of {suspect['epochs_count']} {plural(suspect['epoch_kind'])}"
    if not suspect["surviving_epochs_count"]:
        epochs = f"kept over {suspect['epochs_count']} {plural(suspect['epoch_kind'])}"
    attribute = f", told apart by {suspect['attribute']}" if suspect["attribute"] else ""
    rate = f"; grows {bytes_text(suspect['growth_bytes_per_hour'])}/h" if suspect["growth_bytes_per_hour"] else ""
    number = suspect["suspect_id"]
    return {
        "finding_kind": "leak",
        "severity": "critical",
        "confidence": suspect["confidence"],
        "bytes": suspect["retained_bytes"],
        "title": f"{_CAUSES.get(suspect['root_cause'], 'Leak')}{who}: {kept} {epochs}{attribute}{rate}",
        "evidence": evidence_text(
            ("leak_suspects", f"suspect_id = {number}"), ("leak_evidence", f"suspect_id = {number}")
        ),
        "advice": advice,
    }


def context_finding(row: Mapping[str, Any]) -> Row:
    """A root cause `cuda_context` in one sentence."""
    return {
        "finding_kind": "cuda_context",
        "severity": "warning",
        "confidence": row["confidence"],
        "bytes": row["bytes"],
        "title": f"Process {row['process_id']} holds {bytes_text(row['bytes'])} of device {row['device_index']}"
        " and does nothing with it",
        "evidence": evidence_text(
            ("root_causes", f"root_cause_id = {row['root_cause_id']}"),
            ("metrics", f"metric = 'process_memory_used_bytes' AND process_id = {row['process_id']}"),
        ),
        "advice": row["advice"],
    }


def verdict_without_leak(database: Database, suspects: Sequence[Mapping[str, Any]], settings: LeakSettings) -> Row:
    """No growing suspect: say so, or say what kept the analysis from judging."""
    if reason := reason_not_judged(database, settings):
        return {
            "finding_kind": "abstained",
            "severity": "info",
            "title": "Whether memory leaks could not be judged",
            "evidence": evidence_text(("capture_files", "true")),
            "advice": reason,
            "abstained_reason": reason,
        }
    open_groups = [s for s in suspects if s["verdict"] == "inconclusive" and s["epochs_count"]]
    kind, count = database.rows("SELECT epoch_kind, count(*) FROM epochs GROUP BY ALL ORDER BY 2 DESC, 1")[0]
    if level := level_requests(database, settings):
        over = f"the allocator's level does not rise over {level} requests, most of them before the recorded window"
        return {
            "finding_kind": "no_leak",
            "severity": "info",
            "title": f"No leak found: {over}",
            "evidence": evidence_text(("tokens", "device_allocated_bytes IS NOT NULL"), ("leak_suspects", "true")),
        }
    if open_groups and sum(s["retained_bytes"] for s in open_groups):
        kept = bytes_text(sum(s["retained_bytes"] for s in open_groups))
        groups = f"{len(open_groups)} group{'s' if len(open_groups) > 1 else ''} ({kept})"
        return {
            "finding_kind": "no_leak",
            "severity": "info",
            "title": f"No leak found over {count} {plural(kind)}; {groups} could not be judged",
            "evidence": evidence_text(("leak_suspects", "verdict = 'inconclusive'")),
            "advice": "Record more epochs to settle the rest.",
        }
    return {
        "finding_kind": "no_leak",
        "severity": "info",
        "title": f"No leak found over {count} {plural(kind)}",
        "evidence": evidence_text(("leak_suspects", "true"), ("epochs", "true")),
    }


def truncated_findings(suspects: Sequence[Mapping[str, Any]]) -> list[Row]:
    """That the history began too late for exact numbers, where suspects have bounds."""
    cut = [s for s in suspects if s["retained_bytes_high"] and s["retained_bytes_high"] > s["retained_bytes_low"]]
    if not cut:
        return []
    older = sum(s["retained_bytes_high"] - s["retained_bytes_low"] for s in cut)
    return [
        {
            "finding_kind": "data_loss",
            "severity": "warning",
            "bytes": older,
            "title": f"The allocation history is truncated: {bytes_text(older)} on call paths with survivors"
            " may be older than its start",
            "evidence": evidence_text(("leak_suspects", "retained_bytes_high > retained_bytes_low")),
            "advice": "Record with a larger max_entries; what is kept is given as bounds meanwhile.",
        }
    ]
