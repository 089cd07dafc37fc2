"""A small caching allocator that records what PyTorch's records: events of one device, segments and blocks at a dump.

Layout of the records: https://github.com/pytorch/pytorch/blob/main/torch/cuda/memory.py (`_snapshot`).
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from functools import cache
from typing import Any

KIB, MIB = 1024, 1024 * 1024
_ROUND = 512


@cache
def _frame(name: str) -> dict[str, Any]:
    function, _, line = name.partition(":")
    return {"name": function, "filename": f"/srv/app/{function.split('.')[0]}.py", "line": int(line or 7)}


@cache
def call_path(*names: str) -> list[dict[str, Any]]:
    """Frames as PyTorch writes them, leaf first, from `function[:line]` names, root first; equal paths are shared."""
    return [_frame(name) for name in reversed(names)]


@dataclass(eq=False, slots=True)
class Tensor:
    """One live or dead block."""

    device: int
    address: int
    requested: int
    rounded: int
    frames: list[dict[str, Any]]
    segment: _Segment
    is_live: bool = True
    is_pending: bool = False


@dataclass(eq=False, slots=True)
class _Segment:
    address: int
    size: int
    is_small: bool
    frames: list[dict[str, Any]]
    free: list[tuple[int, int]] = field(default_factory=list)  # (address, size), by address
    live: dict[int, Tensor] = field(default_factory=dict)


class Allocator:
    """Best fit over free blocks, segments of 2 MiB, 20 MiB or the request rounded up, as the caching allocator's."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.events: list[dict[str, Any]] = []
        self.segments: list[_Segment] = []
        self._next = 0x7F0000000000 + device * 0x10000000000

    @property
    def allocated_bytes(self) -> int:
        """Bytes in use, rounded, as torch.cuda.memory_allocated() gives them."""
        return sum(t.rounded for s in self.segments for t in s.live.values())

    @property
    def reserved_bytes(self) -> int:
        """Bytes held from the driver."""
        return sum(s.size for s in self.segments)

    def _record(self, action: str, address: int, size: int, time_us: int, frames: list[dict[str, Any]]) -> None:
        self.events.append(
            {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time_us, "frames": frames}
        )

    def alloc(self, requested: int, time_us: int, frames: list[dict[str, Any]]) -> Tensor:
        """Hand out a block of `requested` bytes."""
        rounded = max(_ROUND, -(-requested // _ROUND) * _ROUND)
        is_small = rounded <= MIB
        fits = [
            (size, address, segment)
            for segment in self.segments
            if segment.is_small == is_small
            for address, size in segment.free
            if size >= rounded and (size == rounded or is_small or size - rounded < 64 * MIB)
        ]
        if not fits:
            size = 2 * MIB if is_small else 20 * MIB if rounded < 10 * MIB else -(-rounded // (2 * MIB)) * 2 * MIB
            segment = _Segment(self._next, size, is_small, frames, [(self._next, size)])
            self._next += size + 2 * MIB
            self.segments.append(segment)
            self._record("segment_alloc", segment.address, size, time_us, frames)
            fits = [(size, segment.address, segment)]
        size, address, segment = min(fits, key=lambda fit: fit[:2])
        segment.free.remove((address, size))
        if size > rounded:
            insort(segment.free, (address + rounded, size - rounded))
        tensor = Tensor(self.device, address, requested, rounded, frames, segment)
        segment.live[address] = tensor
        self._record("alloc", address, requested, time_us, frames)
        return tensor

    def free(self, tensor: Tensor, time_us: int, frames: list[dict[str, Any]], *, completed: bool = True) -> None:
        """Give a block back; `completed` False leaves it waiting for a stream."""
        assert tensor.is_live, "freed twice"
        tensor.is_live = False
        self._record("free_requested", tensor.address, tensor.requested, time_us, frames)
        if not completed:
            tensor.is_pending = True
            return
        self._record("free_completed", tensor.address, tensor.requested, time_us, frames)
        segment = tensor.segment
        del segment.live[tensor.address]
        insort(segment.free, (tensor.address, tensor.rounded))
        merged: list[tuple[int, int]] = []
        for address, size in segment.free:
            if merged and sum(merged[-1]) == address:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((address, size))
        segment.free = merged

    def dump(self) -> list[dict[str, Any]]:
        """Segments with their blocks, as in a snapshot."""
        return [self._dump_segment(segment) for segment in self.segments]

    def _dump_segment(self, segment: _Segment) -> dict[str, Any]:
        blocks = [
            {
                "address": t.address,
                "size": t.rounded,
                "requested_size": t.requested,
                "state": "active_pending_free" if t.is_pending else "active_allocated",
                "frames": t.frames,
            }
            for t in segment.live.values()
        ]
        blocks += [
            {"address": address, "size": size, "requested_size": 0, "state": "inactive", "frames": []}
            for address, size in segment.free
        ]
        blocks.sort(key=lambda block: block["address"])
        used = sum(t.rounded for t in segment.live.values())
        return {
            "device": self.device,
            "address": segment.address,
            "total_size": segment.size,
            "allocated_size": sum(t.rounded for t in segment.live.values() if not t.is_pending),
            "active_size": used,
            "requested_size": sum(t.requested for t in segment.live.values()),
            "stream": 0,
            "segment_type": "small" if segment.is_small else "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": segment.frames,
            "blocks": blocks,
        }
