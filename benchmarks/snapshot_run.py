"""Ingest and the whole run of a memory snapshot against a bare unpickling of the same file by the same unpickler.

    python benchmarks/snapshot_run.py CAPTURE_FOLDER [--rounds 3] [--max-ingest 3] [--max-run 6] [--max-memory 1600]

The snapshot is unpacked first, so that all three read the same plain pickle. Each side runs in processes of its own on
the same two cores, in turns; the best round of each counts. Prints seconds, CPU seconds, peak memory of the largest
process and ratios; exit code 1 when a bound is passed.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CORES = 2
_LOAD = (
    "import sys; from pathlib import Path; from ingest.torch_unpickle import load_plain; load_plain(Path(sys.argv[1]))"
)


class Cost(NamedTuple):
    """What one command took: seconds, CPU seconds of it and its children, MB of the largest process."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def measure(command: list[str]) -> Cost:
    """Cost of one command; raises CalledProcessError when it fails."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": str(CORES)}
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    return Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3)


def unpacked(capture: Path, target: Path) -> Path:
    """Copy a capture with its snapshot unpacked; returns the snapshot."""
    shutil.copytree(capture, target)
    [snapshot] = sorted(target.glob("*.pickle*"))
    if snapshot.suffix != ".gz":
        return snapshot
    plain = snapshot.with_suffix("")
    with gzip.open(snapshot) as packed, plain.open("wb") as file:
        shutil.copyfileobj(packed, file, 1 << 20)
    snapshot.unlink()
    return plain


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("capture", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-ingest", type=float, default=3.0)
    parser.add_argument("--max-run", type=float, default=6.0)
    parser.add_argument("--max-memory", type=float, default=1600.0, help="MB")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    costs: dict[str, list[Cost]] = {"unpickling alone": [], "ingest to Parquet": [], "whole run": []}
    with tempfile.TemporaryDirectory() as folder:
        snapshot = unpacked(arguments.capture, Path(folder) / "capture")
        print(f"{snapshot.stat().st_size / 1e6:.0f} MB snapshot, best of {arguments.rounds} rounds", flush=True)
        for turn in range(arguments.rounds):
            out = str(Path(folder) / f"out{turn}")
            leakpath = [sys.executable, "-c", "from pipeline.cli import main; main()"]
            costs["unpickling alone"].append(measure([sys.executable, "-c", _LOAD, str(snapshot)]))
            costs["ingest to Parquet"].append(measure([*leakpath, "ingest", str(snapshot), "--out", f"{out}-ingest"]))
            costs["whole run"].append(
                measure([*leakpath, "run", str(snapshot.parent), "--out", out, "--cores", str(CORES)])
            )
            shutil.rmtree(out, ignore_errors=True)
    best = {side: min(found, key=lambda cost: cost.seconds) for side, found in costs.items()}
    base = best["unpickling alone"].seconds
    for side, cost in best.items():
        peak = max(c.peak_mb for c in costs[side])
        ratio = cost.seconds / base
        print(f"{side:18} {cost.seconds:6.2f} s  {cost.cpu_seconds:6.2f} CPU s  {peak:5.0f} MB  × {ratio:.2f}")
    peak = max(cost.peak_mb for found in costs.values() for cost in found)
    within = (
        best["ingest to Parquet"].seconds <= arguments.max_ingest * base
        and best["whole run"].seconds <= arguments.max_run * base
        and peak <= arguments.max_memory
    )
    return int(not within)


if __name__ == "__main__":
    sys.exit(main())
