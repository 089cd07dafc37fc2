"""What the memory calls of the CUDA driver, and of its runtime, mean, by name.

https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html and group__CUDA__VA.html
"""

from __future__ import annotations

import re
from typing import NamedTuple


class CallMeaning(NamedTuple):
    """`action` and `memory_kind` of memory_events; the kind is None where the call does not tell."""

    action: str
    memory_kind: str | None


_VARIANT = re.compile(r"(_v\d+|_ptsz|_ptds)+$")

_ALLOC_DEVICE = ("cuMemAlloc", "cuMemAllocPitch", "cuMemAllocAsync", "cuMemAllocFromPoolAsync")
_ALLOC_PINNED = ("cuMemHostAlloc", "cuMemAllocHost")
_ALLOC_ARRAY = ("cuArrayCreate", "cuArray3DCreate", "cuMipmappedArrayCreate")
_FREE_ARRAY = ("cuArrayDestroy", "cuMipmappedArrayDestroy")

# A runtime call ends in a driver call, which is the event: counted as one too it would allocate twice.
_RUNTIME = {
    "cudaMalloc": CallMeaning("other", "device"),
    "cudaMallocAsync": CallMeaning("other", "device"),
    "cudaMallocFromPoolAsync": CallMeaning("other", "device"),
    "cudaMallocManaged": CallMeaning("other", "managed"),
    "cudaMallocHost": CallMeaning("other", "pinned"),
    "cudaHostAlloc": CallMeaning("other", "pinned"),
    "cudaFree": CallMeaning("other", None),
    "cudaFreeAsync": CallMeaning("other", "device"),
    "cudaFreeHost": CallMeaning("other", "pinned"),
}

_MEANINGS = {
    **dict.fromkeys(_ALLOC_DEVICE, CallMeaning("alloc", "device")),
    "cuMemAllocManaged": CallMeaning("alloc", "managed"),
    **dict.fromkeys(_ALLOC_PINNED, CallMeaning("alloc", "pinned")),
    **dict.fromkeys(_ALLOC_ARRAY, CallMeaning("alloc", "array")),
    "cuMemFree": CallMeaning("free", None),  # frees device and managed memory
    "cuMemFreeAsync": CallMeaning("free", "device"),
    "cuMemFreeHost": CallMeaning("free", "pinned"),
    **dict.fromkeys(_FREE_ARRAY, CallMeaning("free", "array")),
    "cuMemCreate": CallMeaning("create", "device"),
    "cuMemRelease": CallMeaning("release", "device"),
    "cuMemMap": CallMeaning("map", "device"),
    "cuMemUnmap": CallMeaning("unmap", "device"),
    **_RUNTIME,
}


def meaning_of(call: str) -> CallMeaning | None:
    """Meaning of a call, versioned (`_v2`) and per-thread-stream (`_ptsz`) variants alike; None if unknown."""
    return _MEANINGS.get(_VARIANT.sub("", call))
