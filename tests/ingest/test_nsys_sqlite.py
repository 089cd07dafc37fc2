"""Nsight Systems exports in SQLite: the schemas of several years, row by row, and what must never come out of them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingest.errors import BadInput
from ingest.nsys_sqlite import IMPORTER
from pipeline.commands.run import run as run_command
from tests.ingest.nsys_exports import (
    CANARY,
    DEVICE_POINTER,
    GENERATIONS,
    HIGH_POINTER,
    PID,
    TABLES,
    TID,
    UTC,
    Rows,
    tables_of_generation,
    write_sqlite,
)
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file

EXPORTS = SHARED / "corpus" / "nsys_sqlite"
Tables = dict[str, pl.DataFrame]


def read_tables(tmp_path: Path, tables: dict[str, Rows]) -> Tables:
    folder = tmp_path / f"export{sum(1 for _ in tmp_path.iterdir())}"
    folder.mkdir()
    return ingest_file(write_sqlite(folder / "export.sqlite", tables), folder, IMPORTER)


def rows(tables: Tables, table: str, columns: str) -> list[tuple[Any, ...]]:
    return tables[table].select(columns.split()).rows() if table in tables else []


@pytest.mark.parametrize("generation", GENERATIONS)
def test_one_recording_in_the_schemas_of_several_years(generation: str, tmp_path: Path) -> None:
    is_old = generation == "2020.3"
    start = 0 if is_old else UTC
    export = write_sqlite(tmp_path / "export.sqlite", tables_of_generation(generation))
    tables = check_importer(export, tmp_path, IMPORTER)

    calls = rows(tables, "api_calls", "api name start_ns end_ns process_id thread_id correlation_id return_code")
    assert calls == [
        ("runtime", "cudaMalloc", start, start + 60, PID, TID, 1, 0),
        ("driver", "cuMemAlloc_v2", start + 10, start + 40, PID, TID, 2, 0),
        ("runtime", "cudaLaunchKernel", start + 100, start + 110, PID, TID, 3, 0),
        ("runtime", "cudaMemcpyAsync_ptsz", start + 120, start + 130, PID, TID, 4, 0),
        ("runtime", "cudaMalloc", start + 900, start + 950, PID, TID, 9, 2),
        ("osrt", "open", start + 10, start + 20, PID, TID, None, 3),
    ]
    operations = rows(
        tables, "gpu_ops", "op name start_ns end_ns correlation_id size_bytes copy_kind src_kind dst_kind"
    )
    assert operations[:5] == [
        ("kernel", "add(int, float *)", start + 105, start + 205, 3, None, None, None, None),
        ("kernel", "add", start + 210, start + 260, 5, None, None, None, None),  # the long name is missing
        ("memcpy", None, start + 300, start + 340, 4, 4096, "htod", "pageable", "device"),
        (
            "migration",
            None if is_old else "eviction",
            start + 400,
            start + 480,
            None,
            4096,
            "dtoh",
            "unknown",
            "unknown",
        ),
        ("memset", None, start + 500, start + 510, 6, 64, None, None, "device"),
    ]
    kernel = rows(
        tables, "gpu_ops", "grid block registers_per_thread static_shared_bytes local_memory_bytes stream_id"
    )[0]
    assert kernel == ("4,2,1", "128,1,1", 32, 16, 1024, 7)
    faults = [row for row in rows(tables, "gpu_ops", "op name start_ns end_ns address") if row[0] == "page_fault"]
    assert faults == [
        ("page_fault", "write", start + 410, start + 420, HIGH_POINTER + 2**64),
        ("page_fault", "main", start + 430, None, DEVICE_POINTER),
    ]
    if generation != "2022.2":
        assert rows(tables, "gpu_ops", "op graph_id start_ns")[5] == ("graph", 3, start + 520)
    assert rows(tables, "memory_events", "action ts_ns address size_bytes memory_kind correlation_id pool_id name") == [
        ("alloc", start + 55, DEVICE_POINTER, 1 << 20, "device", 1, "driver,4096", None),
        ("free", start + 700, DEVICE_POINTER, 1 << 20, "device", 10, "driver,4096", None),
        ("alloc", start + 56, HIGH_POINTER + 2**64, 16, "static", None, None, "table"),
        ("other", start + 50, None, 1 << 21, None, 1, "driver,4096", "pool_created"),
    ]
    assert rows(tables, "ranges", "range_kind name domain start_ns end_ns thread_id") == [
        ("push_pop", "request:1", "", start, start + 1000, TID),
        ("push_pop", "step", "MPI", start + 10, start + 90, TID),
        ("start_end", "open range", "", start + 20, None, TID),
        ("mark", "mark", "", start + 25, start + 25, TID),
    ]
    assert rows(tables, "ranges", "attributes")[3] == (
        '{"category":"io"}' if is_old else '{"category":"io","payload":8}',
    )
    assert rows(tables, "sync_events", "sync_kind start_ns event_id correlation_id") == [
        ("stream", start + 600, None, 8)
    ]
    assert rows(tables, "overheads", "overhead_kind start_ns end_ns")[0] == ("cupti_buffer_flush", start + 5, start + 9)
    assert rows(tables, "stack_samples", "event ts_ns thread_id cpu_index weight unit") == [
        ("cycles", start + 30, TID, 2, 2_000_000, "cycles"),
        ("cycles", start + 40, TID, 2, None, None),  # the counter was not cycles
        ("sched_in", start + 31, TID, 2, None, None),
        ("sched_out", start + 39, TID, 2, None, None),
    ]
    assert rows(tables, "processes", "process_id process_name") == [(PID, "python3")]
    assert rows(tables, "contexts", "process_id context_id device_index stream_id") == [(PID, 1, 0, 7)]
    assert rows(tables, "streams", "stream_id priority stream_flag") == [(7, 0, "null"), (13, -1, "non_blocking")]
    device = rows(tables, "devices", "process_id device_index name uuid total_bytes compute_capability")[0]
    assert device == {
        "2020.3": (PID, 0, "Tesla V100", None, 32510 << 20, "7.0"),
        "2026.1": (PID, 0, "NVIDIA H200", "GPU-99", 1 << 37, "9.0"),
    }.get(generation, (None, 0, "NVIDIA H200", "GPU-ab-cd", 1 << 37, "9.0"))
    expected = {("ranges_not_closed", "info"): 1, ("tables_left_out", "info"): 1}
    if not is_old:
        expected[("metrics_without_name", "data_loss")] = 1
    if generation > "2023":
        expected |= {("profiler_warnings", "info"): 2, ("profiler_lost_events", "data_loss"): 1}
    assert counts_of(tables) == expected


def test_stacks_of_calls_samples_and_memory_events(tmp_path: Path) -> None:
    tables = read_tables(tmp_path, tables_of_generation("2024.2"))
    frames = {row[0]: row[1:] for row in rows(tables, "frames", "frame_id function module address")}
    paths = {row[0]: [frames[n] for n in row[1]] for row in rows(tables, "call_paths", "call_path_id frame_ids")}
    main, leaf = ("main", "libtorch.so", None), ("open", "libc.so", None)
    [malloc] = [row[1] for row in rows(tables, "api_calls", "start_ns call_path_id") if row[0] == UTC]
    assert paths[malloc] == [main, leaf], "root first, modules without their folders"
    assert [row[0] for row in rows(tables, "memory_events", "call_path_id")] == [malloc, None, None, None]
    sampled = [paths[row[0]] for row in rows(tables, "stack_samples", "call_path_id") if row[0]]
    assert sampled == [
        [main, ("[unknown]", "libc.so", 0x7F11)],
        [("[Broken backtraces]", "[Broken backtraces]", None), main],
    ]


def test_metrics_in_base_units(tmp_path: Path) -> None:
    tables = read_tables(tmp_path, tables_of_generation("2024.2"))
    assert rows(tables, "metrics", "metric value unit device_index labels ts_ns") == [
        ("sms_active_ratio", 0.5, "ratio", 1, None, UTC + 60),
        ("gpc_clock_frequency_hertz", 1.98e9, "hertz", 1, None, UTC + 60),
        ("bytes_received_bytes", 900.0, "bytes", None, '{"nic":"11"}', UTC + 70),
    ]


def test_times_that_the_export_has_moved(tmp_path: Path) -> None:
    """--ts-normalize makes them UTC itself; --ts-shift is kept, for somebody wanted it, and counted."""
    changed = tables_of_generation("2024.2")
    meta = [row | {"value": "true"} if "NORMALIZE" in row["name"] else row for row in TABLES["META_DATA_EXPORT"]]
    normalized = read_tables(tmp_path, changed | {"META_DATA_EXPORT": meta})
    assert rows(normalized, "api_calls", "start_ns")[2] == (100,)
    meta = [row | {"value": "500"} if "SHIFT" in row["name"] else row for row in TABLES["META_DATA_EXPORT"]]
    shifted = read_tables(tmp_path, changed | {"META_DATA_EXPORT": meta})
    assert rows(shifted, "api_calls", "start_ns")[2] == (UTC + 100,)
    assert counts_of(shifted)[("times_shifted_by_export", "info")] == 1


def test_the_name_without_a_version_wins(tmp_path: Path) -> None:
    tables = tables_of_generation("2024.2")
    kernels = tables["CUPTI_ACTIVITY_KIND_KERNEL"]
    read = read_tables(tmp_path, tables | {"CUPTI_ACTIVITY_KIND_KERNEL_V2": kernels})
    assert sum(row[0] == "kernel" for row in rows(read, "gpu_ops", "op")) == 2
    del tables["CUPTI_ACTIVITY_KIND_KERNEL"]
    versions = {"CUPTI_ACTIVITY_KIND_KERNEL_V2": kernels[:1], "CUPTI_ACTIVITY_KIND_KERNEL_V10": kernels}
    read = read_tables(tmp_path, tables | versions)
    assert sum(row[0] == "kernel" for row in rows(read, "gpu_ops", "op")) == 2
    assert counts_of(read)[("tables_left_out", "info")] == 2  # the older version and MPI


def test_nothing_of_the_environment_comes_out(tmp_path: Path) -> None:
    """Environment, command line, output, user, host and other processes: in no table, no detail and no report."""
    for generation in GENERATIONS:
        export = write_sqlite(tmp_path / f"{generation}.sqlite", tables_of_generation(generation))
        assert CANARY.encode() in export.read_bytes()
        tables = ingest_file(export, tmp_path, IMPORTER)
        assert CANARY not in str([frame.rows() for frame in tables.values()])
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        run_command.main([str(export), "--out", str(out), "--cores", "1", "--quiet"], standalone_mode=False)
    assert ended.value.code in (0, None)
    found = [path for path in out.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any(path.name == "report.html" for path in found)
    for path in found:
        content = str(pl.read_parquet(path).rows()) if path.suffix == ".parquet" else path.read_text("latin-1")
        assert CANARY not in content, path
        assert "alice" not in content, path


def _secrets(export: Path) -> set[str]:
    """Values of the environment and arguments of the program, long enough not to stand in a table by chance."""
    found: set[str] = set()
    with closing(sqlite3.connect(f"file:{export}?immutable=1", uri=True)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_schema")}
        if "META_DATA_CAPTURE" in tables:
            query = "SELECT value FROM META_DATA_CAPTURE WHERE name GLOB '*ENVIRONMENT*' OR name GLOB '*ARGUMENT*'"
            found |= {value.partition("=")[2].strip('"') or value for (value,) in database.execute(query)}
        if "TARGET_INFO_SYSTEM_ENV" in tables:
            query = "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name IN ('DeviceEnvironment', 'Hostname')"
            for (value,) in database.execute(query):
                found |= {part.partition("=")[2] or part for part in value.split(";")}
        if "PROCESSES" in tables:
            found |= {f"/{name}" for (name,) in database.execute("SELECT DISTINCT name FROM PROCESSES") if name}
    return {value for value in found if len(value) >= 12}


@pytest.mark.skipif(not EXPORTS.exists(), reason="the corpus is not beside the checkout")
def test_the_environment_of_real_exports_does_not_come_out(tmp_path: Path) -> None:
    checked = 0
    for folder in sorted(EXPORTS.iterdir()):
        export = min(folder.rglob("*.sqlite"))
        secrets = _secrets(export)
        tables = ingest_file(export, tmp_path, IMPORTER)
        texts = [frame[c].unique() for frame in tables.values() for c in frame.columns if frame[c].dtype == pl.String]
        written = "\n".join(str(text) for column in texts for text in column)
        assert not [secret for secret in secrets if secret in written], export
        checked += len(secrets)
    assert checked > 1000


@pytest.mark.skipif(not EXPORTS.exists(), reason="the corpus is not beside the checkout")
@pytest.mark.parametrize(
    "name", ["h100_2gpu_1s@3dc0af94.sqlite", "report1@e4a326fe.sqlite", "saxpy-mpi-cuda_nsys_perlmutter0.sqlite"]
)
def test_real_files(name: str, tmp_path: Path) -> None:
    """Repacked, without its name, read twice; rows are counted by SQLite itself."""
    [export] = EXPORTS.rglob(name)
    tables = check_importer(export, tmp_path, IMPORTER)
    with closing(sqlite3.connect(f"file:{export}?immutable=1", uri=True)) as database:

        def count(table: str) -> int:
            try:
                return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
            except sqlite3.OperationalError:
                return 0

        expected = {
            "gpu_ops": sum(count(f"CUPTI_ACTIVITY_KIND_{kind}") for kind in ("KERNEL", "MEMCPY", "MEMSET")),
            "api_calls": count("CUPTI_ACTIVITY_KIND_RUNTIME") + count("OSRT_API"),
            "stack_samples": count("COMPOSITE_EVENTS") + count("SCHED_EVENTS"),
            "sync_events": count("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"),
            "overheads": count("PROFILER_OVERHEAD") + count("CUPTI_ACTIVITY_KIND_OVERHEAD"),
            "streams": count("TARGET_INFO_CUDA_STREAM"),
        }
    assert {table: len(rows(tables, table, "file_id")) for table in expected} == expected


def test_not_an_export(tmp_path: Path) -> None:
    other = write_sqlite(tmp_path / "other.sqlite", {"notes": [{"id": 1, "text": "groceries"}]})
    assert not IMPORTER.sniff(other.read_bytes()[:65536], other)
    assert not IMPORTER.sniff(b"CUPTI_ACTIVITY_KIND_KERNEL", other)
    assert not IMPORTER.sniff(b"SQLite format 3\0", tmp_path)


def test_a_damaged_schema_is_one_line(tmp_path: Path) -> None:
    export = write_sqlite(tmp_path / "export.sqlite", tables_of_generation("2024.2"))
    data = bytearray(export.read_bytes())
    data[100:4096] = b"CUPTI_ACTIVITY_KIND_".ljust(3996, b"\xff")
    export.write_bytes(data)
    with pytest.raises(BadInput) as refused:
        ingest_file(export, tmp_path, IMPORTER)
    assert "nsys export" in str(refused.value)
