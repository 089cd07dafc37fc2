"""What a capture lost and which files are not on its clock, as findings."""

from __future__ import annotations

from typing import Any

from pipeline.database import Database
from pipeline.wording import evidence_text

Row = dict[str, Any]
_CONTRADICTION = "The tables contradict each other here: don't rely on these numbers, and report it as a defect."


def loss_findings(database: Database) -> list[Row]:
    """Damage and losses by file or stage, the most frequent first, then the files that were refused."""
    rows = database.rows(
        "SELECT coalesce(f.path, d.stage), d.name, d.occurrence_count, d.detail, d.stage FROM diagnostics AS d"
        " LEFT JOIN capture_files AS f USING (file_id) WHERE d.severity <> 'info'"
        " ORDER BY d.occurrence_count DESC, 1, 2"
    )
    found = [
        {
            "finding_kind": "data_loss",
            "severity": "warning",
            "title": f"{path}: {count:,} × {name.replace('_', ' ')}" + (f" ({detail})" if detail else ""),
            "evidence": evidence_text(("diagnostics", f"name = '{name}'")),
            "advice": _CONTRADICTION if stage == "analyze" else "Numbers from this file may be too low.",
        }
        for path, name, count, detail, stage in rows
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


def clock_findings(database: Database) -> list[Row]:
    """Files that nothing ties to the capture's clock, and files whose own clock is off."""
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
