"""Stalls and gaps of Nsight Systems exports against `nsys stats`, and against sums of SQLite and plain Python."""

from __future__ import annotations

import csv
import re
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest

from ingest.nsys_sqlite import IMPORTER
from ingest.sink import Sink
from pipeline.database import Database
from schemas.tables import TABLES
from tests.ingest.support import SHARED
from tests.stalls.support import judged

GOLDEN = SHARED / "corpus" / "golden" / "nsys_stats"
EXPORTS = SHARED / "corpus" / "nsys_sqlite"
REPORTS = sorted(path.relative_to(EXPORTS) for path in EXPORTS.rglob("*.sqlite"))
pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason="the corpus is not beside the checkout")

_VERSION = re.compile(r"_v\d{5,}$")
_STALLING = re.compile(
    r"\w+(Device|Ctx|Stream|Event)Synchronize|cudaMemcpy|cuMemcpy(HtoD|DtoH)_v2|cudaMalloc|cudaMallocManaged|cudaFree"
    r"|cudaFreeHost|cudaHost(Alloc|Register|Unregister)|cuMem(Alloc|Free)_v2|cuModule(LoadDataEx|Unload)|cuLibraryLoadData|cuInit"
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """All exports, a file each on a clock of its own: nothing of one is joined with another."""
    folder = tmp_path_factory.mktemp("nsys")
    for number, name in enumerate(REPORTS):
        sink = Sink(folder / str(number), number, IMPORTER.source, clock=IMPORTER.clock)
        IMPORTER.read(EXPORTS / name, sink)
        sink.close()
    made = Database(folder / "duckdb", threads=1, settings={"clock_tolerance_ns": 5_000_000})
    for name, table in TABLES.items():
        made.view(table, sorted(folder.glob(f"*/{name}/*.parquet")))
        if table.layer == "raw" and "clock_aligned" in table.columns:
            made.connection.execute(f'ALTER VIEW "{name}" RENAME TO "{name}_read"')
            made.connection.execute(
                f'CREATE VIEW "{name}" AS SELECT * REPLACE (false AS clock_aligned) FROM "{name}_read"'
            )
    return judged(made)


def _theirs(name: Path) -> dict[str, tuple[int, int]]:
    """Time and number of calls by name; of a call's own rows and those of its backtraces the longer ones."""
    path = GOLDEN / name / "cuda_api_sum.csv"
    found: dict[str, tuple[int, int]] = {}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(line for line in stream if line.strip()):
                label = _VERSION.sub("", row["Name"])
                sums = int(row["Total Time (ns)"]), int(row["Num Calls"])
                found[label] = max(sums, found.get(label, (0, 0)))
    return found


def test_time_and_number_of_stalling_calls_equal_nsys_stats(database: Database) -> None:
    compared: set[str] = set()
    for number, name in enumerate(REPORTS):
        theirs = {label: sums for label, sums in _theirs(name).items() if _STALLING.fullmatch(label)}
        rows = database.rows(
            "SELECT name, sum(duration_ns), count(*) FROM sync_stalls WHERE stall_kind <> 'pageable_copy'"
            f" AND file_id = {number} AND NOT (stall_kind = 'context' AND name <> 'cuInit')"
            " AND coalesce(detail, '') <> 'record of a wait, no call' GROUP BY name"
        )
        assert {label: (total, count) for label, total, count in rows} == theirs, name
        compared |= set(theirs)
    assert {"cudaDeviceSynchronize", "cudaStreamSynchronize", "cuStreamSynchronize", "cudaMemcpy"} < compared
    assert len(compared) > 12


def _sqlite(name: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{EXPORTS / name}?immutable=1", uri=True)


def _tables(export: sqlite3.Connection) -> set[str]:
    return {name for (name,) in export.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def test_pageable_copies_equal_what_sqlite_sums(database: Database) -> None:
    """Calls named Async, one of whose copies has a side in pageable memory (kind 0 of Nsight Systems)."""
    seen = 0
    for number, name in enumerate(REPORTS):
        with closing(_sqlite(name)) as export:
            wanted = (0, None)
            if {"CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMCPY"} <= _tables(export):
                wanted = export.execute(
                    'SELECT count(*), sum(r."end" - r.start) FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r'
                    " JOIN StringIds AS s ON s.id = r.nameId WHERE s.value LIKE '%Async%' AND EXISTS (SELECT 1 FROM"
                    " CUPTI_ACTIVITY_KIND_MEMCPY AS m WHERE m.correlationId = r.correlationId AND m.globalPid ="
                    " r.globalTid / 0x1000000 * 0x1000000 AND 0 IN (m.srcKind, m.dstKind))"
                ).fetchone()
        of_it = f"file_id = {number} AND stall_kind = 'pageable_copy'"
        assert database.rows(f"SELECT count(*), sum(duration_ns) FROM sync_stalls WHERE {of_it}") == [wanted], name
        seen += wanted[0]
    assert seen > 300


def _union(spans: list[tuple[int, int]]) -> int:
    covered, until = 0, None
    for start, end in sorted(spans):
        if until is None or start > until:
            covered, until = covered + end - start, end
        elif end > until:
            covered, until = covered + end - until, end
    return covered


def test_busy_time_of_devices_equals_a_union_in_plain_python(database: Database) -> None:
    compared = 0
    for number, name in enumerate(REPORTS):
        spans: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        with closing(_sqlite(name)) as export:
            known = _tables(export)
            if "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in known or any(table.startswith("CUDA_UM_") for table in known):
                continue
            for kind in ("KERNEL", "MEMCPY", "MEMSET"):
                if f"CUPTI_ACTIVITY_KIND_{kind}" in known:
                    wanted = 'globalPid / 0x1000000 % 0x1000000, deviceId, start, "end"'
                    for pid, device, start, end in export.execute(f"SELECT {wanted} FROM CUPTI_ACTIVITY_KIND_{kind}"):
                        spans[pid, device].append((start, end))
        times = database.rows(
            "SELECT DISTINCT process_id, device_index, busy_ns, idle_ns,"
            " sync_idle_ns + launch_idle_ns + host_idle_ns + unknown_idle_ns FROM device_activity"
            " WHERE (process_id, start_ns) IN (SELECT (process_id, min(start_ns)) FROM gpu_ops"
            f" WHERE file_id = {number} GROUP BY process_id, device_index)"
        )
        assert len(times) == len(spans), name
        for pid, device, busy, idle, parts in times:
            own = spans[pid, device]
            assert busy == _union(own), name
            assert busy + idle == max(end for _, end in own) - min(start for start, _ in own)
            assert parts == idle
            compared += 1
    assert compared > 10
