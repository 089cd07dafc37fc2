"""The order of findings: one list over all kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
SEVERITIES = ("critical", "warning", "info")
_KINDS = (
    ("leak",),
    ("oom",),
    ("kv_blocks",),
    ("fragmentation", "cuda_context", "ledger", "graph_pool", "delayed_free", "redundant_kv"),
    ("no_leak", "abstained"),
    ("slo", "symptom", "host_pressure", "numa"),
    (),  # kinds that are not named here
    ("data_loss",),
    ("clock",),
)
"""Kinds of one severity, the first to read first; those of one group go by expected bytes."""
_ANSWERS = ("leak", "oom", "kv_blocks", "fragmentation", "no_leak", "abstained")
"""Kinds that answer whether memory is lost or lacking: one of them is the first finding."""
_PLACES = {kind: place for place, kinds in enumerate(_KINDS) for kind in kinds}
_OTHERS = _KINDS.index(())
_COMPARED = {kind for kinds in _KINDS if len(kinds) > 1 for kind in kinds}


def _expected_bytes(row: Row) -> float:
    """Bytes concerned, weighed by how sure they are (half where nobody says)."""
    confidence = row.get("confidence")
    return (row.get("bytes") or 0) * (0.5 if confidence is None else confidence)


def _key(row: Row) -> tuple[int, int, float]:
    kind = row["finding_kind"]
    weight = -_expected_bytes(row) if kind in _COMPARED else 0.0
    return SEVERITIES.index(row["severity"]), _PLACES.get(kind, _OTHERS), weight


def ranked(rows: Iterable[Row]) -> list[Row]:
    """Rows of `findings` with their number: by severity, kind and expected bytes, else in the order given.

    The first row answers whether memory is lost or lacking, even where that is only information and
    something else is a warning.
    """
    ordered = sorted(rows, key=_key)
    answer = next((place for place, row in enumerate(ordered) if row["finding_kind"] in _ANSWERS), None)
    if answer is not None:
        ordered.insert(0, ordered.pop(answer))
    return [{"finding_id": number} | row for number, row in enumerate(ordered)]
