"""What the clock step knows of files and of the moments they share, and what it says of each file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Edge(NamedTuple):
    """`file_id`'s clock mapped to `reference_file_id`'s by one method (a row of `clock_edges`)."""

    reference_file_id: int
    file_id: int
    method: str
    anchor_count: int
    outlier_count: int
    offset_ns: int
    drift_ratio: float
    origin_ns: int
    residual_p50_ns: int
    residual_p99_ns: int


@dataclass(frozen=True, slots=True)
class File:
    """What the clock step knows of a file. `pair_offset_ns` puts its clock on realtime by header pairs."""

    file_id: int
    format: str | None
    clock: str
    first_ns: int | None
    last_ns: int | None
    pair_offset_ns: int | None
    manual_offset_ns: int | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Alignment:
    """One row of `clock_alignments`."""

    file_id: int
    clock: str
    method: str
    offset_ns: int | None = None
    reference_file_id: int | None = None
    anchor_count: int = 0
    outlier_count: int = 0
    drift_ratio: float = 0.0
    origin_ns: int | None = None
    residual_p50_ns: int | None = None
    residual_p99_ns: int | None = None
    check_offset_ns: int | None = None
    check_difference_ns: int | None = None
    is_disagreement: bool = False
    clock_aligned: bool = field(default=False)
