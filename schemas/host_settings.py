"""Settings of the host's memory: pressure and NUMA."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.settings import setting as _setting


@dataclass(frozen=True, slots=True)
class HostSettings:
    """When a host or cgroup counts as under memory pressure, and what of its NUMA nodes is a finding."""

    stalled_min_ratio: float = _setting(
        0.05,
        "Share of a window in which some task waited for memory, from which the window is under pressure.",
        unit="ratio",
        minimum=0,
        maximum=1,
    )
    pressure_windows: int = _setting(
        200, "Windows of `host_pressure` of a host or cgroup, at most.", unit="count", minimum=1
    )
    min_requests: int = _setting(
        8, "Requests under pressure, and others, that a comparison of their latency needs.", unit="count", minimum=2
    )
    max_p_value: float = _setting(
        0.01, "Highest p-value at which requests under pressure are called slower.", unit="ratio", minimum=0, maximum=1
    )
    remote_min_ratio: float = _setting(
        0.2, "Share of pages on another node from which it is told.", unit="ratio", minimum=0, maximum=1
    )
    remote_min_bytes: int = _setting(
        64 * 1024 * 1024, "Bytes on another node below which nothing is said.", unit="bytes", minimum=0
    )
    slab_min_growth_bytes: int = _setting(
        32 * 1024 * 1024, "Growth of a node's slab below which nothing is said.", unit="bytes", minimum=0
    )
