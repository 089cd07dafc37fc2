"""Small typed exports of Nsight Systems in the schemas of several years, typed by hand from its schema reference.

One process (4660) runs two kernels, copies, migrates managed memory, fails to allocate,
 is sampled and profiled; the same
rows are written in each schema, as far as it has the columns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PID, TID = 4660, 4661
GLOBAL_PID = 1 << 48 | PID << 24
GLOBAL_TID = GLOBAL_PID | TID
UTC = 1_700_000_000_000_000_000
CANARY = "hunter2-canary"
DEVICE_POINTER = 0x7F00_0000_0000
HIGH_POINTER = -(2**62)  # an address above 2^63, as SQLite keeps it

Rows = list[dict[str, Any]]

STRINGS = [
    *("cudaMalloc_v3020", "cuMemAlloc_v2", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_ptsz_v11010", "open", "main"),
    *("add(int, float *)", "add", "_Z3addiPf", "libc.so", "/home/alice/venv/lib/libtorch.so", "0x7f11"),
    *("[Broken backtraces]", "CUPTI: Buffer flush", "step", "MPI", "python3", f"output {CANARY}"),
]


def _id(text: str) -> int:
    return STRINGS.index(text) + 1


def _api(
    start: int, end: int, name: str, correlation: int, result: int = 0, chain: int | None = None
) -> dict[str, Any]:
    return {
        "start": start, "end": end, "eventClass": 1 if name.startswith("cuM") else 0, "globalTid": GLOBAL_TID,
        "correlationId": correlation, "nameId": _id(name), "returnValue": result, "callchainId": chain,
    }  # fmt: skip


def _op(start: int, end: int, correlation: int, **more: Any) -> dict[str, Any]:
    where = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": GLOBAL_PID}
    return {"start": start, "end": end, "correlationId": correlation, **where, **more}


_COPY = {"bytes": 4096, "srcKind": 0, "dstKind": 2, "graphNodeId": None}
_KERNEL = {
    "demangledName": _id("add(int, float *)"), "shortName": _id("add"), "mangledName": _id("_Z3addiPf"),
     "registersPerThread": 32,
    "gridX": 4, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1, "staticSharedMemory": 16,
    "dynamicSharedMemory": 0, "localMemoryTotal": 1024, "graphNodeId": None,
}  # fmt: skip
_MEMORY = {"globalPid": GLOBAL_PID, "deviceId": 0, "contextId": 1, "pc": 9, "memKind": 2, "name": None}


def _frame(chain: int, depth: int, symbol: str, module: str, *, unresolved: int = 0, ip: int = 0) -> dict[str, Any]:
    return {
        "id": chain, "symbol": _id(symbol), "module": _id(module), "unresolved": unresolved, "originalIP": ip,
        "stackDepth": depth,
    }  # fmt: skip


def _nvtx(start: int, end: int | None, kind: int, text: str | None = None, **more: Any) -> dict[str, Any]:
    usual = {"rangeId": None, "category": None, "textId": None, "domainId": 0, "uint64Value": None, "doubleValue": None}
    return {"start": start, "end": end, "eventType": kind, "text": text, "globalTid": GLOBAL_TID, **usual, **more}


TABLES: dict[str, Rows] = {
    "StringIds": [{"id": _id(text), "value": text} for text in STRINGS],
    "TARGET_INFO_SYSTEM_ENV": [
        {"globalVid": 1 << 48, "name": "DeviceEnvironment", "value": f"API_TOKEN={CANARY};HOME=/home/alice"},
        {"globalVid": 1 << 48, "name": "Hostname", "value": f"{CANARY}-host"},
    ],
    "META_DATA_CAPTURE": [
        {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": f'API_TOKEN="{CANARY}"'},
        {"name": "PROCESS_0:ARGUMENT_0", "value": f"--password={CANARY}"},
    ],
    "META_DATA_EXPORT": [
        {"name": "EXPORT_PRODUCT_VERSION", "value": "2024.2.3.38"},
        {"name": "EXPORT_SCHEMA_VERSION", "value": "3.11.1"},
        {"name": "EXPORT_USER", "value": CANARY},
        {"name": "EXPORT_PARAM_TIME_NORMALIZE", "value": "false"},
        {"name": "EXPORT_PARAM_TIME_SHIFT", "value": "0"},
    ],
    "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": UTC, "utcTime": CANARY, "localTime": CANARY}],
    "ProcessStreams": [{"globalPid": GLOBAL_PID, "filenameId": 0, "contentId": _id(f"output {CANARY}")}],
    "PROCESSES": [
        {"globalPid": GLOBAL_PID, "pid": PID, "name": f"/opt/{CANARY}/bin/python3 --token={CANARY}"},
        {"globalPid": 1 << 48 | 99 << 24, "pid": 99, "name": f"{CANARY}-daemon"},
    ],
    "ThreadNames": [{"nameId": _id("python3"), "priority": 20, "globalTid": GLOBAL_PID | PID}],
    "DIAGNOSTIC_EVENT": [
        {"timestamp": 1, "severity": 1, "text": f"Process was launched: {CANARY}", "globalPid": None},
        {"timestamp": 2, "severity": 2, "text": "No OpenGL events collected.", "globalPid": None},
        {"timestamp": 3, "severity": 2, "text": "Not all CUDA events might have been collected.", "globalPid": None},
    ],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [
        _api(0, 60, "cudaMalloc_v3020", 1, chain=1),
        _api(10, 40, "cuMemAlloc_v2", 2),
        _api(100, 110, "cudaLaunchKernel_v7000", 3),
        _api(120, 130, "cudaMemcpyAsync_ptsz_v11010", 4),
        _api(900, 950, "cudaMalloc_v3020", 9, 2),
    ],
    "CUPTI_ACTIVITY_KIND_KERNEL": [_op(105, 205, 3, **_KERNEL), _op(210, 260, 5, **(_KERNEL | {"demangledName": -1}))],
    "CUPTI_ACTIVITY_KIND_MEMCPY": [
        _op(300, 340, 4, copyKind=1, **_COPY),
        _op(400, 480, 0, copyKind=12, migrationCause=4, virtualAddress=DEVICE_POINTER,
         **(_COPY | {"srcKind": 7, "dstKind": 7})),
    ],
    "CUPTI_ACTIVITY_KIND_MEMSET": [_op(500, 510, 6, value=0, bytes=64, memKind=2, graphNodeId=None)],
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [_op(520, 560, 7, graphId=3, graphExecId=4)],
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [_op(600, 650, 8, syncType=3, eventId=0xFFFFFFFF)],
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": [
        {"start": 410, "end": 420, "globalPid": GLOBAL_PID, "deviceId": 0, "address": HIGH_POINTER,
         "numberOfPageFaults": 3,
         "faultAccessType": 2},
    ],
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": [
        {"start": 430, "globalPid": GLOBAL_PID, "address": DEVICE_POINTER, "CpuInstruction": _id("main"),
         "module": _id("libc.so")},
    ],
    "CUDA_GPU_MEMORY_USAGE_EVENTS": [
        {"start": 55, "address": DEVICE_POINTER, "bytes": 1 << 20, "memoryOperationType": 0,
         "correlationId": 1, **_MEMORY,
         "localMemoryPoolAddress": 4096},
        {"start": 700, "address": DEVICE_POINTER, "bytes": 1 << 20, "memoryOperationType": 1,
         "correlationId": 10, **_MEMORY,
         "localMemoryPoolAddress": 4096},
        {"start": 56, "address": HIGH_POINTER, "bytes": 16, "memoryOperationType": 0, "correlationId": 0,
         **(_MEMORY | {"memKind": 5, "name": "table"}), "localMemoryPoolAddress": None},
    ],
    "CUDA_GPU_MEMORY_POOL_EVENTS": [
        {"start": 50, "globalPid": GLOBAL_PID, "deviceId": 0, "address": 4096, "operationType": 1, "poolType": 1,
         "correlationId": 1, "localMemoryPoolSize": 1 << 21},
    ],
    "CUDA_CALLCHAINS": [
        _frame(1, 0, "open", "libc.so"),
        _frame(1, 1, "main", "/home/alice/venv/lib/libtorch.so"),
    ],
    "OSRT_API": [
        {"start": 10, "end": 20, "eventClass": 27, "globalTid": GLOBAL_TID, "nameId": _id("open"), "returnValue": 3,
         "nestingLevel": 0, "callchainId": 0},
    ],
    "COMPOSITE_EVENTS": [
        {"id": 1, "start": 30, "cpu": 2, "threadState": 1, "globalTid": GLOBAL_TID, "cpuCycles": 2_000_000},
        {"id": 2, "start": 40, "cpu": 2, "threadState": 1, "globalTid": GLOBAL_TID, "cpuCycles": 1},
    ],
    "SAMPLING_CALLCHAINS": [
        _frame(1, 0, "0x7f11", "libc.so", unresolved=1, ip=0x7F11),
        _frame(1, 1, "main", "/home/alice/venv/lib/libtorch.so"),
        _frame(2, 0, "main", "/home/alice/venv/lib/libtorch.so"),
        _frame(2, 1, "[Broken backtraces]", "[Broken backtraces]"),
    ],
    "SCHED_EVENTS": [
        {"start": 31, "cpu": 2, "isSchedIn": 1, "globalTid": GLOBAL_TID},
        {"start": 39, "cpu": 2, "isSchedIn": 0, "globalTid": GLOBAL_TID},
    ],
    "NVTX_EVENTS": [
        _nvtx(1, None, 75, "MPI", domainId=1),
        _nvtx(2, None, 33, "io", category=5),
        _nvtx(0, 1000, 59, "request:1"),
        _nvtx(10, 90, 59, None, textId=_id("step"), domainId=1),
        _nvtx(20, None, 60, "open range", rangeId=77),
        _nvtx(25, None, 34, "mark", category=5, uint64Value=8),
    ],
    "PROFILER_OVERHEAD": [
        {"start": 5, "end": 9, "globalTid": GLOBAL_TID, "nameId": _id("CUPTI: Buffer flush"), "returnValue": 0},
    ],
    "TARGET_INFO_GPU": [
        {"id": 0, "name": "NVIDIA H200", "totalMemory": 1 << 37, "smCount": 132, "uuid": "ab-cd", "cuDevice": 0,
         "computeMajor": 9, "computeMinor": 0},
        {"id": 1, "name": "NVIDIA H200", "totalMemory": 1 << 37, "smCount": 132, "uuid": "ef-01", "cuDevice": 1,
         "computeMajor": 9, "computeMinor": 0},
    ],
    "TARGET_INFO_CUDA_CONTEXT_INFO": [
        {"nullStreamId": 7, "processId": PID, "deviceId": 0, "contextId": 1, "parentContextId": 0, "isGreenContext": 0},
    ],
    "TARGET_INFO_CUDA_STREAM": [
        {"streamId": 7, "processId": PID, "contextId": 1, "priority": 0, "flag": 3},
        {"streamId": 13, "processId": PID, "contextId": 1, "priority": -1, "flag": 2},
    ],
    "GPU_METRICS": [
        {"timestamp": 60, "typeId": 0x0100000000000001, "metricId": 1, "value": 50},
        {"timestamp": 60, "typeId": 0x0100000000000001, "metricId": 2, "value": 1980},
        {"timestamp": 60, "typeId": 0x0100000000000001, "metricId": 3, "value": 7},
    ],
    "TARGET_INFO_GPU_METRICS": [
        {"typeId": 0x0100000000000001, "sourceId": 1, "typeName": "GH100", "metricId": 1,
         "metricName": "SMs Active [Throughput %]"},
        {"typeId": 0x0100000000000001, "sourceId": 1, "typeName": "GH100", "metricId": 2,
         "metricName": "GPC Clock Frequency [MHz]"},
    ],
    "NET_NIC_METRIC": [{"start": 60, "end": 70, "globalId": 11, "metricsListId": 1, "metricsIdx": 0, "value": 900}],
    "TARGET_INFO_NETWORK_METRICS": [
        {"metricsListId": 1, "metricsIdx": 0, "name": "Bytes received", "description": CANARY, "unit": "B"},
    ],
    "MPI_P2P_EVENTS": [{"start": 1, "end": 2, "globalTid": GLOBAL_TID, "textId": _id("MPI"), "size": 8}],
    "ENUM_CUDA_MEM_KIND": [{"id": 2, "name": "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "label": "Device"}],
}  # fmt: skip

_COLUMNS: dict[str, dict[str, str]] = {
    "2020.3": {
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue",
        "CUPTI_ACTIVITY_KIND_MEMCPY": "start end deviceId contextId streamId correlationId globalPid bytes copyKind"
        " srcKind dstKind graphNodeId",
        "NVTX_EVENTS": "start end eventType rangeId category text globalTid domainId",
    },
}
_NOT_IN = {
    "2020.3": (
        "META_DATA_EXPORT META_DATA_CAPTURE TARGET_INFO_SESSION_START_TIME TARGET_INFO_SYSTEM_ENV PROCESSES"
        " CUDA_CALLCHAINS DIAGNOSTIC_EVENT TARGET_INFO_GPU TARGET_INFO_CUDA_CONTEXT_INFO GPU_METRICS NET_NIC_METRIC"
        " ENUM_CUDA_MEM_KIND"
    ),
    "2022.2": "DIAGNOSTIC_EVENT ENUM_CUDA_MEM_KIND CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
}
_RENAMED = {
    "2022.2": {"META_DATA_EXPORT": "EXPORT_META_DATA"},
    "2026.1": {"CUPTI_ACTIVITY_KIND_KERNEL": "CUPTI_ACTIVITY_KIND_KERNEL_V3", "NVTX_EVENTS": "NVTX_EVENTS_V2"},
}
_ONLY_IN: dict[str, dict[str, Rows]] = {
    "2020.3": {
        "TARGET_INFO_CUDA_GPU": [
            {"name": "Tesla V100", "globalMemorySize": 32510, "numMultiprocessors": 80, "computeCapabilityMajor": 7,
             "computeCapabilityMinor": 0, "deviceId": 0, "pid": PID},
        ],
        "TARGET_INFO_CUDA_NULL_STREAM": [{"streamId": 7, "processId": PID, "deviceId": 0, "contextId": 1}],
    },
    "2026.1": {
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 1, "cudaId": 0, "pid": PID, "uuid": "GPU-99", "numMultiprocessors": 132}],
        "CUPTI_ACTIVITY_KIND_OVERHEAD": [
            {"start": 6, "end": 7, "eventClass": 103, "globalTid": GLOBAL_TID, "correlationId": 1,
             "nameId": _id("CUPTI: Buffer flush"), "overheadType": 8},
        ],
        "ENUM_CUPTI_OVERHEAD_TYPE": [{"id": 8, "name": "OVERHEAD_COMMAND_BUFFER_FULL", "label": "Command buffer full"}],
    },
}  # fmt: skip
GENERATIONS = ("2020.3", "2022.2", "2024.2", "2026.1")


def tables_of_generation(generation: str) -> dict[str, Rows]:
    """Tables by name with their rows, as an export of that year has them."""
    found: dict[str, Rows] = {}
    left_out = _NOT_IN.get(generation, "").split()
    for name, rows in (TABLES | _ONLY_IN.get(generation, {})).items():
        if name in left_out:
            continue
        columns = _COLUMNS.get(generation, {}).get(name)
        kept = [{key: row.get(key) for key in columns.split()} for row in rows] if columns else rows
        if generation == "2020.3" and name == "NVTX_EVENTS":
            kept = [row if row["text"] else row | {"text": "step"} for row in kept]
        found[_RENAMED.get(generation, {}).get(name, name)] = kept
    return found


def write_sqlite(path: Path, tables: Mapping[str, Rows]) -> Path:
    """An export in SQLite with the column types that the exporter declares."""
    with closing(sqlite3.connect(path)) as database:
        columns = {name: list(dict.fromkeys(key for row in rows for key in row)) for name, rows in tables.items()}
        for name, rows in tables.items():
            texts = {key for row in rows for key, value in row.items() if isinstance(value, str)}
            declared = ", ".join(f'"{column}" {"TEXT" if column in texts else "INTEGER"}' for column in columns[name])
            database.execute(f'CREATE TABLE "{name}" ({declared})')
        for name, rows in tables.items():
            database.executemany(
                f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns[name]))})',
                [tuple(row.get(column) for column in columns[name]) for row in rows],
            )
        database.commit()
    return path


def write_folder(folder: Path, export: Path, kind: str = "parquet") -> Path:
    """The tables of a SQLite export as a folder, one file a table; addresses and global ids unsigned, as exported."""
    folder.mkdir()
    with closing(sqlite3.connect(f"file:{export}?immutable=1", uri=True)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for name in names:
            cursor = database.execute(f'SELECT * FROM "{name}"')
            columns = [column[0] for column in cursor.description]
            values: Sequence[Sequence[Any]] = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(columns)
            arrays = [
                _array(column, list(column_values)) for column, column_values in zip(columns, values, strict=True)
            ]
            table = pa.Table.from_arrays(arrays, names=columns)
            if kind == "parquet":
                pq.write_table(table, folder / f"{name}.parquet", row_group_size=2048)
            else:
                with (
                    pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file,
                    pa.ipc.new_stream(file, table.schema) as stream,
                ):
                    stream.write_table(table, max_chunksize=1000)
    return folder


def _array(name: str, values: list[Any]) -> pa.Array:
    if any(isinstance(value, str) for value in values):
        return pa.array(values, pa.string())
    if any(isinstance(value, float) for value in values):
        return pa.array(values, pa.float64())
    if name in ("isSchedIn", "unresolved"):
        return pa.array([None if value is None else bool(value) for value in values], pa.bool_())
    if name in ("globalTid", "globalPid", "address", "virtualAddress", "originalIP", "typeId"):
        return pa.array([None if value is None else value % 2**64 for value in values], pa.uint64())
    return pa.array(values, pa.int64())
