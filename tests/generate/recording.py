"""A process under record: time passes, requests begin and end, tensors come and go; written as real capture files."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.generate.allocator import Allocator, Tensor, call_path

START_US = 1_796_036_318_000_000
CONTEXT_BYTES = 500 * 1024 * 1024
DEVICE_BYTES = 141 * 1024**3


class Recording:
    """One process. `random` is seeded: the same seed and calls give the same files."""

    def __init__(self, seed: int, *, devices: int = 1, rank: int | None = None, process_id: int = 4242) -> None:
        self.random = random.Random(seed)
        self.now = START_US + self.random.randrange(1_000_000)
        self.devices = [Allocator(device) for device in range(devices)]
        self.rank, self.process_id = rank, process_id
        self.epoch = -1
        self._annotations: list[dict[str, Any]] = []
        self._requests: list[dict[str, Any]] = []
        self._tokens: list[tuple[int, str, int, int]] = []
        self._samples: list[tuple[int, int, int]] = []

    def tick(self, low: int = 5, high: int = 60) -> int:
        """Let some µs pass; returns the new time."""
        self.now += self.random.randint(low, high)
        return self.now

    def alloc(self, requested: int, *path: str, device: int = 0) -> Tensor:
        """Allocate below `main` on a call path given root first."""
        return self.devices[device].alloc(requested, self.tick(), call_path("main", *path))

    def free(self, *tensors: Tensor, path: tuple[str, ...] = ("collect",), completed: bool = True) -> None:
        """Free tensors, from a call path of its own."""
        for tensor in tensors:
            self.devices[tensor.device].free(tensor, self.tick(), call_path("main", *path), completed=completed)

    def begin(self, name: str, **facts: Any) -> dict[str, Any]:
        """Begin a request (a line of the request log); `facts` are its attributes."""
        self.epoch += 1
        self.tick(200, 2_000)
        return {"request_id": name, "arrival_ns": self.now * 1000 - 9_000, "start_ns": self.now * 1000, **facts}

    def end(self, request: dict[str, Any], **facts: Any) -> None:
        """End a request and log it."""
        self.tick(200, 2_000)
        request.setdefault("first_token_ns", self.now * 1000)
        self._requests.append(request | {"end_ns": self.now * 1000} | facts)

    def token(self, request: dict[str, Any], index: int) -> None:
        """A generated token with the device's allocated bytes then (a row of tokens.csv)."""
        if index == 0:
            request["first_token_ns"] = self.now * 1000
        self._tokens.append((self.now * 1000, request["request_id"], index, self.devices[0].allocated_bytes))

    @contextmanager
    def request(self, name: str, **facts: Any) -> Iterator[dict[str, Any]]:
        """A request that is logged when it ends."""
        request = self.begin(name, **facts)
        yield request
        self.end(request)

    @contextmanager
    def annotation(self, name: str) -> Iterator[None]:
        """A record_function range on the snapshot's own time."""
        self.epoch += 1
        self._annotations.append({"stage": "START", "name": name, "device": 0, "time_us": self.tick(200, 2_000)})
        yield
        self._annotations.append({"stage": "END", "name": name, "device": 0, "time_us": self.tick(200, 2_000)})

    def sample(self) -> None:
        """One NVML sample of every device."""
        for allocator in self.devices:
            self._samples.append((self.now * 1000, allocator.device, allocator.reserved_bytes + CONTEXT_BYTES))

    def event_count(self) -> int:
        """Events recorded so far, all devices."""
        return sum(len(allocator.events) for allocator in self.devices)

    def write(self, folder: Path, *, lost: float = 0.0) -> Path:
        """Write snapshot.pickle and what else was recorded. `lost`: share of each trace that was overwritten."""
        folder.mkdir(parents=True, exist_ok=True)
        traces = [allocator.events[int(len(allocator.events) * lost) :] for allocator in self.devices]
        first = min((trace[0]["time_us"] for trace in traces if trace), default=0)
        snapshot = {
            "segments": [segment for allocator in self.devices for segment in allocator.dump()],
            "device_traces": traces,
            "allocator_settings": {"expandable_segments": False},
            "external_annotations": [note for note in self._annotations if note["time_us"] >= first],
        }
        (folder / "snapshot.pickle").write_bytes(pickle.dumps(snapshot, protocol=4))
        if self._requests:
            lines = (
                json.dumps(line | ({"rank": self.rank} if self.rank is not None else {})) for line in self._requests
            )
            (folder / "requests.jsonl").write_text("".join(f"{line}\n" for line in lines))
        if self._tokens:
            rows = "".join(",".join(map(str, (t, r, i, 1_500_000_000, b))) + "\n" for t, r, i, b in self._tokens)
            header = "timestamp_ns,request_id,token_index,rss_bytes,cuda_allocated_bytes\n"
            (folder / "tokens.csv").write_text(header + rows)
        if self._samples:
            (folder / "nvml.csv").write_text(self._nvml())
        return folder

    def _nvml(self) -> str:
        other = 600 * 1024 * 1024
        rows = (
            "timestamp_ns,device_index,used_bytes,free_bytes,total_bytes,gpu_util_pct,mem_util_pct,pid,pid_used_bytes\n"
        )
        for ts, device, held in self._samples:
            used = held + other
            rows += f"{ts},{device},{used},{DEVICE_BYTES - used},{DEVICE_BYTES},50,10,{self.process_id},{held}\n"
        return rows
