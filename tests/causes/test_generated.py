"""Snapshots in the allocator's own layout, from file to root cause: graph pools that grow, frees that wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.generate.allocator import MIB, Allocator, Tensor
from tests.generate.judging import Verdicts, rows
from tests.generate.recording import Recording
from tests.golden.captures import judge

MILLISECOND = 1000


class PooledAllocator(Allocator):
    """With private pools: what is asked for inside one is served from its own segments only."""

    def __init__(self, device: int) -> None:
        super().__init__(device)
        self.pool = (0, 0)
        self._pools: dict[int, tuple[int, int]] = {}

    def alloc(self, requested: int, time_us: int, frames: list[dict[str, Any]]) -> Tensor:
        every = self.segments
        self.segments = own = [s for s in every if self._pools[s.address] == self.pool]
        known = len(own)
        tensor = super().alloc(requested, time_us, frames)
        self._pools |= {segment.address: self.pool for segment in own[known:]}
        self.segments = [*every, *own[known:]]
        return tensor

    def complete(self, tensor: Tensor, time_us: int) -> None:
        """The stream that a block waited for has caught up."""
        tensor.is_live, tensor.is_pending = True, False
        self.free(tensor, time_us, [])
        del self.events[-2]  # it was requested before

    def _dump_segment(self, segment: Any) -> dict[str, Any]:
        return super()._dump_segment(segment) | {"segment_pool_id": self._pools[segment.address]}


def _recording(seed: int) -> tuple[Recording, PooledAllocator]:
    recording, allocator = Recording(seed), PooledAllocator(0)
    recording.devices[0] = allocator
    return recording, allocator


def _found(recording: Recording, folder: Path) -> Verdicts:
    recording.write(folder / "capture")
    return judge(folder / "capture", folder / "out")


def _capture(recording: Recording, allocator: PooledAllocator, shape: int) -> None:
    """Capture a graph into a pool of its own: its tensors are freed, its segments stay."""
    allocator.pool = (shape + 1, 0)
    held = [recording.alloc(30 * MIB, "serve", "capture_one_batch_size", "empty") for _ in range(2)]
    recording.free(*held)
    allocator.pool = (0, 0)


@pytest.mark.parametrize("grows", [True, False])
def test_graph_pools(grows: bool, tmp_path: Path) -> None:
    """A graph a new shape, through the day or all at the start."""
    recording, allocator = _recording(3)
    for number in range(12):
        with recording.request(str(number), status=200, prompt_tokens=number * 7):
            recording.free(recording.alloc(50 * MIB, "serve", "forward", "empty"))
            for shape in [number] if grows else range(12) if number == 0 else ():
                _capture(recording, allocator, shape)
        recording.now += 20 * MILLISECOND
    found = _found(recording, tmp_path)
    private = sum(s["total_size"] for s in allocator.dump() if s["segment_pool_id"] != (0, 0))
    causes = rows(found.out, "SELECT * FROM {root_causes}")
    [end] = rows(found.out, "SELECT * FROM {fragmentation} WHERE moment = 'end'")
    assert private == 12 * 60 * MIB
    assert (end["private_reserved_bytes"], end["private_inactive_bytes"]) == (private, private)
    [check] = rows(found.out, "SELECT * FROM {root_cause_checks} WHERE root_cause = 'graph_pool'")
    assert found.growing == []
    if grows:
        assert [(row["root_cause"], row["bytes"]) for row in causes] == [("graph_pool", private)]
        assert "100% of it was taken while a CUDA graph was captured" in causes[0]["evidence_for"]
        assert "graph_pool" in {row["finding_kind"] for row in found.findings}
    else:
        assert causes == []
        assert "do not grow" in check["reason"]


@pytest.mark.parametrize("waits", [True, False])
def test_frees_that_wait_for_a_stream(waits: bool, tmp_path: Path) -> None:
    """Each request's block waits until the next two have run, or is free at once."""
    recording, allocator = _recording(5)
    late: list[Tensor] = []
    for number in range(12):
        with recording.request(str(number), status=200):
            tensor = recording.alloc(100 * MIB, "serve", "prefetch", "empty")
            recording.now += 30 * MILLISECOND
            recording.free(tensor, completed=not waits)
            late += [tensor] if waits else []
            if len(late) > 2:
                allocator.complete(late.pop(0), recording.tick())
    recording.now += 30 * MILLISECOND
    for tensor in late:
        allocator.complete(tensor, recording.tick())
    recording.free(recording.alloc(512, "serve", "end"))
    found = _found(recording, tmp_path)
    causes = {row["root_cause"]: row for row in rows(found.out, "SELECT * FROM {root_causes}")}
    if not waits:
        assert "delayed_free" not in causes
        return
    assert causes["delayed_free"]["bytes"] == 3 * 100 * MIB
    text = " / ".join(causes["delayed_free"]["evidence_for"])
    assert "12 blocks waited" in text
    assert "the largest was allocated by" in text
    assert allocator.reserved_bytes == 3 * 100 * MIB + 2 * MIB  # a third segment, as two wait
    waiting = rows(found.out, "SELECT * FROM {fragmentation} WHERE pending_free_bytes > 0")
    assert max(row["pending_free_bytes"] for row in waiting) == 3 * 100 * MIB
    assert all(row["reserved_bytes"] == row["active_bytes"] + row["inactive_bytes"] for row in waiting)
