"""Ingest of a CUPTI dump to Parquet against DuckDB's own read of the same file with given columns.

    python benchmarks/cupti_ingest.py CUPTI.jsonl[.gz] [--rounds 3] [--max-ratio 6]

Both sides run in processes of their own on the same two cores, in turns; the best round of each counts. A packed file
is unpacked first. Prints seconds, peak memory and the ratio; exit code 1 when it is above `--max-ratio`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORES = 2

_PROLOGUE = """
import json, resource, sys, time
from pathlib import Path
source, out = Path(sys.argv[1]), Path(sys.argv[2])
"""
_EPILOGUE = """
print(json.dumps([time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, rows]))
"""
_DUCKDB = """
import duckdb, polars as pl
from ingest.cupti_enums import COLUMNS, NESTED
word = {pl.String: "VARCHAR", pl.Int64: "BIGINT", pl.UInt64: "UBIGINT"}
flat = {inner for parts in NESTED.values() for inner in parts.values()}
columns = {"kind": "VARCHAR"} | {name: word[kind] for name, kind in COLUMNS.items() if name not in flat}
for outer, parts in NESTED.items():
    columns[outer] = "STRUCT(" + ", ".join(f"{key} {word[COLUMNS[name]]}" for key, name in parts.items()) + ")"
database = duckdb.connect(config={"threads": 2})
database.execute("set enable_progress_bar = false")
"""
SIDES = {
    "duckdb, into a table": _DUCKDB
    + """
began = time.perf_counter()
database.execute("create table records as select * from read_ndjson($file, columns = $columns)",
                 {"file": str(source), "columns": columns})
rows = database.execute("select count(*) from records").fetchone()[0]
""",
    "duckdb, counted only": _DUCKDB
    + """
began = time.perf_counter()
rows = database.execute('select count(*), sum("end" - "start") from read_ndjson($file, columns = $columns)',
                        {"file": str(source), "columns": columns}).fetchone()[0]
""",
    "leakpath, to Parquet": """
from ingest.cupti import IMPORTER
from ingest.sink import Sink
began = time.perf_counter()
sink = Sink(out, 0, IMPORTER.source, clock=IMPORTER.clock)
IMPORTER.read(source, sink)
sink.close()
rows = sink.rows()
""",
}


def measure(side: str, source: Path, out: Path) -> tuple[float, int, int]:
    """Seconds, peak bytes and rows of one run of a side in its own process."""
    script = _PROLOGUE + SIDES[side] + _EPILOGUE
    shutil.rmtree(out, ignore_errors=True)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": str(CORES)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(source), str(out)], env=environment, check=True, stdout=subprocess.PIPE
    )
    seconds, peak, rows = json.loads(done.stdout)
    return seconds, peak, rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-ratio", type=float, default=6.0)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory() as folder:
        source, parts = Path(folder) / "cupti.jsonl", Path(folder) / "parts"
        with arguments.file.open("rb") as packed, source.open("wb") as plain:
            is_packed = packed.read(2) == b"\x1f\x8b"
            packed.seek(0)
            shutil.copyfileobj(gzip.GzipFile(fileobj=packed) if is_packed else packed, plain, 1 << 20)
        print(f"{source.stat().st_size / 1e6:.0f} MB of records, best of {arguments.rounds} rounds", flush=True)
        rounds = [{side: measure(side, source, parts) for side in SIDES} for _ in range(arguments.rounds)]
    best = {side: min(result[side][0] for result in rounds) for side in SIDES}
    for side in SIDES:
        peak = max(result[side][1] for result in rounds)
        print(f"{side}: {best[side]:6.2f} s, peak {peak / 1e6:5.0f} MB, {rounds[0][side][2]} rows")
    ours, theirs = best["leakpath, to Parquet"], best["duckdb, into a table"]
    print(f"ratio {ours / theirs:.2f} (at most {arguments.max_ratio:g})")
    return int(ours / theirs > arguments.max_ratio)


if __name__ == "__main__":
    sys.exit(main())
