"""A second reading of PyTorch snapshots for the tests: plain pickle, plain loops, nothing of the importer."""

from __future__ import annotations

import gzip
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

from tests.ingest.support import SHARED

DATA = Path(__file__).resolve().parents[1] / "data" / "torch"
CORPUS = SHARED / "corpus" / "torch_snapshot"
CAPTURES = SHARED / "captures"

Place = tuple[int, int]  # device, address


class _NoGlobals(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise AssertionError(f"{module}.{name} in a test file")


def plain(path: Path) -> dict[str, Any]:
    """The snapshot as a dict; a list of segments stands as one without traces."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        value = _NoGlobals(stream).load()
    return value if isinstance(value, dict) else {"segments": value, "device_traces": []}


def snapshots() -> list[Path]:
    """Bundled snapshots, and those of the corpus and the captures where they are checked out (the largest apart)."""
    shared = [*CORPUS.rglob("*.pickle"), *CAPTURES.rglob("snapshot.pickle*")]
    return [*sorted(DATA.glob("*.pickle*")), *sorted(p for p in shared if p.parent.name != "soak")]


def name_of(path: Path) -> str:
    return path.name if path.parent == DATA else f"{path.parent.name}/{path.name}"


def blocks_in_use(snapshot: dict[str, Any]) -> dict[Place, tuple[int, int | None]]:
    """(device, address) → (size, requested size); where a block has no address the blocks before it say where it is."""
    found = {}
    for segment in snapshot["segments"]:
        place = segment["address"]
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                found[segment.get("device", 0), block.get("address", place)] = (block["size"], block["requested_size"])
            place += block["size"]
    return found


def held(snapshot: dict[str, Any]) -> list[tuple[int, int, int]]:
    """(device, first, last + 1) of every segment, touching ones merged: map events may cut them differently."""
    return merged((s.get("device", 0), s["address"], s["address"] + s["total_size"]) for s in snapshot["segments"])


def merged(ranges: Any) -> list[tuple[int, int, int]]:
    joined: list[tuple[int, int, int]] = []
    for device, low, high in sorted(ranges):
        if joined and joined[-1][0] == device and joined[-1][2] == low:
            joined[-1] = (device, joined[-1][1], high)
        else:
            joined.append((device, low, high))
    return joined


def replayed(snapshot: dict[str, Any]) -> dict[Place, int]:
    """(device, address) → requested size of what the events alone leave live."""
    live: dict[Place, int] = {}
    for device, trace in enumerate(snapshot["device_traces"]):
        for event in trace:
            if event["action"] == "alloc":
                live[device, event["addr"]] = event["size"]
            elif event["action"] == "free_completed":
                live.pop((device, event["addr"]), None)
    return live


def actions(snapshot: dict[str, Any]) -> Counter[str]:
    return Counter(event["action"] for trace in snapshot["device_traces"] for event in trace)
