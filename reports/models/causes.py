"""Root causes: what speaks for and against each, what to do, and what to measure next."""

from __future__ import annotations

from dataclasses import dataclass

from reports.source import CaptureTables
from reports.text import place_text, tidy

MAX_CAUSES = 12
MAX_EVIDENCE = 12

_LABELS = {
    "kv_cache": "KV cache leak",
    "autograd_graph": "Autograd graph leak",
    "outside_allocator": "Leak outside the allocator",
    "cuda_context": "Memory held by a CUDA context",
    "graph_pool": "CUDA graph pool growth",
    "fragmentation": "Fragmentation",
    "delayed_free": "Frees held back across streams",
    "host_memory": "Host memory growth",
    "redundant_kv": "Redundant KV cache",
    "unclassified": "Leak of no known kind",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One rule that holds or nearly holds; `bytes` and `confidence` may be not known."""

    label: str
    place: str
    confidence: float | None
    bytes: int | None
    evidence_for: tuple[str, ...]
    evidence_against: tuple[str, ...]
    advice: str
    next_measurement: str


def cause_label(root_cause: str | None) -> str:
    """A root cause as a person says it; a name this version does not know is shown as it is."""
    if not root_cause:
        return "Leak"
    return _LABELS.get(root_cause) or tidy(root_cause, 60).replace("_", " ").capitalize()


def read_causes(tables: CaptureTables, suspect_id: int | None) -> tuple[list[Cause], int]:
    """Causes of one suspect, or with None those of no suspect, and how many more there are."""
    condition = (
        "suspect_id = $suspect_id"
        if suspect_id is not None
        else "$suspect_id::BIGINT IS NULL AND (suspect_id IS NULL OR suspect_id NOT IN"
        " (SELECT suspect_id FROM leak_suspects WHERE verdict = 'growing'))"
    )
    rows = tables.rows(
        f"SELECT *, count(*) OVER () AS total FROM root_causes WHERE {condition}"
        f" ORDER BY confidence DESC NULLS LAST, root_cause_id LIMIT {MAX_CAUSES}",
        {"suspect_id": suspect_id},
    )
    causes = [
        Cause(
            cause_label(row["root_cause"]),
            place_text(process_id=row["process_id"], device_index=row["device_index"]),
            row["confidence"],
            row["bytes"],
            _sentences(row["evidence_for"]),
            _sentences(row["evidence_against"]),
            tidy(row["advice"], 1200),
            tidy(row["next_measurement"], 800),
        )
        for row in rows
    ]
    return causes, rows[0]["total"] - len(rows) if rows else 0


def _sentences(values: list[str] | None) -> tuple[str, ...]:
    values = values or []
    shown = [tidy(value, 500) for value in values[:MAX_EVIDENCE]]
    return (*shown, f"and {len(values) - MAX_EVIDENCE} more") if len(values) > MAX_EVIDENCE else tuple(shown)
