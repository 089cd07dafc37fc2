"""CUPTI dumps against an independent loop over the lines with Python's own json."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingest.cupti import IMPORTER
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file, read_into

DATA = Path(__file__).parents[1] / "data" / "cupti"
BUNDLED = sorted(DATA.glob("*.jsonl.gz"))
REAL = sorted((SHARED / "captures").glob("*/cupti.jsonl*"))
NONE = 0xFFFFFFFF
LARGE_BYTES = 3 << 20


def records_of(path: Path, having: bytes = b"") -> list[dict[str, Any]]:
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
    return [json.loads(line) for line in lines if having in line]


def by_kind(records: list[dict[str, Any]]) -> dict[str, list[tuple[int, dict[str, Any]]]]:
    found: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for index, record in enumerate(records):
        found.setdefault(record["kind"], []).append((index, record))
    return found


def open_and_closed(records: list[dict[str, Any]]) -> list[tuple[str, int, int, int]]:
    """(name, thread, start, end) of push/pop ranges by a stack a thread, in the order of time, ids left aside."""
    stacks: dict[int, list[tuple[str, int]]] = {}
    ranges = []
    markers = [record for record in records if record["kind"] == "MARKER"]
    for marker in sorted(markers, key=lambda record: record["timestamp"]):
        thread = marker["object_id"]["thread_id"]
        stack = stacks.setdefault(thread, [])
        if marker["flags_"] & 2:
            stack.append((marker["name"], marker["timestamp"]))
        elif marker["flags_"] & 4:
            name, start = stack.pop()
            ranges.append((name, thread, start, marker["timestamp"]))
    return sorted(ranges, key=lambda row: (row[2], -row[3]))


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
def test_real_piece(path: Path, tmp_path: Path) -> None:
    check_importer(path, tmp_path, IMPORTER, golden=DATA / "golden" / f"{path.name.split('.')[0]}.txt")


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.parent.name)
def test_counts_and_sums(path: Path, tmp_path: Path) -> None:
    """Every record of every kind is there, the largest dump included."""
    counts: Counter[str] = Counter()
    nanoseconds: Counter[str] = Counter()
    allocated = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        for line in stream:
            record = json.loads(line)
            counts[record["kind"]] += 1
            nanoseconds[record["kind"]] += record.get("end", 0) - record.get("start", 0)
            allocated += record["bytes"] if record["kind"] == "MEMORY2" else 0
    tables = ingest_file(path, tmp_path, IMPORTER)
    for table, kinds in {
        "api_calls": ("RUNTIME", "DRIVER"),
        "gpu_ops": ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET"),
        "sync_events": ("SYNCHRONIZATION",),
        "overheads": ("OVERHEAD",),
        "external_correlations": ("EXTERNAL_CORRELATION",),
        "memory_events": ("MEMORY2",),
    }.items():
        height = tables[table].height if table in tables else 0
        assert height == sum(counts[kind] for kind in kinds), table
        if height and "start_ns" in tables[table].columns:
            assert tables[table].select((pl.col("end_ns") - pl.col("start_ns")).sum()).item() == sum(
                nanoseconds[kind] for kind in kinds
            ), table
    assert tables["memory_events"]["size_bytes"].sum() == allocated


@pytest.mark.parametrize("path", BUNDLED + REAL, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_rows_are_the_records(path: Path, tmp_path: Path) -> None:
    if path.stat().st_size > LARGE_BYTES:
        pytest.skip("too large to hold as Python objects; its counts and sums are compared above")
    records = records_of(path)
    kinds, tables = by_kind(records), ingest_file(path, tmp_path, IMPORTER)
    pid = records[0]["pid"]

    calls = kinds.get("RUNTIME", []) + kinds.get("DRIVER", [])
    assert _rows(
        tables, "api_calls", "event_index start_ns end_ns process_id thread_id correlation_id return_code"
    ) == {
        (i, r["start"], r["end"], r["process_id"], r["thread_id"], r["correlation_id"], r["return_value"])
        for i, r in calls
    }
    names = Counter(r["name"].rsplit("_v", 1)[0] for _, r in calls)
    assert dict(tables["api_calls"]["name"].value_counts().iter_rows()) == names

    columns = "event_index name start_ns end_ns process_id device_index context_id stream_id correlation_id grid block"
    kernels = _rows(tables, "gpu_ops", columns + " dynamic_shared_bytes", pl.col("op") == "kernel")
    keys = ("name", "start", "end", "pid", "device_id", "context_id", "stream_id", "correlation_id")
    assert kernels == {
        (
            i,
            *(r[key] if key != "pid" else pid for key in keys),
            f"{r['grid_x']},{r['grid_y']},{r['grid_z']}",
            f"{r['block_x']},{r['block_y']},{r['block_z']}",
            r["dynamic_shared_memory"],
        )
        for i, r in kinds.get("CONCURRENT_KERNEL", [])
    }
    copies = _rows(tables, "gpu_ops", "event_index size_bytes copy_kind src_kind dst_kind", pl.col("op") == "memcpy")
    direction = {1: "htod", 2: "dtoh", 8: "dtod"}
    kind_of = {0: "unknown", 1: "pageable", 2: "pinned", 3: "device", 6: "static", 7: "static"}
    assert copies == {
        (i, r["bytes"], direction[r["copy_kind"]], kind_of[r["src_kind"]], kind_of[r["dst_kind"]])
        for i, r in kinds.get("MEMCPY", [])
    }
    columns = "event_index action ts_ns process_id device_index address size_bytes memory_kind stream_id context_id"
    assert _rows(tables, "memory_events", columns + " correlation_id") == {
        (
            i,
            {1: "alloc", 2: "free"}[r["memory_operation_type"]],
            *(r[key] for key in ("timestamp", "process_id", "device_id", "address", "bytes")),
            kind_of[r["memory_kind"]],
            *(None if r[key] in (0, NONE) else r[key] for key in ("stream_id", "context_id", "correlation_id")),
        )
        for i, r in kinds.get("MEMORY2", [])
    }
    assert _rows(tables, "external_correlations", "event_index correlation_id external_id") == {
        (i, r["correlation_id"], r["external_id"]) for i, r in kinds.get("EXTERNAL_CORRELATION", [])
    }
    assert _rows(tables, "sync_events", "event_index start_ns end_ns context_id") == {
        (i, r["start"], r["end"], r["context_id"]) for i, r in kinds.get("SYNCHRONIZATION", [])
    }
    assert _rows(tables, "overheads", "event_index start_ns end_ns process_id thread_id") == {
        (i, r["start"], r["end"], r["object_id"]["process_id"], r["object_id"]["thread_id"])
        for i, r in kinds.get("OVERHEAD", [])
    }
    assert tables["streams"].height == len({(r["context_id"], r["stream_id"]) for _, r in kinds["STREAM"]})
    assert tables["contexts"].select("context_id", "device_index", "stream_id").rows() == [(1, 0, 7)]
    device = ("NVIDIA H200", kinds["DEVICE"][0][1]["global_memory_size"], "9.0", 132)
    found = tables["devices"].select("name", "total_bytes", "compute_capability", "multiprocessor_count").rows()
    assert found == [device]
    assert counts_of(tables) == {}


@pytest.mark.parametrize("path", BUNDLED + REAL, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_ranges_are_what_a_stack_finds(path: Path, tmp_path: Path) -> None:
    expected = open_and_closed(records_of(path, b'"MARKER"'))
    tables = ingest_file(path, tmp_path, IMPORTER)
    found = tables["ranges"] if expected else pl.DataFrame(schema=["name", "thread_id", "start_ns", "end_ns"])
    rows = found.select("name", "thread_id", "start_ns", "end_ns").rows()
    assert sorted(rows, key=lambda row: (row[2], -row[3])) == expected


def test_header_gives_process_and_clock(tmp_path: Path) -> None:
    path = BUNDLED[0]
    header = records_of(path)[0]
    sink = read_into(path, tmp_path, IMPORTER)
    assert (sink.clock, sink.process_id) == ("realtime", header["pid"])
    assert [pair.monotonic_ns for pair in sink.clock_pairs] == [header["clock"]["monotonic"]]
    assert sink.clock_pairs[0].clock_position == "start"


@pytest.mark.parametrize("name", ["requests.jsonl", "kv_events.jsonl", "metrics.prom", "nvml.csv", "bpftrace.txt"])
def test_other_files_are_not_taken(name: str) -> None:
    for path in (SHARED / "captures").glob(f"*/{name}"):
        assert not IMPORTER.sniff(path.read_bytes()[:65536], path)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b'{"kind":"MARKER"}\n',
        b'{"kind":"_HEADER","title":"something else"}\n',
        b'{"kind":"page","id":1,"name":"x"}\n',
        b'[{"kind":"RUNTIME","start":1,"end":2,"cbid":3}]\n',
        b"\xff\xff\xff\xff\x10\x00\x00\x00some other arrow stream",
        bytes(range(256)) * 8,
    ],
)
def test_lookalikes_are_not_taken(text: bytes) -> None:
    assert not IMPORTER.sniff(text, Path("cupti.jsonl"))


def _rows(tables: dict[str, pl.DataFrame], table: str, columns: str, keep: Any = True) -> set[tuple[Any, ...]]:
    if table not in tables:
        return set()
    return set(tables[table].filter(keep).select(columns.split()).rows())
