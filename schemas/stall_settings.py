"""Settings of stalls and gaps."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.settings import setting as _setting


@dataclass(frozen=True, slots=True)
class StallSettings:
    """What counts as regular work, as a stall worth a finding, as a gap and as streams in lockstep."""

    warm_up_epochs: int = _setting(
        1, "Epochs (requests, steps, ranges) that are start-up, before the regular work.", unit="count", minimum=0
    )
    hot_min_launches: int = _setting(
        20, "Launches from which they alone tell the regular work, where nothing repeats.", unit="count", minimum=1
    )
    context_min_seconds: float = _setting(
        0.01, "The longest call before the first operation made the context if it took this.", unit="seconds", minimum=0
    )
    stall_min_ratio: float = _setting(
        0.02, "Share of the regular work that stalls of one kind must take.", unit="ratio", minimum=0, maximum=1
    )
    stall_warning_ratio: float = _setting(
        0.2, "Share of the regular work from which they are a warning.", unit="ratio", minimum=0, maximum=1
    )
    stall_min_seconds: float = _setting(
        0.001, "Time that stalls of one kind must take in the regular work.", unit="seconds", minimum=0
    )
    idle_min_ratio: float = _setting(
        0.2, "Share of its time that a device must be idle.", unit="ratio", minimum=0, maximum=1
    )
    idle_min_seconds: float = _setting(0.01, "Time that a device must be idle.", unit="seconds", minimum=0)
    gap_min_seconds: float = _setting(
        0.00001, "Shorter gaps have no row of their own; the sums hold them.", unit="seconds", minimum=0
    )
    max_gaps: int = _setting(100_000, "Gaps of a device that have a row, the longest ones.", unit="count", minimum=1)
    eager_min_peers: int = _setting(
        4, "Ranges of a family that must launch graphs before one that does not is a fallback.", unit="count", minimum=1
    )
    eager_min_kernels: int = _setting(
        10, "Kernels that a range must launch itself to be a fallback from a graph.", unit="count", minimum=1
    )
    burst_gap_seconds: float = _setting(
        0.00002, "Pause that ends a burst of operations of a stream.", unit="seconds", minimum=0
    )
    lockstep_streams: int = _setting(
        8, "Streams of a device that are compared, the busiest ones.", unit="count", minimum=2, maximum=64
    )
    lockstep_min_bursts: int = _setting(
        10, "Bursts that both streams must have to be compared.", unit="count", minimum=2
    )
    lockstep_tolerance_ratio: float = _setting(
        0.1, "Distance of two bursts' starts and ends, as a share of their length, up to which they match.",
        unit="ratio", minimum=0, maximum=1,
    )  # fmt: skip
    lockstep_min_ratio: float = _setting(
        0.8, "Share of the bursts that must match for streams to be in lockstep.", unit="ratio", minimum=0, maximum=1
    )
