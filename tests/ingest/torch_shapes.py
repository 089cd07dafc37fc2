"""Hand-made snapshots in every layout that PyTorch has written."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

START_US = 1_796_036_318_000_000
SEGMENT = 0x7F00_0000_0000
MIB = 1 << 20


def stack(*names: str) -> list[dict[str, Any]]:
    """Frames, innermost first, as PyTorch gives them."""
    return [{"name": name, "filename": f"/srv/{name}.py", "line": 7 + i} for i, name in enumerate(names)]


def event(action: str, addr: int | None, size: int, at: int | None = 0, **more: Any) -> dict[str, Any]:
    """One event `at` µs after the start; None leaves out time, and an `addr` of None the address."""
    known: dict[str, Any] = {"action": action, "size": size, "stream": 0, "frames": stack("leaf", "root")}
    if addr is not None:
        known["addr"] = addr
    if at is not None:
        known["time_us"] = START_US + at
    return known | more


def block(address: int | None, size: int, state: str = "active_allocated", **more: Any) -> dict[str, Any]:
    known = {"size": size, "requested_size": size - 8, "state": state, "frames": stack("leaf", "root")}
    return (known if address is None else known | {"address": address}) | more


def segment(address: int, size: int, *blocks: dict[str, Any], device: int = 0, **more: Any) -> dict[str, Any]:
    active = sum(b["size"] for b in blocks if b["state"] != "inactive")
    return {
        "device": device, "address": address, "total_size": size, "allocated_size": active, "active_size": active,
        "requested_size": active, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
        "is_expandable": False, "frames": stack("leaf", "root"), "blocks": list(blocks),
    } | more  # fmt: skip


def whole() -> dict[str, Any]:
    """A small snapshot of today's layout: one segment, one live block, one freed, two annotations, settings."""
    return {
        "device_traces": [
            [
                event("segment_alloc", SEGMENT, 2 * MIB, 0),
                event("alloc", SEGMENT, 1016, 10, user_metadata="step 1", compile_context="3/0"),
                event("alloc", SEGMENT + 1024, 4088, 20, user_metadata="", compile_context="N/A"),
                event("free_requested", SEGMENT + 1024, 4088, 30),
                event("free_completed", SEGMENT + 1024, 4088, 31),
            ]
        ],
        "segments": [
            segment(SEGMENT, 2 * MIB, block(SEGMENT, 1024), block(SEGMENT + 1024, 2 * MIB - 1024, "inactive"))
        ],
        "external_annotations": [
            {"stage": "START", "name": "request:1", "device": 0, "time_us": START_US + 5},
            {"stage": "END", "name": "request:1", "device": 0, "time_us": START_US + 40},
        ],
        "allocator_settings": {"expandable_segments": False, "max_split_size": -1},
    }


def write(folder: Path, snapshot: object, name: str = "snapshot.pickle", protocol: int = 4) -> Path:
    path = folder / name
    path.write_bytes(pickle.dumps(snapshot, protocol))
    return path
