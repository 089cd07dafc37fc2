"""Fragmentation (method 7): a process that reserves far more than it uses, and why the free part is no use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.database import Database
from pipeline.wording import bytes_text, evidence_text
from schemas.config import AllocatorSettings

Row = dict[str, Any]
_FRAGMENTED = """
SELECT e.process_id, e.device_index, e.reserved_bytes, e.allocated_bytes, e.inactive_bytes, e.inactive_split_bytes,
    e.free_block_count, e.largest_free_bytes, e.segment_count, w.external_fragmentation_ratio, w.largest_free_bytes,
    coalesce(e.private_inactive_bytes, 0)
FROM (
    SELECT * FROM fragmentation WHERE moment IN ('end', 'oom')
    QUALIFY row_number() OVER (PARTITION BY process_id, device_index ORDER BY moment = 'end', ts_ns DESC) = 1
) AS e
JOIN (
    SELECT * FROM fragmentation WHERE inactive_bytes >= ?
    QUALIFY row_number() OVER (
        PARTITION BY process_id, device_index ORDER BY external_fragmentation_ratio DESC, ts_ns) = 1
) AS w USING (process_id, device_index)
WHERE e.inactive_bytes - coalesce(e.private_inactive_bytes, 0) >= ?
    AND e.inactive_bytes - coalesce(e.private_inactive_bytes, 0)
        >= ? * (e.reserved_bytes - coalesce(e.private_reserved_bytes, 0))
ORDER BY e.inactive_bytes DESC, e.process_id, e.device_index
"""


@dataclass(frozen=True, slots=True)
class Fragmented:
    """The allocator's state at the end, of a process on a device whose reserved memory is mostly free. Bytes."""

    process_id: int
    device_index: int
    reserved: int
    allocated: int
    free: int
    split: int
    free_count: int
    largest: int
    segments: int
    worst_ratio: float
    worst_largest: int
    private_free: int

    @property
    def whole(self) -> int:
        """Free bytes in segments that nothing uses: the driver can have them back."""
        return self.free - self.split


def fragmented_allocators(database: Database, settings: AllocatorSettings) -> list[Fragmented]:
    """Allocators whose reserved memory is free for the most part at the end, the largest first.

    What is free in private pools waits for its CUDA graph and does not count here. Where memory ran out the end tells
    of the unwinding: there the state at the last lack of memory is judged.
    """
    least = settings.fragmentation_min_bytes
    rows = database.rows(_FRAGMENTED, [least, least, settings.fragmentation_min_ratio])
    return [Fragmented(*row) for row in rows]


def fragmentation_cause(state: Fragmented) -> Row:
    """Its row of `root_causes`, without a number."""
    for_it = [
        f"{bytes_text(state.free)} of {bytes_text(state.reserved)} reserved is free at the end,"
        f" {bytes_text(state.allocated)} is allocated",
        f"the free bytes are {state.free_count} blocks, the largest {bytes_text(state.largest)}",
    ]
    against: list[str] = []
    if state.split:
        for_it.append(f"{bytes_text(state.split)} of them lie between blocks in use: the driver can't have them back")
    else:
        against.append("no free byte lies in a segment in use: an empty cache would be given back whole")
    if state.worst_ratio >= 0.5:
        for_it.append(
            f"at its worst the largest free block was {bytes_text(state.worst_largest)},"
            f" {1 - state.worst_ratio:.0%} of what was free"
        )
    else:
        against.append(f"the free bytes were never more than {state.worst_ratio:.0%} scattered")
    if state.private_free:
        against.append(
            f"{bytes_text(state.private_free)} more free bytes are private pools', for their CUDA graphs alone"
        )
    return {
        "suspect_id": None,
        "root_cause": "fragmentation",
        "confidence": (len(for_it) + 1) / (len(for_it) + len(against) + 2),
        "process_id": state.process_id,
        "device_index": state.device_index,
        "bytes": state.free,
        "evidence_for": for_it,
        "evidence_against": against,
        "advice": _advice(state),
        "next_measurement": "Record the allocator's history around the largest request, and compare the largest free"
        " block with it (table `fragmentation`).",
    }


def _advice(state: Fragmented) -> str:
    said = [
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: blocks of all sizes then share segments that grow.",
    ]
    if state.whole > state.split:
        whole = bytes_text(state.whole)
        said.append(f"torch.cuda.empty_cache() after the largest phase gives back the {whole} that nothing uses.")
    if state.split:
        said.append("Allocate what lives long before what lives shortly.")
    return " ".join(said)


def fragmentation_finding(state: Fragmented) -> Row:
    """Its row of `findings`, without a number."""
    place = f"process_id = {state.process_id} AND device_index = {state.device_index}"
    return {
        "finding_kind": "fragmentation",
        "severity": "warning",
        "confidence": fragmentation_cause(state)["confidence"],
        "bytes": state.free,
        "title": f"Fragmentation: {bytes_text(state.reserved)} reserved for {bytes_text(state.allocated)} allocated;"
        f" {bytes_text(state.free)} is free in {state.free_count} blocks, the largest {bytes_text(state.largest)}",
        "evidence": evidence_text(("fragmentation", place), ("blocks", f"block_state = 'inactive' AND {place}")),
        "advice": _advice(state),
    }
