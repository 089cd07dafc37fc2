"""What would have made room for a failed allocation: each setting and measure, with the reason why or why not.

How the caching allocator serves a request, splits and gives back blocks: c10/cuda/CUDACachingAllocator.cpp
(`should_split`, `release_available_cached_blocks`, `release_cached_blocks`, `garbage_collect_cached_blocks`): blocks
are found by stream and pool; before it fails, all whole unused blocks outside private pools were given back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.wording import bytes_text

MIB = 1024 * 1024
SMALL_REQUEST_BYTES, SMALL_SEGMENT_BYTES = MIB, 2 * MIB
SETTINGS = ("expandable_segments", "max_split_size_mb", "garbage_collection_threshold")
WORDS = {
    "expandable_segments": "expandable_segments:True in PYTORCH_CUDA_ALLOC_CONF",
    "max_split_size_mb": "max_split_size_mb in PYTORCH_CUDA_ALLOC_CONF",
    "garbage_collection_threshold": "garbage_collection_threshold in PYTORCH_CUDA_ALLOC_CONF",
    "synchronize": "To synchronise before it, or to drop record_stream,",
    "one_stream": "To work on one stream",
    "fewer_graph_pools": "Fewer CUDA graphs, or one pool for all,",
    "other_processes": "To free what is outside the allocator",
    "memory_limit": "A higher limit",
}
"""The three settings of PYTORCH_CUDA_ALLOC_CONF first, and all remedies as a sentence begins with them."""
SPLIT_LIMITS_MIB = (1024, 512, 256, 128, 64, 32)
"""Candidates for max_split_size_mb, which must be above 20."""


class Segment(NamedTuple):
    """A segment at the failure; None: not known. Bytes."""

    total: int
    stream_id: int | None
    asking_stream_id: int | None
    pool_id: str | None
    is_expandable: bool
    used: int
    pending: int
    largest_used: int
    free: int
    largest_free: int

    @property
    def is_private(self) -> bool:
        """Whether only a private pool (a CUDA graph's) may use it."""
        return self.pool_id is not None and self.pool_id != "0,0"

    def is_other_stream(self) -> bool:
        """Whether another stream than the asking one may use it."""
        return None not in (self.stream_id, self.asking_stream_id) and self.stream_id != self.asking_stream_id

    def fits_class(self, requested: int) -> bool:
        """Whether requests of that size are served from it: those of 1 MiB and less have segments of their own."""
        return self.is_expandable or (requested <= SMALL_REQUEST_BYTES) == (self.total == SMALL_SEGMENT_BYTES)


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing that might have helped: `would_help` None when that is not known; `room` bytes that it makes usable."""

    remedy: str
    would_help: bool | None
    room: int | None
    reason: str


class State:
    """The allocator at the failure, seen by the request: what of the free bytes it could use, and what it could not."""

    def __init__(self, requested: int, device_free: int, segments: Sequence[Segment]) -> None:
        self.requested, self.device_free = requested, device_free
        common = [s for s in segments if not s.is_private]
        self.private_free = sum(s.free for s in segments if s.is_private)
        self.other_stream_free = sum(s.free for s in common if s.is_other_stream())
        own = [s for s in common if not s.is_other_stream()]
        self.other_class_free = sum(s.free for s in own if not s.fits_class(requested))
        self.usable = [s for s in own if s.fits_class(requested)]
        self.free = sum(s.free for s in self.usable)
        self.whole_free = sum(s.free for s in common if not s.used)
        self.pending = sum(s.pending for s in common)
        self.is_expandable = any(s.is_expandable for s in segments)

    def fits(self, room: int) -> bool:
        """Whether the request would have fitted with so many bytes more to be had from the driver or in one piece."""
        return self.requested <= room + self.device_free


def _expandable(state: State, settings: Mapping[str, str]) -> Remedy:
    name = "expandable_segments"
    if state.is_expandable or settings.get(name, "").lower() in ("true", "1"):
        return Remedy(name, False, 0, "it is on already")
    both = state.free + state.device_free
    if state.fits(state.free):
        reason = f"pages between blocks are given back and joined: {bytes_text(both)} with what the device has free"
        return Remedy(name, True, state.free, reason)
    reason = f"what the request could use, joined with what the device has free, is {bytes_text(both)} only"
    return Remedy(name, False, state.free, reason)


def _max_split(state: State, settings: Mapping[str, str]) -> Remedy:
    name = "max_split_size_mb"
    if state.is_expandable or settings.get("expandable_segments", "").lower() in ("true", "1"):
        return Remedy(name, False, 0, "it has no effect while expandable_segments is on")
    split = settings.get("max_split_size", "")
    limit = int(split) if split.isdecimal() and int(split) < 1 << 50 else None
    best = 0
    for mebibytes in SPLIT_LIMITS_MIB:
        if limit is not None and mebibytes * MIB >= limit:
            continue
        held = [s for s in state.usable if s.used and s.total > mebibytes * MIB and s.largest_used <= mebibytes * MIB]
        room = sum(s.free for s in held)
        if held and state.fits(room):
            reason = (
                f"at {mebibytes}, {len(held)} large segments with {bytes_text(room)} free would not have been split for"
                " the smaller blocks that now hold them"
            )
            return Remedy(name, True, room, reason)
        best = max(best, room)
    now = f"; it is {bytes_text(limit)} already" if limit is not None else ""
    reason = f"large segments that only smaller blocks hold have {bytes_text(best)} free, too little{now}"
    return Remedy(name, False, best, reason)


def _collection(state: State) -> Remedy:
    name = "garbage_collection_threshold"
    if state.whole_free and state.fits(state.whole_free):
        reason = (
            f"{bytes_text(state.whole_free)} lay in segments that nothing used; it gives such back early, where"
            " set_per_process_memory_fraction is set as well"
        )
        return Remedy(name, True, state.whole_free, reason)
    left = f"{bytes_text(state.whole_free)} of such was left" if state.whole_free else "none was left"
    reason = f"it gives back whole unused segments only, as the allocator does itself before it fails: {left}"
    return Remedy(name, False, state.whole_free, reason)


def remedies(state: State, settings: Mapping[str, str], *, reserved: int, device_total: int | None) -> list[Remedy]:
    """Everything that was weighed, in the order in which a person would try it. `settings` are the allocator's own."""
    found = [_expandable(state, settings), _max_split(state, settings), _collection(state)]
    room = state.free + state.pending
    found.append(
        Remedy(
            "synchronize",
            state.pending > 0 and state.fits(room),
            state.pending,
            f"{bytes_text(state.pending)} waited for a stream" if state.pending else "no block waited for a stream",
        )
    )
    if state.other_stream_free:
        reason = f"{bytes_text(state.other_stream_free)} is free in blocks of other streams, which this one can't use"
        helps = state.fits(state.free + state.other_stream_free)
        found.append(Remedy("one_stream", helps, state.other_stream_free, reason))
    if state.private_free:
        reason = f"{bytes_text(state.private_free)} is free in private pools, for their CUDA graphs alone"
        helps = state.fits(state.free + state.private_free)
        found.append(Remedy("fewer_graph_pools", helps, state.private_free, reason))
    others = None if device_total is None else device_total - reserved - state.device_free
    if others is None:
        reason = "how large the device is was not recorded"
        found.append(Remedy("other_processes", None, None, reason))
    elif others > 0:
        reason = (
            f"{bytes_text(others)} of the device is held by other processes, contexts and memory outside the allocator"
        )
        found.append(Remedy("other_processes", state.fits(others), others, reason))
    if state.requested <= state.device_free:
        reason = f"the device had {bytes_text(state.device_free)} free: a limit such as set_per_process_memory_fraction"
        found.append(Remedy("memory_limit", True, state.device_free, f"{reason} was in the way"))
    return found
