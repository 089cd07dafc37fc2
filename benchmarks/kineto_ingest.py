"""Ingest of a Kineto trace to Parquet against HolisticTraceAnalysis loading the same file.

    python benchmarks/kineto_ingest.py --hta PYTHON [TRACE.json[.gz] ...] [--events 2000000] [--rounds 3]
        [--min-speedup 8] [--max-memory-ratio 0.334] [--max-growth 1.5]

`--hta` is the Python of an environment of its own with the package HolisticTraceAnalysis; without it that side is left
out, and so is its judgement. Beside the traces named, one of `--events` events and one of a tenth of them are written
and read. Each side loads each file in a process of its own, in turns, unpacked and as it is; the best round of each
counts: CPU seconds, since a shared machine's clock counts others' work, and peak memory of the whole process. Exit code
1 when a ratio is not kept, or when memory grows by more than `--max-growth` from the small generated trace to the
large one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

_EPILOGUE = """
import json, resource
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.process_time() - began, time.perf_counter() - started, usage.ru_maxrss << 10]))
"""
_OURS = """
import sys, time
from pathlib import Path
from ingest.kineto import IMPORTER
from ingest.sink import Sink
began, started = time.process_time(), time.perf_counter()
sink = Sink(Path(sys.argv[2]), 0, IMPORTER.source, clock=IMPORTER.clock)
IMPORTER.read(Path(sys.argv[1]), sink)
sink.close()
"""
_THEIRS = """
import sys, time
from hta.trace_analysis import TraceAnalysis
began, started = time.process_time(), time.perf_counter()
TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
"""


class Run(NamedTuple):
    """CPU and wall seconds of the load alone, peak bytes of the process."""

    cpu: float
    wall: float
    peak: int


def measure(python: str, script: str, source: Path, out: Path) -> Run | None:
    """One load in a process of its own; None when it fails."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT)} if script is _OURS else dict(os.environ)
    command = [python, "-c", script + _EPILOGUE, str(source), str(out)]
    done = subprocess.run(command, env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return None if done.returncode else Run(*json.loads(done.stdout.splitlines()[-1]))


def in_turns(hta: str, source: Path, out: Path, rounds: int) -> tuple[list[Run], list[Run]]:
    """Loads by leakpath and by HTA (none without `hta`), less those that failed."""
    ours, theirs = list[Run | None](), list[Run | None]()
    for _ in range(rounds):
        ours.append(measure(sys.executable, _OURS, source, out))
        if hta:
            theirs.append(measure(hta, _THEIRS, source, out))
    return [run for run in ours if run], [run for run in theirs if run]


def _event(head: str, name: str, lane: str, ts: float, dur: float | None, args: str) -> str:
    length = "" if dur is None else f', "dur": {dur:.3f}'
    start = f'  {{\n    "ph": {head}, "name": "{name}", {lane},\n    "ts": {ts:.3f}{length}'
    return f'{start},\n    "args": {{\n      {args}\n    }}\n  }}'


def _flow(phase: str, number: int, lane: str, ts: float) -> str:
    return f'  {{\n    "ph": "{phase}", "id": {number}, {lane}, "ts": {ts:.3f}, "cat": "ac2g", "name": "ac2g"\n  }}'


def events(count: int) -> Iterator[str]:
    """Text of `count` events in the proportions of a training run: operators, stacks, tensors, launches, kernels."""
    chance = random.Random(1)
    host, device, ts = '"pid": 100, "tid": 100', '"pid": 0, "tid": 7', 5179746256668.0
    python, instant = '"X", "cat": "python_function"', '"i", "cat": "cpu_instant_event", "s": "t"'
    for number in range(1, count // 12 + 1):
        site, call = chance.randrange(60), number * 5
        yield _event(python, f"train.py({site}): f{site}", host, ts, 90, f'"Python id": {call}, "Ev Idx": {call}')
        for level in range(1, 5):
            name = f"torch/nn/modules/module.py({level}): _call_impl"
            yield _event(python, name, host, ts + level, 80 - level, f'"Python id": {call + level}')
        shapes = '"Input Dims": [[64, 128], [128, 64], []], "Input type": ["float", "float", ""]'
        operator = f'"External id": {number},{shapes}'
        yield _event('"X", "cat": "cpu_op"', f"aten::op{number % 40}", host, ts + 10, 60, operator)
        address = 139_900_000_000_000 + number % 5000 * 512
        for size, at in ((512, 20), (-512, 50)):
            totals = f'"Total Allocated": {512 + size}, "Total Reserved": 2097152'
            block = f'"Bytes": {size}, "Device Id": 0, "Device Type": 1, "Addr": {address}'
            yield _event(instant, "[memory]", host, ts + at, None, f"{totals}, {block}")
        launch = f'"External id": {number}, "cbid": 211, "correlation": {number}'
        yield _event('"X", "cat": "cuda_runtime"', "cudaLaunchKernel", host, ts + 25, 8, launch)
        yield _flow("s", number, host, ts + 25)
        size_text = '"grid": [64, 1, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 0'
        kernel = f'"device": 0, "context": 1, "stream": 7, "correlation": {number}, {size_text}'
        yield _event('"X", "cat": "kernel"', f"void kernel_{number % 30}<float>", device, ts + 40, 5.5, kernel)
        yield _flow("f", number, device, ts + 40)
        ts += 100


def generate(path: Path, count: int) -> None:
    """A trace of about `count` events."""
    with path.open("w") as file:
        file.write('{\n  "schemaVersion": 1,\n  "deviceProperties": [],\n  "distributedInfo": {"rank": 0},\n')
        file.write('  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 1790857026000000000,\n  "traceEvents": [\n')
        for number, text in enumerate(events(count)):
            file.write(",\n" * bool(number) + text)
        file.write('\n  ],\n  "traceName": "generated.json"\n}\n')


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("traces", type=Path, nargs="*")
    parser.add_argument("--hta", default="", help="Python of an environment with HolisticTraceAnalysis")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--min-speedup", type=float, default=8.0)
    parser.add_argument("--max-memory-ratio", type=float, default=0.334)
    parser.add_argument("--max-growth", type=float, default=1.5)
    arguments = parser.parse_args()
    if not arguments.hta:
        print("HolisticTraceAnalysis is left out: --hta names no Python")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        small, large, out = Path(folder) / "small.json", Path(folder) / "large.json", Path(folder) / "parts"
        generate(small, arguments.events // 10)
        generate(large, arguments.events)
        sources = []
        for trace in arguments.traces:
            if trace.read_bytes()[:2] == b"\x1f\x8b":
                plain = Path(folder) / f"{trace.parent.name}.json"
                with gzip.open(trace) as packed, plain.open("wb") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
                sources.append(plain)
            sources.append(trace)
        peaks = {}
        for source in [*sources, small, large]:
            ours, theirs = in_turns(arguments.hta, source, out, arguments.rounds)
            if not ours:
                print(f"{source.name}: leakpath fails")
                return 1
            best, peak = min(run.cpu for run in ours), max(run.peak for run in ours)
            peaks[source] = peak
            line = f"{source.name} ({source.stat().st_size / 1e6:.0f} MB): leakpath {best:.2f} s, {peak / 1e6:.0f} MB"
            if theirs:
                their_best, their_peak = min(run.cpu for run in theirs), min(run.peak for run in theirs)
                speedup, ratio = their_best / best, peak / their_peak
                line += f"; HTA {their_best:.2f} s, {their_peak / 1e6:.0f} MB"
                line += f": {speedup:.1f} × faster, {ratio:.2f} of its memory"
                if source is not small:
                    failed = failed or speedup < arguments.min_speedup or ratio > arguments.max_memory_ratio
            elif arguments.hta:
                line += "; HTA fails on it"
            print(line, flush=True)
    growth = peaks[large] / peaks[small]
    print(f"memory, {small.name} to {large.name}: × {growth:.2f} (at most {arguments.max_growth:g})")
    return int(failed or growth > arguments.max_growth)


if __name__ == "__main__":
    sys.exit(main())
