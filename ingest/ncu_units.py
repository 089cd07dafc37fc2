"""Base units of Nsight Compute's metrics by their names, where the name tells; a report does not store them.

Structure of the names: https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#metrics-structure
"""

from __future__ import annotations

import re

_LAUNCH = {
    "launch__thread_count": "thread",
    "launch__sm_count": "SM",
    "launch__registers_per_thread": "register/thread",
    "launch__registers_per_thread_allocated": "register/thread",
    "launch__persisting_l2_cache_size": "byte",
    "launch__shared_mem_config_size": "byte",
    "profiler__replayer_passes": "pass",
}
_LAUNCH_PATTERNS = (
    (re.compile(r"launch__shared_mem_per_block(_\w+)?"), "byte/block"),
    (re.compile(r"launch__occupancy_limit_\w+"), "block"),
    (re.compile(r"\w+\.(pct|pct_of_\w+)|\w+__\w+\.(avg|max|min|sum)\.pct\w*|(launch|sm|smsp)__\w+_pct"), "%"),
)
_COUNTER = re.compile(r"[a-z]\w*__(?P<counter>\w+)\.(?:avg|max|min|sum)(?:\.(?P<per>\w+))?")
_QUANTITIES = (
    (re.compile(r"cycles_\w+"), "cycle"),
    (re.compile(r"time_\w+"), "ns"),
    (re.compile(r"(\w+_)?bytes(_\w+)?"), "byte"),
)


def unit_of_metric(metric: str) -> str | None:
    """Base unit of a metric, None where its name does not tell."""
    if unit := _LAUNCH.get(metric):
        return unit
    for pattern, unit in _LAUNCH_PATTERNS:
        if pattern.fullmatch(metric):
            return unit
    found = _COUNTER.fullmatch(metric)
    if not found:
        return None
    quantity = next((unit for pattern, unit in _QUANTITIES if pattern.fullmatch(found["counter"])), None)
    if quantity is None or found["per"] is None:
        return quantity
    if found["per"] == "per_second":
        return "hz" if quantity == "cycle" else f"{quantity}/s"
    return None
