"""Ingest of perf script text to Parquet against stackcollapse-perf.pl, which folds the same text.

    python benchmarks/perf_ingest.py STACKCOLLAPSE_PERF_PL SAMPLE.txt... [--megabytes 200] [--rounds 3] [--grow]

The text is made of the samples of the given files in turn, over and over: each time with later times, and every
other time with another address in its leaf frame, as a function is sampled at many. Both sides run in processes
of their own on one core, in turns; processor time counts, the best round of each. `--grow` reads a file of ten times
the size as well. Exit code 1 below 40 MB/s and below 3 times stackcollapse-perf.pl, or when peak memory grew by more
than a half.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MIN_MB_S, MIN_RATIO, MAX_GROWTH = 40.0, 3.0, 1.5
LEAVES = 32  # addresses that one function is sampled at
_TIME = re.compile(r"(?m)^(\S.*?\s)(\d+)\.(\d+):")
_LEAF = re.compile(r"\n(\s+)([0-9a-f]+) ")

_OURS = """
import json, resource, sys, time
from pathlib import Path
from ingest.perf_script import IMPORTER
from ingest.sink import Sink
began = time.process_time()
sink = Sink(Path(sys.argv[2]), 0, IMPORTER.source, clock=IMPORTER.clock)
IMPORTER.read(Path(sys.argv[1]), sink)
sink.close()
seconds = time.process_time() - began
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, sink.rows()]))
"""


def write_text(samples: list[Path], target: Path, size: int) -> int:
    """A file of about `size` bytes; the number of samples in it."""
    blocks = []
    for path in samples:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
        blocks += [block for block in re.sub(r"(?m)^#.*\n", "", text).split("\n\n") if _TIME.match(block)]
    written = count = 0
    with target.open("w") as stream:
        while written < size:
            for block in blocks:
                count += 1
                if found := _TIME.match(block):
                    block = f"{found[1]}{1000 + count // 1000}.{count % 1000:03}000:{block[found.end() :]}"
                if count % 2 and (found := _LEAF.search(block)):
                    leaf = int(found[2], 16) + count // len(blocks) % LEAVES
                    block = f"{block[: found.start()]}\n{found[1]}{leaf:x}{block[found.end() - 1 :]}"
                written += stream.write(f"{block}\n\n")
    return count


def ours(source: Path, out: Path) -> tuple[float, int, int]:
    """Processor seconds, peak bytes and rows of the importer."""
    shutil.rmtree(out, ignore_errors=True)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": "1"}
    command = [sys.executable, "-c", _OURS, str(source), str(out)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    seconds, peak, rows = json.loads(done.stdout)
    return seconds, peak, rows


def theirs(script: Path, source: Path) -> float:
    """Processor seconds of stackcollapse-perf.pl."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with Path(os.devnull).open("wb") as sink:
        subprocess.run(["perl", str(script), "--all", str(source)], check=True, stdout=sink, stderr=sink)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stackcollapse", type=Path)
    parser.add_argument("samples", type=Path, nargs="+")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--grow", action="store_true")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "perf.txt", Path(folder) / "parts"
        samples = write_text(arguments.samples, source, arguments.megabytes * 1_000_000)
        megabytes = source.stat().st_size / 1e6
        print(f"{megabytes:.0f} MB, {samples} samples, best of {arguments.rounds} rounds", flush=True)
        rounds = [(ours(source, out), theirs(arguments.stackcollapse, source)) for _ in range(arguments.rounds)]
        seconds, peak = min(mine[0] for mine, _ in rounds), max(mine[1] for mine, _ in rounds)
        perl = min(other for _, other in rounds)
        print(f"leakpath, to Parquet: {seconds:6.2f} s, {megabytes / seconds:5.1f} MB/s, peak {peak / 1e6:.0f} MB")
        print(f"stackcollapse-perf.pl: {perl:5.2f} s, {megabytes / perl:5.1f} MB/s; ratio {perl / seconds:.2f}")
        is_slow = megabytes / seconds < MIN_MB_S and perl / seconds < MIN_RATIO
        if arguments.grow:
            write_text(arguments.samples, source, arguments.megabytes * 10_000_000)
            grown = ours(source, out)[1]
            print(f"ten times as much: peak {grown / 1e6:.0f} MB")
            is_slow |= grown > peak * MAX_GROWTH
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(main())
