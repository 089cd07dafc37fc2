"""A hand-made capture of a few kilobytes whose leak is known: a PyTorch snapshot and its request log."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

START_US = 1_796_036_318_000_000
BLOCK_BYTES = 65_536
SEGMENT = 0x7F0000000000


def _frames(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "filename": "/srv/app/serve.py", "line": 10 + i} for i, name in enumerate(names)]


def write_tiny(folder: Path, *, requests: int = 12, leak_every: int = 3) -> int:
    """Write the capture; every `leak_every`-th request keeps one 64 KiB block (0: none does). Returns how many do."""
    kept_path, freed_path = _frames("append", "decode", "serve"), _frames("empty", "forward", "serve")
    size = 64 * 1024 * 1024
    events: list[dict[str, Any]] = [
        {
            "action": "segment_alloc",
            "addr": SEGMENT,
            "size": size,
            "stream": 0,
            "time_us": START_US,
            "frames": freed_path,
        }
    ]
    annotations, log, blocks, used = [], [], [], 0
    for number in range(requests):
        begin = START_US + 1_000 + number * 100_000
        leaks = bool(leak_every) and number % leak_every == leak_every - 1
        annotations += [
            {"stage": "START", "name": f"request:{number}", "device": 0, "time_us": begin},
            {"stage": "END", "name": f"request:{number}", "device": 0, "time_us": begin + 50_000},
        ]
        address = SEGMENT + used * BLOCK_BYTES
        event = {"addr": address, "size": BLOCK_BYTES, "stream": 0, "frames": kept_path if leaks else freed_path}
        events.append({**event, "action": "alloc", "time_us": begin + 100})
        if leaks:
            used += 1
            blocks.append(
                {
                    "address": address,
                    "size": BLOCK_BYTES,
                    "requested_size": BLOCK_BYTES,
                    "state": "active_allocated",
                    "frames": kept_path,
                }
            )
        else:
            events.append({**event, "action": "free_requested", "time_us": begin + 40_000})
            events.append({**event, "action": "free_completed", "time_us": begin + 40_001})
        log.append(
            {
                "request_id": number,
                "arrival_ns": begin * 1000 - 5_000,
                "start_ns": begin * 1000,
                "first_token_ns": begin * 1000 + 9_000_000,
                "end_ns": (begin + 50_000) * 1000,
                "prompt_tokens": 16,
                "output_tokens": 4,
                "status": 499 if leaks else 200,
            }
        )
    kept = used * BLOCK_BYTES
    blocks.append(
        {"address": SEGMENT + kept, "size": size - kept, "requested_size": 0, "state": "inactive", "frames": []}
    )
    segment = {
        "device": 0,
        "address": SEGMENT,
        "total_size": size,
        "allocated_size": kept,
        "active_size": kept,
        "requested_size": kept,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": freed_path,
        "blocks": blocks,
    }
    snapshot = {
        "segments": [segment],
        "device_traces": [events],
        "allocator_settings": {"expandable_segments": False},
        "external_annotations": annotations,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "snapshot.pickle").write_bytes(pickle.dumps(snapshot, protocol=4))
    (folder / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    return used
