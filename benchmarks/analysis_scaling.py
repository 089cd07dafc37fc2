"""Analysis of a generated capture at two sizes: memory stays within bounds, and twice the size takes twice the time.

    python benchmarks/analysis_scaling.py [--allocations 20000000] [--max-ratio 2.2] [--max-memory 4000] [--keep FOLDER]

The capture is a server's: requests of a thousand tensors each, which reuse a pool's addresses; every seventh request is
cancelled and keeps one tensor. It is written as raw tables, a half of it and the whole, and each is analysed in a
process of its own on two cores. Prints seconds, CPU seconds and peak memory; exit code 1 when a bound is passed or when
the leak is not the one growing suspect. The ratio is that of CPU seconds, which other work on the machine moves least.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ingest.writer import ParquetFile, to_arrow
from schemas.tables import TABLES

CORES = 2
PER_REQUEST = 1000
CANCELLED_EVERY = 7
BATCH_REQUESTS = 128
PATHS = 40
LEAK_BYTES = 4096
BLOCK_BYTES = 2**19
LEAK_PATH = PATHS
START_NS = 1_760_000_000_000_000_000
STEP_NS = 2_000
POOL, LEAKED = 0x7F00_0000_0000, 0x7E00_0000_0000

Numbers = npt.NDArray[np.int64]


class Cost(NamedTuple):
    """What one analysis took, and how many suspects it found to grow."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    growing: list[tuple[int, int]]


def _one_request() -> dict[str, Numbers]:
    """Events of one request: tensor i is allocated at tick 2 i, and its two frees follow about 20 allocations later."""
    tensor = np.arange(PER_REQUEST)
    freed = np.minimum(tensor + 1 + tensor * 7919 % 40, PER_REQUEST - 1) * 2 + 1
    tick = np.concatenate([tensor * 2, freed, freed])
    action = np.repeat([0, 1, 2], PER_REQUEST)
    order = np.lexsort((action, np.tile(tensor, 3), tick))
    return {"tensor": np.tile(tensor, 3)[order], "tick": tick[order], "action": action[order]}


def _events(first: int, count: int) -> dict[str, pa.Array | Numbers]:
    """Columns of `memory_events` for `count` requests from number `first` on."""
    one = _one_request()
    request = np.repeat(np.arange(first, first + count), len(one["tick"]))
    tensor, tick, action = (np.tile(one[name], count) for name in ("tensor", "tick", "action"))
    is_leak = (request % CANCELLED_EVERY == 0) & (tensor == PER_REQUEST // 2)
    kept = ~(is_leak & (action > 0))
    request, tensor, tick, action, is_leak = (values[kept] for values in (request, tensor, tick, action, is_leak))
    words = pa.array(["alloc", "free_requested", "free"])
    return {
        "action": words.take(pa.array(action)),
        "ts_ns": START_NS + (request * PER_REQUEST * 2 + tick) * STEP_NS,
        "address": np.where(is_leak, LEAKED + request * LEAK_BYTES, POOL + tensor * BLOCK_BYTES).astype(np.uint64),
        "size_bytes": np.where(is_leak, LEAK_BYTES, 512 << tensor % 10),
        "call_path_id": np.where(is_leak, LEAK_PATH, tensor % PATHS),
    }


def write_capture(folder: Path, allocations: int) -> None:
    """Raw tables of a capture with about that many allocations into `folder/tables`."""
    requests = max(CANCELLED_EVERY * 10, allocations // PER_REQUEST)
    file = ParquetFile(TABLES["memory_events"], folder / "tables" / "memory_events.parquet")
    constants = {"file_id": 0, "source": "torch", "clock_aligned": True, "process_id": 1, "device_index": 0}
    constants |= {"memory_kind": "device", "stream_id": 0}
    segments = {
        "event_index": [0, 1],
        "action": ["alloc", "alloc"],
        "ts_ns": [START_NS - 2, START_NS - 1],
        "address": np.array([POOL, LEAKED], np.uint64),
        "size_bytes": [PER_REQUEST * BLOCK_BYTES, requests * LEAK_BYTES],
    }
    file.write(to_arrow(TABLES["memory_events"], segments, constants | {"level": "segment"}))
    for first in range(0, requests, BATCH_REQUESTS):
        columns = _events(first, min(BATCH_REQUESTS, requests - first))
        columns["event_index"] = np.arange(file.rows, file.rows + len(columns["ts_ns"]))
        file.write(to_arrow(TABLES["memory_events"], columns, constants | {"level": "tensor"}))
    file.close()
    numbers = np.arange(requests)
    starts = START_NS + numbers * PER_REQUEST * 2 * STEP_NS
    _write(
        folder,
        "requests",
        {
            "event_index": numbers,
            "request_id": [f"r{number}" for number in numbers],
            "start_ns": starts,
            "end_ns": starts + (PER_REQUEST * 2 - 1) * STEP_NS,
            "status": ["499" if number % CANCELLED_EVERY == 0 else "200" for number in numbers],
        },
        {"file_id": 1, "source": "request_log", "clock_aligned": True, "process_id": 1},
    )
    paths = list(range(PATHS + 1))
    frames = {"frame_id": paths, "function": [f"layer_{path}" for path in paths]}
    _write(folder, "frames", frames, {})
    _write(folder, "call_paths", {"call_path_id": paths, "frame_ids": [[p] for p in paths]}, {"depth_count": 1})
    files = {"file_id": [0, 1], "path": ["snapshot.pickle", "requests.jsonl"], "row_count": [file.rows, requests]}
    _write(folder, "capture_files", files, {"size_bytes": 1, "digest": "", "read_state": "read"})


def _write(folder: Path, name: str, columns: dict[str, object], constants: dict[str, object]) -> None:
    file = ParquetFile(TABLES[name], folder / "tables" / f"{name}.parquet")
    file.write(to_arrow(TABLES[name], columns, constants))  # type: ignore[arg-type]
    file.close()


def in_child(work: Callable[[], None]) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak MB of `work` in a process of its own; raises RuntimeError when it fails."""
    began = time.perf_counter()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
            work()
            status = 0
        finally:
            os._exit(status)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise RuntimeError("the analysis failed")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3


def analysed(folder: Path) -> Cost:
    """Analyse a capture's tables in a process of its own."""

    def work() -> None:
        from pipeline.stages import run_analyze
        from schemas.config import Config

        run_analyze(folder, Config(), lambda line: print(f"    {line}", flush=True))

    seconds, cpu_seconds, peak_mb = in_child(work)
    found = pq.read_table(
        folder / "tables" / "leak_suspects.parquet", columns=["verdict", "retained_count", "retained_bytes"]
    ).to_pylist()
    growing = [(row["retained_count"], row["retained_bytes"]) for row in found if row["verdict"] == "growing"]
    return Cost(seconds, cpu_seconds, peak_mb, growing)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--allocations", type=int, default=20_000_000)
    parser.add_argument("--max-ratio", type=float, default=2.2)
    parser.add_argument("--max-memory", type=float, default=4000.0, help="MB")
    parser.add_argument("--keep", type=Path, help="write the captures here and leave them")
    arguments = parser.parse_args()
    within, costs = True, list[Cost]()
    with tempfile.TemporaryDirectory() as temporary:
        for allocations in (arguments.allocations // 2, arguments.allocations):
            folder = (arguments.keep or Path(temporary)) / str(allocations)
            in_child(lambda folder=folder, allocations=allocations: write_capture(folder, allocations))  # type: ignore[misc]
            cost = analysed(folder)
            costs.append(cost)
            print(
                f"{allocations:>11,} allocations  {cost.seconds:7.1f} s  {cost.cpu_seconds:7.1f} CPU s"
                f"  {cost.peak_mb:5.0f} MB  growing: {cost.growing}",
                flush=True,
            )
            requests = max(CANCELLED_EVERY * 10, allocations // PER_REQUEST)
            leaked = -(-requests // CANCELLED_EVERY)
            within &= cost.peak_mb <= arguments.max_memory and cost.growing == [(leaked, leaked * LEAK_BYTES)]
    ratio = costs[1].cpu_seconds / costs[0].cpu_seconds
    print(f"twice the allocations: × {ratio:.2f}")
    return int(not within or ratio > arguments.max_ratio)


if __name__ == "__main__":
    sys.exit(main())
