"""What Kineto's categories, names and enumerations mean, in the words of the tables.

https://github.com/pytorch/kineto/blob/main/libkineto/include/ActivityType.h (categories; before 2022 they were spelt
`Operator`, `Kernel`, `Runtime`), `libkineto/src/cupti_strings.cpp` (copies, synchronisations, overheads) and
https://github.com/pytorch/pytorch/blob/main/c10/core/DeviceType.h.
"""

from __future__ import annotations

import re
from typing import NamedTuple

GPU_OPS = {
    "kernel": "kernel",
    "Kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "Memcpy": "memcpy",
    "gpu_memset": "memset",
    "Memset": "memset",
}
API_CALLS = {
    "cuda_runtime": "runtime",
    "cuda_driver": "driver",
    "Runtime": "runtime",
    "hip_runtime": "runtime",
    "hip_driver": "driver",
    "mtia_runtime": "runtime",
    "glow_runtime": "runtime",
    "xpu_runtime": "runtime",
    "xpu_driver": "driver",
    "privateuse1_runtime": "runtime",
    "privateuse1_driver": "driver",
}
OPERATORS = ("cpu_op", "Operator")
PYTHON = ("python_function", "Python")
SYNCS = ("cuda_sync", "xpu_sync")
OVERHEADS = ("overhead", "Overhead")
GPU_RANGES = (
    "gpu_user_annotation",
    "cuda_event",
    "cuda_profiler_range",
    "hpu_op",
    "mtia_ccp_events",
    "collective_comm",
)
ANNOTATIONS = ("user_annotation",)
WINDOWS = ("Trace",)
"""How long the profiler itself ran."""

MEMORY, OUT_OF_MEMORY = "[memory]", "[OutOfMemory]"
CPU_DEVICE = 0
"""`Device Type` of host memory; all others are devices (1 CUDA, 6 HIP, 12 XPU, …)."""

KNOWN = frozenset(
    (
        *(*GPU_OPS, *API_CALLS, *OPERATORS, *PYTHON, *SYNCS, *OVERHEADS, *GPU_RANGES, *ANNOTATIONS, *WINDOWS),
        *("cpu_instant_event", "ac2g", "async_cpu_to_gpu", "fwdbwd", "async"),
    )
)
"""Categories that only this profiler writes."""

STEP = re.compile(r"ProfilerStep[#*]\s*\d+")
_COPY = re.compile(r"Memcpy (\w+) \(([^()>]*?) -> ([^()>]*?)\)")
_SET = re.compile(r"Memset \((.+)\)")
_MEMORY_KINDS = frozenset(("pageable", "pinned", "device", "array", "managed", "unknown"))
_HIP_COPIES = {"HostToDevice": "htod", "DeviceToHost": "dtoh", "DeviceToDevice": "dtod", "HostToHost": "htoh"}


class Copy(NamedTuple):
    """Direction and memory kinds of a copy, each None where the name does not tell."""

    copy_kind: str | None = None
    src_kind: str | None = None
    dst_kind: str | None = None


def _memory_kind(text: str) -> str | None:
    word = text.strip().lower()
    if word.endswith(" static"):
        return "static"
    return word if word in _MEMORY_KINDS else None


def copy_of(op: str, name: str) -> Copy:
    """What the name of a copy or a memset tells: `Memcpy HtoD (Pinned -> Device)`, `Memset (Device)`."""
    if op == "memcpy" and (match := _COPY.match(name)):
        kind = match[1].lower() if re.fullmatch(r"[HDAP]to[HDAP]", match[1]) else None
        return Copy(kind, _memory_kind(match[2]), _memory_kind(match[3]))
    if op == "memcpy":
        return Copy(next((kind for word, kind in _HIP_COPIES.items() if word in name), None))
    if op == "memset" and (match := _SET.match(name)):
        return Copy(None, None, _memory_kind(match[1]))
    return Copy()


def sync_kind(name: str) -> str:
    """`sync_kind` of a synchronisation's name."""
    words = {
        "Event Sync": "event",
        "Stream Wait Event": "stream_wait",
        "Stream Sync": "stream",
        "Context Sync": "context",
    }
    return words.get(name, "unknown")
