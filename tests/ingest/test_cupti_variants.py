"""CUPTI dumps as other recorders and other CUPTI versions write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingest import cupti_ndjson
from ingest.cupti import IMPORTER
from ingest.cupti_loose import LooseReader
from tests.ingest.support import counts_of, ingest_file, read_into
from tests.ingest.test_cupti import BUNDLED
from tests.ingest.test_cupti_damage import CALL, HEADER, OP, ingest, write

MEMORY2: dict[str, Any] = {
    "kind": "MEMORY2",
    "memory_operation_type": 1,
    "memory_kind": 3,
    "correlation_id": 9,
    "address": (1 << 63) + 4096,
    "bytes": 1 << 20,
    "timestamp": 1796036464083414771,
    "process_id": 12,
    "device_id": 1,
    "context_id": 2,
    "stream_id": 13,
    "name": "",
    "is_async": 1,
    "memory_pool_config": {"address": 4096, "memory_pool_type": 1},
}


def header(pid: int) -> dict[str, Any]:
    return {"kind": "_HEADER", "pid": pid, "cupti_timestamp": None, "clock": None}


def test_real_records_take_the_fast_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LooseReader, "read", None)
    for path in BUNDLED:
        ingest_file(path, tmp_path, IMPORTER)


def test_both_ways_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [ingest_file(path, tmp_path, IMPORTER) for path in BUNDLED]
    monkeypatch.setattr(cupti_ndjson, "_columnar", lambda run: None)
    for path, tables in zip(BUNDLED, expected, strict=True):
        found = ingest_file(path, tmp_path, IMPORTER)
        assert found.keys() == tables.keys()
        assert all(found[name].equals(tables[name]) for name in tables)


def test_without_header_the_process_is_the_only_one(tmp_path: Path) -> None:
    sink = read_into(write(tmp_path, OP, CALL), tmp_path / "parts", IMPORTER)
    assert (sink.process_id, sink.clock) == (12, "realtime")
    tables = ingest(tmp_path, OP, CALL)
    assert tables["gpu_ops"]["process_id"].to_list() == [12]
    assert tables["processes"]["process_id"].to_list() == [12]


def test_without_header_and_several_processes(tmp_path: Path) -> None:
    tables = ingest(tmp_path, OP, CALL, CALL | {"process_id": 13})
    assert tables["gpu_ops"]["process_id"].to_list() == [None]
    assert tables["api_calls"]["process_id"].to_list() == [12, 13]
    assert counts_of(tables) == {("process_id_ambiguous", "info"): 1}


def test_several_recordings_in_one_file(tmp_path: Path) -> None:
    context = {"kind": "CONTEXT", "context_id": 1, "device_id": 0, "null_stream_id": 7, "parent_context_id": 0}
    tables = ingest(tmp_path, header(12), OP, context, context, header(13), OP, context, OP)
    assert tables["gpu_ops"].select("event_index", "process_id").rows() == [(1, 12), (5, 13), (7, 13)]
    assert tables["contexts"].select("process_id", "context_id").rows() == [(12, 1), (13, 1)]
    assert tables["processes"]["process_id"].to_list() == [12, 13]


PAIR = {"realtime": 1796036464000000000, "monotonic": 195 * 10**9}


@pytest.mark.parametrize(
    ("note", "clock"),
    [
        ({"clock_name": "monotonic"}, "monotonic"),
        (
            {"clock": PAIR, "cupti_timestamp": 196 * 10**9},
            "monotonic",
        ),
        ({"clock": PAIR, "cupti_timestamp": 7}, "realtime"),
        ({"clock": {"realtime": 1796036464000000000}, "cupti_timestamp": 1796036464002000000}, "realtime"),
        ({}, "realtime"),
    ],
)
def test_the_clock(note: dict[str, Any], clock: str, tmp_path: Path) -> None:
    sink = read_into(write(tmp_path, header(12) | note, CALL), tmp_path / "parts", IMPORTER)
    assert sink.clock == clock


def test_small_timestamps_without_a_header_are_of_an_unknown_clock(tmp_path: Path) -> None:
    sink = read_into(write(tmp_path, CALL | {"start": 5, "end": 6}), tmp_path / "parts", IMPORTER)
    assert sink.clock == "unknown"


def test_footer(tmp_path: Path) -> None:
    footer = {"kind": "_FOOTER", "dropped_records": 17, "clock": {"realtime": 1796036465000000000, "monotonic": 5}}
    tables = ingest(tmp_path, HEADER, CALL, footer)
    assert counts_of(tables) == {("cupti_dropped_records", "data_loss"): 17}
    assert tables["clock_pairs"]["clock_position"].to_list() == ["start", "end"]


def test_memory_pool_and_addresses_beyond_63_bits(tmp_path: Path) -> None:
    pool = {"kind": "MEMORY_POOL", "memory_pool_operation_type": 1, "address": 4096, "size_": 99, "timestamp": 5}
    rows = ingest(tmp_path, HEADER, pool, MEMORY2, MEMORY2 | {"memory_operation_type": 2})["memory_events"]
    assert rows.select("action", "address", "size_bytes", "pool_id", "stream_id", "device_index").rows() == [
        ("other", None, 99, "driver,4096", None, None),
        ("alloc", (1 << 63) + 4096, 1 << 20, "driver,4096", 13, 1),
        ("free", (1 << 63) + 4096, 1 << 20, "driver,4096", 13, 1),
    ]
    assert rows["name"].to_list() == ["pool_created", None, None]


def test_memory_records_of_older_cupti(tmp_path: Path) -> None:
    old = {"kind": "MEMORY", "memory_kind": 2, "address": 4096, "bytes": 64, "start": 5, "end": 9, "process_id": 12}
    tables = ingest(tmp_path, HEADER, old, old | {"address": 8192, "end": 0})
    columns = ("action", "ts_ns", "address", "size_bytes", "memory_kind", "process_id")
    assert sorted(tables["memory_events"].select(columns).rows()) == [
        ("alloc", 5, 4096, 64, "pinned", 12),
        ("alloc", 5, 8192, 64, "pinned", 12),
        ("free", 9, 4096, 64, "pinned", 12),
    ]
    both = ingest(tmp_path, HEADER, old, MEMORY2, old)
    assert both["memory_events"]["address"].to_list() == [(1 << 63) + 4096]
    assert counts_of(both) == {("memory_records_superseded", "info"): 2}


def test_unknown_kinds_keys_and_values(tmp_path: Path) -> None:
    tables = ingest(
        tmp_path,
        HEADER,
        CALL | {"brand_new": 1},
        {"kind": "MARKER_DATA", "id": 1},
        {"kind": "NAME", "name": "x"},
        {"kind": "TELEPORT", "id": 1},
        {"kind": "OVERHEAD", "overhead_kind": 99, "start": 1, "end": 2},
        {"kind": "SYNCHRONIZATION", "type": 77, "start": 1, "end": 2},
    )
    assert counts_of(tables) == {
        ("unused_kinds", "info"): 2,
        ("unknown_kinds", "info"): 1,
        ("unknown_keys", "info"): 1,
        ("unknown_enum_values", "info"): 2,
    }
    details = dict(tables["diagnostics"].select("name", "detail").iter_rows())
    assert details["unused_kinds"] == "MARKER_DATA 1, NAME 1"
    assert details["unknown_keys"] == "RUNTIME.brand_new"
    assert details["unknown_enum_values"] == "OVERHEAD.overhead_kind = 99"
    assert tables["overheads"]["overhead_kind"].to_list() == ["unknown"]
    assert tables["sync_events"]["sync_kind"].to_list() == ["unknown"]


@pytest.mark.parametrize("kind", [5, "5", "CUPTI_ACTIVITY_KIND_RUNTIME", "ActivityKind.RUNTIME"])
def test_other_spellings_of_a_kind(kind: object, tmp_path: Path) -> None:
    tables = ingest(tmp_path, CALL | {"kind": kind})
    assert tables["api_calls"].select("api", "name").rows() == [("runtime", "cudaMalloc")]


def test_enumerations_by_name(tmp_path: Path) -> None:
    words = {"memory_kind": "MANAGED_STATIC", "memory_operation_type": "RELEASE"}
    rows = ingest(tmp_path, HEADER, MEMORY2 | words)["memory_events"]
    assert rows.select("memory_kind", "action").rows() == [("static", "free")]


def test_call_names(tmp_path: Path) -> None:
    driver = CALL | {"kind": "DRIVER", "cbid": 243}
    names = ["cuMemAlloc_v2", "cudaMallocAsync_ptsz_v11020", "cuMemFree_v2_v10000", None, ""]
    rows = ingest(tmp_path, HEADER, *(driver | {"name": name} for name in names))["api_calls"]
    assert rows["name"].to_list() == [
        "cuMemAlloc_v2",
        "cudaMallocAsync_ptsz",
        "cuMemFree_v2",
        "driver_cbid_243",
        "driver_cbid_243",
    ]
    assert rows["api"].unique().to_list() == ["driver"]


def test_times_that_were_not_collected_are_null(tmp_path: Path) -> None:
    rows = ingest(tmp_path, HEADER, CALL | {"start": 0, "end": 0})["api_calls"]
    assert rows.select("start_ns", "end_ns").rows() == [(None, None)]


def test_graphs_peer_copies_and_priorities(tmp_path: Path) -> None:
    graph = {"kind": "GRAPH_TRACE", "start": 5, "end": 9, "graph_id": 3, "correlation_id": 1, "device_id": 0}
    peer = {"kind": "MEMCPY2", "start": 5, "end": 9, "copy_kind": 10, "src_kind": 3, "dst_kind": 3, "bytes": 8}
    stream = {"kind": "STREAM", "context_id": 1, "stream_id": 14, "priority": 0xFFFFFFFB, "flag": 2}
    node = OP | {"graph_id": 3, "graph_node_id": (3 << 32) + 1}
    tables = ingest(tmp_path, HEADER, graph, peer, stream, stream, node, OP | {"graph_id": 0, "graph_node_id": 0})
    assert tables["gpu_ops"].select("op", "copy_kind", "graph_id", "graph_node_id").rows() == [
        ("graph", None, 3, None),
        ("memcpy", "ptop", None, None),
        ("memset", None, 3, (3 << 32) + 1),
        ("memset", None, None, None),
    ]
    assert tables["streams"].select("stream_id", "priority", "stream_flag").rows() == [(14, -5, "non_blocking")]


def test_long_names_are_cut(tmp_path: Path) -> None:
    names = ingest(tmp_path, HEADER, CALL | {"name": "x" * 100_000})["api_calls"]["name"]
    assert names.str.len_chars().to_list() == [4096]


def test_batches_are_in_the_files_order(tmp_path: Path) -> None:
    rows = ingest(tmp_path, HEADER, *[OP, CALL, CALL | {"kind": "DRIVER"}] * 3)["api_calls"]
    assert rows.select("event_index", "api").rows() == [
        (index, "driver" if index % 3 == 0 else "runtime") for index in (2, 3, 5, 6, 8, 9)
    ]
    assert rows["start_ns"].dtype == pl.Int64


def test_unified_memory(tmp_path: Path) -> None:
    """Migrations by direction and cause, faults by access; a CPU's faults are on no device."""
    counter = {"kind": "UNIFIED_MEMORY_COUNTER", "start": 10, "end": 20, "address": 4096, "process_id": 12}
    tables = ingest(
        tmp_path,
        counter | {"counter_kind": 1, "value": 65536, "src_id": 0xFFFFFFFF, "dst_id": 1, "flags_": 3},
        counter | {"counter_kind": 2, "value": 4096, "src_id": 1, "dst_id": 0xFFFFFFFF, "flags_": 1},
        counter | {"counter_kind": 3, "value": 93824992, "src_id": 0xFFFFFFFF, "dst_id": 0, "flags_": 2, "end": 0},
        counter | {"counter_kind": 4, "value": 7, "src_id": 1, "dst_id": 0, "flags_": 1},
        counter | {"counter_kind": 7, "value": 1, "src_id": 1, "dst_id": 0, "flags_": 0},
    )
    columns = ("op", "name", "device_index", "size_bytes", "copy_kind", "address", "end_ns", "process_id")
    assert tables["gpu_ops"].sort("event_index").select(columns).rows() == [
        ("migration", "prefetch", 1, 65536, "htod", 4096, 20, 12),
        ("migration", "user", 1, 4096, "dtoh", 4096, 20, 12),
        ("page_fault", "write", None, None, None, 4096, None, 12),
        ("page_fault", "read", 1, None, None, 4096, 20, 12),
        (None, "remote_map", 1, None, None, 4096, 20, 12),
    ]
