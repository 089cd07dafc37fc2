"""`cuda_context`: processes that hold device memory and do nothing with it."""

from __future__ import annotations

from pipeline.causes.rows import Row, cause_row
from pipeline.database import Database
from pipeline.leaks.causes import Evidence
from pipeline.wording import bytes_text

USUAL_CONTEXT_BYTES = 2 * 1024**3
"""More than a context with its modules takes on any device of today."""
FEW_SAMPLES = 5


def idle_context_causes(database: Database) -> list[Row]:
    """Rows of `root_causes` without numbers, one a process of `idle_contexts` on a device."""
    rows = database.rows(
        "SELECT process_id, device_index, sample_count, last_bytes FROM idle_contexts ORDER BY device_index, process_id"
    )
    return [_row(*row) for row in rows]


def _row(process: int, device: int, samples: int, held: int) -> Row:
    found = Evidence()
    found.add(True, f"process {process} held {held:,} bytes, level over the later half of {samples:,} samples", "")
    found.add(True, "no allocator or API activity of it was recorded in that time", "")
    found.add(samples >= FEW_SAMPLES, "", f"{samples} samples only tell that it was level")
    found.add(
        held <= USUAL_CONTEXT_BYTES,
        "",
        f"{bytes_text(held)} is more than a context alone takes: it may hold tensors that nobody recorded",
    )
    cause = found.cause(
        "cuda_context",
        f"End process {process}, or keep it from touching the GPU (CUDA_VISIBLE_DEVICES=''): its CUDA context"
        " and modules hold this memory even when idle.",
        f"Find what process {process} is (ps -p {process} -o args), and record it as well if it should be working.",
    )
    if not cause.evidence_against:
        cause.confidence = (samples + 1) / (samples + 2)
    return cause_row(cause, (process, device), held)
