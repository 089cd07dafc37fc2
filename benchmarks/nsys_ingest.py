"""Ingest of an Nsight Systems export against DuckDB's own scan of the same tables.

    python benchmarks/nsys_ingest.py [--rows 2000000] [--rounds 3] [--max-ratio 2] [--duckdb-python PYTHON]

The export is generated: CUDA calls, kernels, copies and NVTX ranges with the columns of schema 3.20. DuckDB reads
SQLite with an extension that it downloads; where it can't be loaded, `--duckdb-python` names the Python of an
environment that has it, else a full scan of the same tables through Python's sqlite3 into Arrow stands for it. The
sides run in processes of their own on the same two cores, in turns; the best round of each counts. Prints seconds, peak
memory (also on a quarter of the rows) and the ratio; exit code 1 when it is above `--max-ratio`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORES = 2


def _names(text: str) -> list[str]:
    return text.split()


_KERNEL = _names(
    "start end deviceId contextId greenContextId streamId correlationId globalPid demangledName shortName mangledName"
    " launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory"
    " dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId"
    " sharedMemoryLimitConfig"
)
_CALL = _names("start end eventClass globalTid correlationId nameId returnValue callchainId")
_COPY = _names(
    "start end deviceId contextId greenContextId streamId correlationId globalPid bytes copyKind deprecatedSrcId"
    " srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause graphNodeId virtualAddress"
)
_RANGE = _names(
    "start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value int64Value"
    " doubleValue uint32Value int32Value floatValue jsonTextId jsonText binaryData"
)
TABLES = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": (_CALL, 4),
    "CUPTI_ACTIVITY_KIND_KERNEL": (_KERNEL, 2),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (_COPY, 1),
    "NVTX_EVENTS": (_RANGE, 1),
}
"""Columns of each table, and its share of the rows in eighths."""
_GLOBAL_PID, _NAMES = 1 << 48 | 4660 << 24, 500

_PROLOGUE = """
import json, resource, sys, time
from pathlib import Path
source, out, tables = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split(",")
"""
_EPILOGUE = """
print(json.dumps([time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, rows]))
"""
LEAKPATH, SQLITE3, DUCKDB = "leakpath, to Parquet", "sqlite3 module, into Arrow", "duckdb, into Arrow"
SIDES = {
    DUCKDB: """
import duckdb
try:
    import duckdb_extensions
    duckdb_extensions.import_extension("sqlite_scanner")
except ImportError:
    pass
database = duckdb.connect(config={"threads": 2})
database.execute("LOAD sqlite_scanner")
began, rows = time.perf_counter(), 0
for table in tables:
    result = database.execute(f"SELECT * FROM sqlite_scan('{source}', '{table}')")
    for batch in result.fetch_record_batch(100_000):
        rows += batch.num_rows
""",
    SQLITE3: """
import sqlite3, pyarrow as pa
database = sqlite3.connect(f"file:{source}?immutable=1", uri=True)
began, rows = time.perf_counter(), 0
for table in tables:
    cursor = database.execute(f"SELECT * FROM {table}")
    while found := cursor.fetchmany(50_000):
        arrays = [pa.array(column) for column in zip(*found)]
        rows += len(found)
""",
    LEAKPATH: """
from ingest.nsys_sqlite import IMPORTER
from ingest.sink import Sink
began = time.perf_counter()
sink = Sink(out, 0, IMPORTER.source, clock=IMPORTER.clock)
IMPORTER.read(source, sink)
sink.close()
rows = sink.rows()
""",
}


def _values(columns: list[str], rows: int) -> Iterator[tuple[object, ...]]:
    usual = {
        "deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": _GLOBAL_PID, "globalTid": _GLOBAL_PID | 4661,
        "eventClass": 0, "returnValue": 0, "eventType": 59, "bytes": 4096, "copyKind": 1, "srcKind": 1, "dstKind": 2,
        "launchType": 1, "cacheConfig": 0, "registersPerThread": 64, "gridX": 128, "gridY": 2, "gridZ": 1,
        "blockX": 256, "blockY": 1, "blockZ": 1, "staticSharedMemory": 0, "dynamicSharedMemory": 49152,
        "localMemoryPerThread": 0,
        "localMemoryTotal": 1 << 20, "sharedMemoryExecuted": 65536, "domainId": 0, "deprecatedSrcId": 0,
    }  # fmt: skip
    for n in range(rows):
        own = {
            "start": 10**9 + n * 1000, "end": 10**9 + n * 1000 + 700, "correlationId": n + 1, "nameId": n % 40,
            "demangledName": n % _NAMES, "shortName": n % _NAMES, "mangledName": n % _NAMES, "gridId": n,
            "text": f"aten::op_{n % 300}, op_id = {n}",
        }  # fmt: skip
        yield tuple(own.get(name, usual.get(name)) for name in columns)


def generate(path: Path, rows: int) -> None:
    """Write an export of about that many rows."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        names = ((n, f"void kernel_{n}<float, (int){n}>(float const *, int)") for n in range(_NAMES))
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
        database.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)")
        database.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1764586182699638734)")
        for table, (columns, eighths) in TABLES.items():
            declared = ", ".join(f"{name} {'TEXT' if 'ext' in name[-4:] else 'INTEGER'}" for name in columns)
            database.execute(f"CREATE TABLE {table} ({declared.replace(' end ', ' [end] ')})")
            marks = ", ".join("?" * len(columns))
            database.executemany(f"INSERT INTO {table} VALUES ({marks})", _values(columns, rows * eighths // 8))
        database.commit()


def measure(side: str, python: str, source: Path, out: Path) -> tuple[float, int, int] | None:
    """Seconds, peak bytes and rows of one run of a side in its own process; None when DuckDB can't read SQLite."""
    shutil.rmtree(out, ignore_errors=True)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": str(CORES)}
    command = [python, "-c", _PROLOGUE + SIDES[side] + _EPILOGUE, str(source), str(out), ",".join(TABLES)]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode and side == DUCKDB:
        return None
    if done.returncode:
        sys.exit(done.stderr)
    seconds, peak, rows = json.loads(done.stdout.splitlines()[-1])
    return seconds, peak, rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-ratio", type=float, default=2.0)
    parser.add_argument("--duckdb-python", default=sys.executable)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    pythons = {DUCKDB: arguments.duckdb_python, SQLITE3: sys.executable, LEAKPATH: sys.executable}
    with tempfile.TemporaryDirectory() as folder:
        small, source, parts = Path(folder) / "small.sqlite", Path(folder) / "export.sqlite", Path(folder) / "parts"
        generate(small, arguments.rows // 4)
        generate(source, arguments.rows)
        megabytes = source.stat().st_size / 1e6
        print(f"{megabytes:.0f} MB, {arguments.rows} rows, best of {arguments.rounds} rounds", flush=True)
        few = measure(LEAKPATH, sys.executable, small, parts)
        best: dict[str, tuple[float, int, int]] = {}
        for _ in range(arguments.rounds):
            for side, python in pythons.items():
                found = measure(side, python, source, parts)
                if found is not None:
                    best[side] = min(found, best.get(side, found))
    for side, (seconds, peak, rows) in best.items():
        print(f"{side}: {seconds:6.2f} s, peak {peak / 1e6:5.0f} MB, {rows} rows")
    if few:
        print(f"leakpath's peak at a quarter of the rows: {few[1] / 1e6:.0f} MB")
    other = DUCKDB if DUCKDB in best else SQLITE3
    ratio = best[LEAKPATH][0] / best[other][0]
    print(f"ratio to {other}: {ratio:.2f} (at most {arguments.max_ratio:g})")
    return int(ratio > arguments.max_ratio)


if __name__ == "__main__":
    sys.exit(main())
