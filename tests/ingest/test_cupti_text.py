"""Text of CUPTI's samples: the same tables as NDJSON of the same records, in the printed forms of all versions."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.cupti import IMPORTER as NDJSON
from ingest.cupti_text import IMPORTER
from ingest.errors import BadInput
from tests.ingest.support import check_importer, counts_of, ingest_file
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, data_loss, read_text, rows_of

DATA = Path(__file__).parents[1] / "data"
SAMPLES = DATA / "cupti_text"
Record = dict[str, Any]

COPIES = ["UNKNOWN", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"]
MEMORY = ["UNKNOWN", "PAGEABLE", "PINNED", "DEVICE", "ARRAY", "MANAGED", "DEVICE_STATIC", "MANAGED_STATIC"]
SYNCS = ["UNKNOWN", "EVENT_SYNCHRONIZE", "STREAM_WAIT_EVENT", "STREAM_SYNCHRONIZE", "CONTEXT_SYNCHRONIZE"]
STREAMS = ["UNKNOWN", "DEFAULT_STREAM", "NON_BLOCKING_STREAM", "NULL_STREAM"]
EXTERNAL = ["INVALID", "UNKNOWN", "OPENACC", "CUSTOM0", "CUSTOM1", "CUSTOM2"]
OVERHEADS = {1: "DRIVER_COMPILER", 1 << 16: "CUPTI_BUFFER_FLUSH", 2 << 16: "CUPTI_INSTRUMENTATION"}
OVERHEADS |= {3 << 16: "CUPTI_RESOURCE", 5 << 16: "LAZY_FUNCTION_LOADING", 6 << 16: "COMMAND_BUFFER_FULL"}
OVERHEADS |= {4 << 16: "RUNTIME_TRIGGERED_MODULE_LOADING", 7 << 16: "ACTIVITY_BUFFER_REQUEST"}


def as_int32(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


def told(*names: str) -> Callable[[Record], Record]:
    """Only those attributes: the ones that a sample prints."""
    return lambda record: {"kind": record["kind"]} | {name: record[name] for name in names if name in record}


SPAN = "[ {start}, {end} ] duration 5"
PLACE = "deviceId {device_id}, contextId {context_id}, streamId {stream_id}"
GRAPH = ", graphId {graph_id}, graphNodeId {graph_node_id}, channelId 1, channelType COMPUTE"
SHAPE = "grid [ {grid_x}, {grid_y}, {grid_z} ], block [ {block_x}, {block_y}, {block_z} ], cluster [ 0, 0, 0 ]"
API = "RUNTIME " + SPAN + ', "{name}", cbid {cbid}, processId {process_id}, threadId {thread_id}, '
OP = ("start", "end", "correlation_id", "device_id", "context_id", "stream_id", "graph_id", "graph_node_id")
DIMENSIONS = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")

FORMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "RUNTIME": (
        API + "correlationId {correlation_id}",
        ("start", "end", "name", "cbid", "process_id", "thread_id", "correlation_id"),
    ),
    "MEMCPY": (
        'MEMCPY "{copy}" ' + SPAN + ", size {bytes}, copyCount 1, srcKind {src}, dstKind {dst}, "
        "correlationId {correlation_id}\n\t" + PLACE + GRAPH,
        (*OP, "bytes", "copy_kind", "src_kind", "dst_kind"),
    ),
    "MEMSET": (
        "MEMSET " + SPAN + ", value 0, size {bytes}, correlationId {correlation_id}\n\t" + PLACE + GRAPH,
        (*OP, "bytes"),
    ),
    "CONCURRENT_KERNEL": (
        "CONCURRENT_KERNEL " + SPAN + ', "{name}", correlationId {correlation_id}, cacheConfigRequested 0, '
        "cacheConfigExecuted 0\n\t" + SHAPE + ", sharedMemory (static {static_shared_memory}, dynamic "
        "{dynamic_shared_memory})\n\t" + PLACE + GRAPH,
        (*OP, *DIMENSIONS, "name", "static_shared_memory", "dynamic_shared_memory"),
    ),
    "MEMORY2": (
        "MEMORY2 [ {timestamp} ] memoryOperationType {operation}, memoryKind {memory}, size {bytes}, "
        "address {address}, pc 0,\n  "
        + PLACE
        + ", processId {process_id}, correlationId {correlation_id}, isAsync 0,\n  "
        "memoryPool INVALID, memoryPoolAddress {pool},  memoryPoolThreshold 0\n  source (null)\n",
        (
            *("timestamp", "memory_operation_type", "memory_kind", "bytes", "address", "device_id", "context_id"),
            *("stream_id", "process_id", "correlation_id", "memory_pool_config"),
        ),
    ),
    "SYNCHRONIZATION": (
        "SYNCHRONIZATION " + SPAN + ", type {sync}, contextId {context_id}, streamId {stream}, "
        "correlationId {correlation_id}, eventId {event}, cudaEventSyncId 0",
        ("start", "end", "type", "context_id", "stream_id", "correlation_id", "cuda_event_id"),
    ),
    "EXTERNAL_CORRELATION": (
        "EXTERNAL_CORRELATION externalKind {external}, correlationId {correlation_id}, externalId {external_id}",
        ("external_kind", "correlation_id", "external_id"),
    ),
    "STREAM": (
        "STREAM type {stream_flag}, priority {priority}, contextId {context_id}, streamId {stream_id}, "
        "correlationId {correlation_id}",
        ("flag", "priority", "context_id", "stream_id", "correlation_id"),
    ),
    "CONTEXT": (
        "CONTEXT computeApiKind CUDA, contextId {context_id}, deviceId {device_id}, nullStreamId {null_stream_id}, "
        "CIG mode 0",
        ("context_id", "device_id", "null_stream_id"),
    ),
    "DEVICE": ("DEVICE {name} [ {id} ]", ("name", "id")),
    "OVERHEAD": (
        "OVERHEAD {overhead} " + SPAN + ", THREAD, id {thread}, correlation id 0",
        ("start", "end", "overhead_kind", "object_kind", "object_id"),
    ),
}


def printed(record: Record) -> str:
    """The record as helper_cupti_activity.h of CUDA 13 prints it."""
    form, _ = FORMS[record["kind"]]
    words = {
        "copy": COPIES[record.get("copy_kind", 0)],
        "src": MEMORY[record.get("src_kind", 0)],
        "dst": MEMORY[record.get("dst_kind", 0)],
        "memory": MEMORY[record.get("memory_kind", 0)],
        "operation": ["INVALID", "ALLOCATE", "RELEASE"][record.get("memory_operation_type", 0)],
        "pool": record.get("memory_pool_config", {}).get("address"),
        "sync": SYNCS[record.get("type", 0)],
        "stream": as_int32(record.get("stream_id", 0)),
        "event": as_int32(record.get("cuda_event_id", 0)),
        "external": EXTERNAL[record.get("external_kind", 0)],
        "stream_flag": STREAMS[record.get("flag", 0)],
        "overhead": OVERHEADS.get(record.get("overhead_kind", 0), "<unknown>"),
        "thread": record.get("object_id", {}).get("thread_id"),
    }
    return form.format(**record, **words) + "\n"


def both(records: list[Record], tmp_path: Path) -> None:
    """The text of the records gives the tables of their NDJSON."""
    lines, dump = [], []
    for record in records:
        lines.append(printed(record))
        dump.append(json.dumps(told(*FORMS[record["kind"]][1])(record)))
    from_text = read_text("".join(lines), tmp_path, IMPORTER)
    from_json = read_text("\n".join(dump) + "\n", tmp_path, NDJSON)
    assert from_text.keys() == from_json.keys()
    for table in from_text.keys() - {"diagnostics"}:
        first, second = (tables[table].drop("event_index", strict=False) for tables in (from_text, from_json))
        assert first.equals(second), table


@pytest.mark.parametrize("name", ["expandable", "frag"])
def test_tables_of_the_same_records_as_json(name: str, tmp_path: Path) -> None:
    with gzip.open(DATA / "cupti" / f"{name}.jsonl.gz", "rt") as stream:
        records = [record for record in map(json.loads, stream) if record["kind"] in FORMS]
    assert len(records) > 90
    both(records, tmp_path)


PRINTED = ("activity_trace_async.txt.gz", "cuda_graphs_trace.txt", "cuda_memory_trace.txt")


@pytest.mark.parametrize("name", [*PRINTED, "cupti_external_correlation.txt"])
def test_real_output_of_the_samples(name: str, tmp_path: Path) -> None:
    """Rows a table are counted in the text by the kinds' words; every pid and no damage."""
    path = SAMPLES / name
    tables = check_importer(path, tmp_path, IMPORTER, golden=SAMPLES / "golden" / f"{name}.golden")
    text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    kinds = Counter(re.findall(r"^([A-Z][A-Z_0-9]+)(?= |:)", text, re.M))
    rows = {name: frame.height for name, frame in tables.items()}
    assert rows.get("api_calls", 0) == kinds["RUNTIME"] + kinds["DRIVER"]
    assert rows.get("gpu_ops", 0) == kinds["MEMCPY"] + kinds["MEMSET"] + kinds["CONCURRENT_KERNEL"]
    assert rows.get("memory_events", 0) == kinds["MEMORY2"] + kinds["MEMORY_POOL"]
    assert rows.get("external_correlations", 0) == kinds["EXTERNAL_CORRELATION"]
    assert rows.get("overheads", 0) == kinds["OVERHEAD"]
    assert {name for name, _ in counts_of(tables)} == {"text_lines"}
    pids = {int(pid) for pid in re.findall(r"processId (\d+)", text)}
    for frame in (tables[table] for table in tables if "process_id" in tables[table].columns):
        assert set(frame["process_id"]) == pids


def test_memory_of_a_sample_read_by_eye(tmp_path: Path) -> None:
    rows = rows_of(
        ingest_file(SAMPLES / "cuda_memory_trace.txt", tmp_path, IMPORTER),
        "memory_events",
        ("action", "name", "memory_kind", "size_bytes", "stream_id", "pool_id", "correlation_id"),
    )
    assert rows[2] == ("alloc", None, "device", 4194304, None, None, 3)
    assert rows[8] == ("other", "pool_created", None, 33554432, None, "driver,12918456320", 5)
    assert rows[10] == ("alloc", None, "device", 4194304, 13, "driver,12918456320", 6)
    assert [row[0] for row in rows].count("free") == 7


OLD = """\
DEVICE Tesla K20c (0), capability 3.5, global memory (bandwidth 203 GB/s, size 4799 MB), multiprocessors 13, \
clock 705 MHz
DEVICE_ATTRIBUTE 3, device 0, value=0x7fffffff
CONTEXT 1, device 0, compute API CUDA, NULL stream 7
DRIVER cbid=8 [ 18446744073709550000 - 20 ] process 42, thread 9, correlation 1
RUNTIME cbid=20 [ 1000 - 2500 ] process 42, thread 9, correlation 2
MEMCPY HtoD [ 3000 - 3700 ] device 0, context 1, stream 7, correlation 3/r4
MEMSET value=0 [ 3800 - 3900 ] device 0, context 1, stream 7, correlation 5
CONC KERNEL "void add<int, 3>(int*, char)" [ 4000 - 4500 ] device 0, context 1, stream 7, correlation 6
    grid [8,2,1], block [256,1,1], shared memory (static 16, dynamic 32)
KERNEL "k" [ 5000 - 5100 ] device 0, context 1, stream 7, correlation 7, graph ID 3, graph node ID 12
    grid [1,1,1], block [32,1,1], shared memory (static 0, dynamic 0)
MARKER id 1 [ 100 ], name step, with, commas, domain app
MARKER id 1 [ 900 ], name (null), domain (null)
OVERHEAD COMPILER [ 10, 20 ] THREAD id 9
OVERHEAD BUFFER_FLUSH [ 30, 60 ] PROCESS id 42
  MEMORY2 [ 70 ] memoryOperationType ALLOCATE, address 4096, size 512, pc 0, memoryKind DEVICE, devId 0, ctxId 1, \
procId 42, corrId 8, streamId 13, isAsync 1, memoryPoolType LOCAL, memoryPoolAddress 8192, memoryPoolThreshold 0, \
memoryPoolSize: 512, memoryPoolUtilizedSize: 512
  MEMORY_POOL [ 71 ] memoryPoolOperationType MEM_POOL_TRIMMED, memoryPoolType LOCAL, address 8192, size 64, \
utilizedSize 0, devId 0, procId 42, corrId 9, releaseThreshold 0
NAME STREAM 13 CONTEXT 1 DEVICE id 0, name copies
UNIFIED_MEMORY_COUNTER [ 90 95 ] kind=BYTES_TRANSFER_HTOD value=4096 src 0 dst 1
Dropped 17 activity records
"""


def test_older_samples(tmp_path: Path) -> None:
    tables = read_text(OLD, tmp_path, IMPORTER)
    device = ("device_index", "name", "compute_capability", "multiprocessor_count", "total_bytes")
    assert tables["devices"].select(device).rows() == [(0, "Tesla K20c", "3.5", 13, None)]
    context = ("process_id", "context_id", "device_index", "stream_id")
    assert tables["contexts"].select(context).rows() == [(42, 1, 0, 7)]
    calls = ("api", "name", "start_ns", "end_ns", "thread_id", "correlation_id")
    assert rows_of(tables, "api_calls", calls) == [
        ("driver", "driver_cbid_8", None, 20, 9, 1),
        ("runtime", "runtime_cbid_20", 1000, 2500, 9, 2),
    ]
    ops = ("op", "name", "start_ns", "copy_kind", "stream_id", "correlation_id", "grid", "block", "graph_id")
    assert rows_of(tables, "gpu_ops", (*ops, "graph_node_id", "static_shared_bytes", "dynamic_shared_bytes")) == [
        ("memcpy", None, 3000, "htod", 7, 3, None, None, None, None, None, None),
        ("memset", None, 3800, None, 7, 5, None, None, None, None, None, None),
        ("kernel", "void add<int, 3>(int*, char)", 4000, None, 7, 6, "8,2,1", "256,1,1", None, None, 16, 32),
        ("kernel", "k", 5000, None, 7, 7, "1,1,1", "32,1,1", 3, 12, 0, 0),
        ("migration", None, 90, "htod", None, None, None, None, None, None, None, None),
    ]
    ranges = ("name", "domain", "start_ns", "end_ns", "process_id")
    assert rows_of(tables, "ranges", ranges) == [("step, with, commas", "app", 100, 900, 42)]
    overheads = ("overhead_kind", "start_ns", "end_ns", "thread_id", "process_id")
    assert rows_of(tables, "overheads", overheads) == [
        ("driver_compiler", 10, 20, 9, 42),
        ("cupti_buffer_flush", 30, 60, None, 42),
    ]
    memory = ("action", "name", "address", "size_bytes", "memory_kind", "stream_id", "pool_id", "correlation_id")
    assert rows_of(tables, "memory_events", memory) == [
        ("alloc", None, 4096, 512, "device", 13, "driver,8192", 8),
        ("other", "pool_trimmed", None, 64, None, None, "driver,8192", 9),
    ]
    counts = counts_of(tables)
    assert counts[("cupti_dropped_records", "data_loss")] == 17
    assert counts[("times_before_the_start", "data_loss")] == 1
    assert counts[("unused_kinds", "info")] == 2


def test_unified_memory(tmp_path: Path) -> None:
    """The sample's 64 KiB go there and back in two pieces; addresses are printed without 0x."""
    rows = rows_of(
        ingest_file(SAMPLES / "unified_memory.txt", tmp_path, IMPORTER),
        "gpu_ops",
        ("op", "copy_kind", "size_bytes", "address", "process_id"),
    )
    assert rows == [
        ("migration", "htod", 4096, 0x7F1714000000, 1303),
        ("migration", "htod", 61440, 0x7F1714001000, 1303),
        ("migration", "dtoh", 4096, 0x7F1714000000, 1303),
        ("migration", "dtoh", 61440, 0x7F1714001000, 1303),
    ]


OTHERS = """\
RUNTIME [ 5, 9 ] duration 4, "cudaGraphLaunch_v10000", cbid 311, processId 1435, threadId 29, correlationId 5
GRAPH_TRACE [ 10, 20 ] duration 10, correlationId 5
 deviceId 0, contextId 1, streamId 7, graphId 3
MEMORY [ 100, 900 ] duration 800, size 4096 bytes, address 81920, memoryKind DEVICE, deviceId 0, contextId 1, \
processId 1435
MEMCPY2 "PtoP" [ 30, 40 ] duration 10, size 64, srcKind DEVICE, dstKind DEVICE, correlationId 6,
\tdeviceId 0, contextId 1, streamId 7, graphId 0, graphNodeId 0, channelId 3, channelType ASYNC_MEMCPY
\tsrcDeviceId 0, srcContextId 1, dstDeviceId 1, dstContextId 2
CDP_KERNEL [ 50, 60 ] duration 10, "child(int, char*)", deviceId 0, contextId 1, streamId 7, gridId -3, correlationId 8,
\tgrid [ 1, 2, 3 ], block [ 4, 5, 6 ], registersPerThread 32, sharedMemory (static 1, dynamic 2), parentGridId 7
SYNCHRONIZATION [ 70, 80 ] duration 10, type STREAM_SYNCHRONIZE, contextId 1, streamId -1, correlationId 9, eventId 4
JIT [ 1, 2 ] duration 1, deviceId 0, correlationId 4, processId 1435, threadId 29
"""


def test_kinds_that_no_recorded_sample_has(tmp_path: Path) -> None:
    tables = read_text(OTHERS, tmp_path, IMPORTER)
    ops = (
        "op",
        "name",
        "start_ns",
        "end_ns",
        "process_id",
        "correlation_id",
        "size_bytes",
        "copy_kind",
        "grid",
        "block",
    )
    assert rows_of(tables, "gpu_ops", (*ops, "graph_id", "registers_per_thread")) == [
        ("graph", None, 10, 20, 1435, 5, None, None, None, None, 3, None),
        ("memcpy", None, 30, 40, 1435, 6, 64, "ptop", None, None, None, None),
        ("kernel", "child(int, char*)", 50, 60, 1435, 8, None, None, "1,2,3", "4,5,6", None, 32),
    ]
    memory = ("action", "ts_ns", "address", "size_bytes", "memory_kind")
    assert rows_of(tables, "memory_events", memory) == [
        ("alloc", 100, 81920, 4096, "device"),
        ("free", 900, 81920, 4096, "device"),
    ]
    syncs = ("sync_kind", "start_ns", "end_ns", "stream_id", "event_id", "correlation_id")
    assert rows_of(tables, "sync_events", syncs) == [("stream", 70, 80, None, 4, 9)]
    assert counts_of(tables) == {("unused_kinds", "info"): 1}


def test_clock_is_realtime_only_where_the_times_can_be(tmp_path: Path) -> None:
    from tests.ingest.support import read_into

    for stamp, clock in ((1796059869182409596, "realtime"), (5000, "unknown")):
        path, parts = tmp_path / f"{stamp}.txt", tmp_path / f"parts_{stamp}"
        path.write_text(
            f'DRIVER [ {stamp}, {stamp + 9} ] duration 9, "f", cbid 1, processId 3, threadId 4, correlationId 5\n'
        )
        parts.mkdir()
        assert read_into(path, parts, IMPORTER).clock == clock


def test_markers_and_words_nobody_knows(tmp_path: Path) -> None:
    text = (
        "MARKER [ 10 ] id 4, domain <default domain>, name a, name b\n"
        "MARKER [ 30 ] id 4, domain <default domain>, name <null>\n"
        'MEMCPY "QtoZ" [ 1, 2 ] duration 1, size 5, srcKind TAPE, dstKind DEVICE, correlationId 3, shade 8\n'
        "KERNEL [ what\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    assert rows_of(tables, "ranges", ("name", "domain", "start_ns", "end_ns")) == [("a, name b", "", 10, 30)]
    assert rows_of(tables, "gpu_ops", ("copy_kind", "src_kind", "dst_kind", "size_bytes")) == [
        (None, None, "device", 5)
    ]
    assert counts_of(tables)[("damaged_lines", "data_loss")] == 1
    assert counts_of(tables)[("unknown_keys", "info")] == 1


def test_sample_that_printed_no_record(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no CUPTI records"):
        ingest_file(SAMPLES / "cupti_nvtx.txt", tmp_path, IMPORTER)


def test_damage(tmp_path: Path) -> None:
    columns = ("name", "start_ns", "end_ns", "thread_id", "correlation_id")
    path = tmp_path / "a.txt"
    text = gzip.decompress((SAMPLES / "activity_trace_async.txt.gz").read_bytes()).decode()
    path.write_text("".join(line + "\n" for line in text.splitlines() if line.startswith("DRIVER"))[:60_000] + "\n")
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    check_encodings(path, tmp_path, IMPORTER)
    check_cuts(path, tmp_path, IMPORTER, "api_calls", columns, places=5)
    check_flips(path, tmp_path, IMPORTER, "api_calls", columns, 1, range(10))


@pytest.mark.parametrize("filler", [" ", '"', "a ", "a=1,", "[ 1 ", "(", ", name ", "MEMCPY "])
def test_hostile_lines_take_no_time(filler: str, tmp_path: Path) -> None:
    good = 'RUNTIME [ 1, 2 ] duration 1, "f", cbid 1, processId 3, threadId 4, correlationId 5\n'
    long = filler * (30_000 // len(filler))
    lines = [
        f"{start} {long}\n"
        for start in ("KERNEL", 'KERNEL "', "MARKER [ 1 ] id 1,", "MARKER id 1 [ 1 ], name", "DEVICE")
    ]
    began = time.perf_counter()
    tables = read_text(good + "".join(lines) + good.replace("RUNTIME", "MEMORY2 " + long * 40), tmp_path, IMPORTER)
    assert time.perf_counter() - began < 5
    assert tables["api_calls"].height == 1
    assert data_loss(tables).total() > 0


def test_negative_numbers_where_there_are_none(tmp_path: Path) -> None:
    text = (DATA / "cupti_text" / "cuda_memory_trace.txt").read_text()
    damaged, count = re.subn(r"\b(bytes|size|address) \d+", r"\1 -1", text)
    tables = read_text(damaged, tmp_path, IMPORTER)
    assert count
    assert data_loss(tables)["negative_values"] > 0
    assert tables["memory_events"]["size_bytes"].null_count() == tables["memory_events"].height
