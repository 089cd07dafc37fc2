"""KV blocks that broke their life (method 9) as findings."""

from __future__ import annotations

from typing import Any

from pipeline.database import Database
from pipeline.wording import bytes_text, evidence_text

Row = dict[str, Any]

_ADVICE = {
    "dangling": "Drop the ended requests' references on every way out, cancelled and failed ones included.",
    "underflow": "A reference is dropped twice: let one owner count, or count under the same lock.",
    "double_free": "A block is given back twice; it may be in use by another request by then.",
    "use_after_free": "A block is used after it was given back: answers of other requests may be mixed in.",
    "unpaired": "References are dropped or kept by somebody who does not count: pair them across threads.",
    "out_of_bounds": "A write goes beyond its block into the next one's cache.",
}


def kv_block_findings(database: Database) -> list[Row]:
    """One finding a kind of anomaly, the most frequent first, without numbers."""
    rows = database.rows(
        "SELECT anomaly, count(*), sum(size_bytes), min_by({'block': block_id, 'request': request_id}, anomaly_id)"
        " FROM kv_anomalies GROUP BY anomaly ORDER BY 2 DESC, 1"
    )
    found: list[Row] = []
    for anomaly, count, held, first in rows:
        kept = f", {bytes_text(held)} kept" if anomaly == "dangling" and held else ""
        place = f"block {first['block']}" + (f" of request {first['request']}" if first["request"] is not None else "")
        found.append(
            {
                "finding_kind": "kv_blocks",
                "severity": "critical",
                "bytes": held if anomaly == "dangling" else None,
                "title": f"KV blocks: {count:,} × {anomaly.replace('_', ' ')}{kept}, first {place}",
                "evidence": evidence_text(("kv_anomalies", f"anomaly = '{anomaly}'")),
                "advice": _ADVICE[anomaly],
            }
        )
    return found
