"""Cuts this project's captures down to the small snapshots beside this file.

    python tests/data/torch/trim.py ../shared/captures

Whole events are left out, nothing is changed: the newest events are kept as a ring buffer would, and of each frame list
the innermost frames. Segments and blocks of the dump stay complete, so the cut files still reconcile.
"""

from __future__ import annotations

import gzip
import pickle
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FRAMES = 12

# name → (snapshot, events kept of each device, counted from the newest; None keeps all)
PIECES: dict[str, tuple[str, int | None]] = {
    "kv_leak_tail": ("kv_leak/snapshot.pickle.gz", 9000),
    "expandable_tail": ("expandable/snapshot.pickle.gz", 6000),
    "autograd_tail": ("autograd/snapshot.pickle.gz", 3500),
    "ddp2_rank0": ("ddp2/rank0/snapshot.pickle", None),
    "ddp2_rank1": ("ddp2/rank1/snapshot.pickle.gz", None),
    "frag": ("frag/snapshot.pickle", None),
    "kvblocks": ("kvblocks/snapshot.pickle", None),
}


def _read(path: Path) -> Any:
    """The project's own capture: nothing else may be unpickled this way."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
        return pickle.load(stream)


def trim(snapshot: dict[str, Any], events: int | None) -> dict[str, Any]:
    """The snapshot with each device's newest `events` and short frame lists."""
    traces = [trace if events is None else trace[-events:] for trace in snapshot["device_traces"]]
    short: dict[tuple[int, ...], list[Any]] = {}

    def cut(frames: list[Any]) -> list[Any]:
        return short.setdefault(tuple(map(id, frames[:FRAMES])), frames[:FRAMES])

    kept: dict[str, Any] = {"device_traces": [[e | {"frames": cut(e["frames"])} for e in trace] for trace in traces]}
    kept["segments"] = [
        segment
        | {
            "frames": cut(segment["frames"]),
            "blocks": [b | ({"frames": cut(b["frames"])} if "frames" in b else {}) for b in segment["blocks"]],
        }
        for segment in snapshot["segments"]
    ]
    return snapshot | kept


def main(captures: Path) -> None:
    for name, (path, events) in PIECES.items():
        out = HERE / f"{name}.pickle.gz"
        out.write_bytes(gzip.compress(pickle.dumps(trim(_read(captures / path), events), 4), 9, mtime=0))
        print(f"{out.name}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
