"""`findings`: what a person or a CI job reads first, in plain words, each with the rows it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.abstaining import level_requests, plural, reason_not_judged
from pipeline.database import Database
from pipeline.fragmentation import Fragmented, fragmentation_finding
from pipeline.kv_blocks import kv_block_findings
from pipeline.oom import oom_findings
from pipeline.wording import bytes_text, evidence_text
from schemas.config import LeakSettings

Row = dict[str, Any]
_SEVERITIES = ("critical", "warning", "info")
_CAUSES = {
    "kv_cache": "KV cache leak",
    "autograd_graph": "Autograd graph leak",
    "outside_allocator": "Leak outside the caching allocator",
    "host_memory": "Host memory leak",
    "unclassified": "Leak",
}
_LEVELS = {"tensor": "tensors", "driver": "driver allocations", "host": "host allocations"}


def _objects(suspect: Mapping[str, Any]) -> str:
    """Which kernel objects they are, by the leaf of the leak path; nothing where they are none."""
    leaf = (suspect["leak_path"] or "").rpartition("\n")[2]
    is_named = suspect["level"] == "host" and leaf.endswith(" (slab)")
    return f" ({leaf.removesuffix(' (slab)')})" if is_named else ""


def _leak(suspect: Mapping[str, Any], advice: str | None) -> Row:
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


def _context(row: Mapping[str, Any]) -> Row:
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


def _verdict_without_leak(database: Database, suspects: Sequence[Mapping[str, Any]], settings: LeakSettings) -> Row:
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


def _truncated(suspects: Sequence[Mapping[str, Any]]) -> list[Row]:
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


def _losses(database: Database) -> list[Row]:
    rows = database.rows(
        "SELECT coalesce(f.path, d.stage), d.name, d.occurrence_count, d.detail FROM diagnostics AS d"
        " LEFT JOIN capture_files AS f USING (file_id) WHERE d.severity <> 'info'"
        " ORDER BY d.occurrence_count DESC, 1, 2"
    )
    found = [
        {
            "finding_kind": "data_loss",
            "severity": "warning",
            "title": f"{path}: {count:,} × {name.replace('_', ' ')}" + (f" ({detail})" if detail else ""),
            "evidence": evidence_text(("diagnostics", f"name = '{name}'")),
            "advice": "Numbers from this file may be too low.",
        }
        for path, name, count, detail in rows
    ]
    for path, state, message in database.rows(
        "SELECT path, read_state, message FROM capture_files WHERE read_state = 'refused' ORDER BY path"
    ):
        found.append(
            {
                "finding_kind": "data_loss",
                "severity": "warning",
                "title": f"{path} was {state}: {message}",
                "evidence": evidence_text(("capture_files", f"path = '{path.replace(chr(39), chr(39) * 2)}'")),
            }
        )
    return found


def _clocks(database: Database) -> list[Row]:
    rows = database.rows(
        "SELECT f.path, a.method, a.clock_aligned, a.check_difference_ns, a.file_id, a.file_id IN"
        " (SELECT file_id FROM diagnostics WHERE name = 'events_without_time') FROM clock_alignments AS a"
        " JOIN capture_files AS f USING (file_id)"
        " WHERE (NOT a.clock_aligned AND (a.method <> 'no_times' OR a.file_id IN"
        " (SELECT file_id FROM diagnostics WHERE name = 'events_without_time'))) OR a.is_disagreement ORDER BY f.path"
    )
    found: list[Row] = []
    for path, method, aligned, difference, file_id, is_timeless in rows:
        others = "the other files' clocks say" if method == "declared_realtime" else f"{method.replace('_', ' ')} say"
        evidence = evidence_text(("clock_alignments", f"file_id = {file_id}"))
        if aligned:
            title = f"{path}: its own clock is {abs(difference) / 1e9:.3f} s off what {others}; those were used"
            found.append({"finding_kind": "clock", "severity": "info", "title": title, "evidence": evidence})
            continue
        title = f"{path} could not be put on the capture's clock; nothing is joined to it by time"
        if is_timeless:
            title = f"{path} has events without times; nothing is joined to them by time"
        advice = "Give its offset in capture.yaml (files: {pattern: {clock_offset_ns: …}})."
        found.append(
            {
                "finding_kind": "clock",
                "severity": "warning",
                "title": title,
                "evidence": evidence,
                "advice": "Record with a newer PyTorch, which writes times." if is_timeless else advice,
                "abstained_reason": "no times in the file" if is_timeless else "no shared moment with another file",
            }
        )
    return found


def build_findings(
    database: Database,
    suspects: Sequence[Mapping[str, Any]],
    causes: Sequence[Mapping[str, Any]],
    settings: LeakSettings,
    fragmented: Sequence[Fragmented] = (),
    serving: Sequence[Row] = (),
) -> list[Row]:
    """Rows of `findings`: leaks by rank, fragmentation, contexts, losses and clocks, or that no leak was found.

    `serving` are those of requests and tokens: they never come first.
    """
    advice = {row["suspect_id"]: row["advice"] for row in reversed(causes) if row["suspect_id"] is not None}
    leaks = [_leak(s, advice.get(s["suspect_id"])) for s in suspects if s["verdict"] == "growing"]
    rows = (
        leaks
        + oom_findings(database)
        + kv_block_findings(database)
        + [fragmentation_finding(state) for state in fragmented]
    )
    if not leaks:
        rows.append(_verdict_without_leak(database, suspects, settings))
    rows += [_context(row) for row in causes if row["root_cause"] == "cuda_context"]
    rows += serving
    rows += _truncated(suspects) + _losses(database) + _clocks(database)
    order = {severity: place for place, severity in enumerate(_SEVERITIES)}
    head, rest = rows[:1], sorted(rows[1:], key=lambda row: order[row["severity"]])
    return [{"finding_id": number} | row for number, row in enumerate(head + rest)]
