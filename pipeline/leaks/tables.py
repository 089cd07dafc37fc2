"""Rows of `leak_suspects`, and plain rows written as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ingest.writer import ParquetFile, to_arrow
from pipeline.database import Database, table_path
from pipeline.leaks.merging import Suspect
from pipeline.leaks.paths import CallPathReader
from pipeline.leaks.root_causes import RootCause
from pipeline.leaks.suspects import Rated
from schemas.tables import TABLES

Row = dict[str, Any]
_NAMELESS = {"driver": "driver allocation", "host": "host allocation"}


def write_rows(capture_dir: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write plain rows under a table's contract, in the order given."""
    table = TABLES[name]
    file = ParquetFile(table, table_path(capture_dir, name))
    if rows:
        file.write(to_arrow(table, {column: [row.get(column) for row in rows] for column in table.columns}))
    file.close()


def _no_path_text(api_name: str | None, range_path: str | None, level: str) -> str:
    place = f" in {range_path}" if range_path else ""
    return f"[no call path] {api_name or _NAMELESS.get(level, 'tensor')}{place}"


def _judged_by(suspect: Suspect, range_path: str | None, api_name: str | None) -> str | None:
    if suspect.groups[0].key.path_key >= 0 and suspect.range_key is None:
        return "call_path"
    return "range_path" if range_path else "api_call" if api_name else None


def _leak_path(suspect: Suspect, paths: CallPathReader) -> str:
    """Frames root to leaf; of call paths judged together those that they share, else how many they are."""
    key = suspect.groups[0].key
    if suspect.range_key is None:
        return paths.text(key.path_key)
    own = {group.key.path_key for group in suspect.groups}
    return paths.common_text(own) or f"[{len(own)} call paths without a common root]"


def suspect_rows(
    database: Database, rated: Sequence[Rated], causes: Mapping[int, Sequence[RootCause]], paths: CallPathReader
) -> list[Row]:
    """One row a judged group; `causes` maps a suspect's number to its root causes, the winning one first."""
    seen = {
        suspect: (range_path, api_name)
        for suspect, range_path, api_name in database.rows(
            "SELECT suspect_id, mode(range_path ORDER BY range_path), mode(api_name ORDER BY api_name)"
            " FROM leak_evidence_made GROUP BY suspect_id"
        )
    }
    ranks = dict(
        database.rows(
            "SELECT process_id, any_value(rank) FROM ("
            " SELECT process_id, rank FROM capture_files WHERE rank IS NOT NULL"
            " UNION SELECT e.process_id, f.rank FROM (SELECT DISTINCT process_id, file_id FROM memory_events) AS e"
            "   JOIN capture_files AS f USING (file_id) WHERE f.rank IS NOT NULL"
            ") GROUP BY process_id HAVING count(DISTINCT rank) = 1"
        )
    )
    teardowns = {
        (
            process,
            kind,
        ): f"; judged at the beginning of the teardown, the last {ms} ms, that gave back {freed} of {live}"
        for process, kind, ms, freed, live in database.rows(
            "SELECT process_id, memory_kind, ((last_ns - judged_until_ns) / 1e6)::DECIMAL(18, 1), freed_count,"
            " live_count FROM host_ends"
        )
    }
    rows, growing = [], 0
    for suspect_id, item in enumerate(rated):
        suspect, judgement = item.suspect, item.suspect.judgement
        key = suspect.groups[0].key
        before = sum(s.bytes for group in suspect.groups for s in group.before_window)
        retained = suspect.total("bytes")
        range_path, api_name = seen.get(suspect_id, (None, None))
        is_growing = judgement.verdict == "growing"
        growing += is_growing
        cause = causes.get(suspect_id)
        rows.append(
            {
                "suspect_id": suspect_id,
                "rank": ranks.get(key.process_id),
                "suspect_rank": growing if is_growing else None,
                "level": key.level,
                "verdict": judgement.verdict,
                "verdict_reason": judgement.reason
                + (f"; {before} more bytes of the same call path are older than the recorded window" if before else "")
                + (teardowns.get((key.process_id, key.memory_kind), "") if key.level == "host" else ""),
                "root_cause": cause[0].name if cause else None,
                "confidence": judgement.confidence,
                "retained_count": suspect.total("count"),
                "retained_bytes": retained,
                "retained_requested_bytes": suspect.total("requested_bytes"),
                "retained_bytes_low": retained if item.certain_bytes is None else item.certain_bytes,
                "retained_bytes_high": retained + before,
                "growth_bytes_per_epoch": judgement.growth_bytes_per_epoch,
                "growth_bytes_per_hour": item.growth_bytes_per_hour,
                "epoch_kind": item.epochs.kind if item.epochs.count else None,
                "epochs_count": item.epochs.count,
                "surviving_epochs_count": len(suspect.epochs),
                "process_id": key.process_id,
                "device_index": key.device_index,
                "judged_by": _judged_by(suspect, range_path, api_name),
                "call_path_id": key.path_key if key.path_key >= 0 and suspect.range_key is None else None,
                "member_count": len(suspect.members),
                "leak_path": _leak_path(suspect, paths)
                if key.path_key >= 0
                else _no_path_text(api_name, range_path, key.level),
                "range_path": range_path,
                "attribute": item.association.attribute if item.association else None,
                "attribute_lift": item.association.lift if item.association else None,
                "attribute_p_value": item.association.p_value if item.association else None,
            }
        )
    return rows
