"""Keys and words that NVIDIA's CUPTI samples print, as attributes and numbers of CUPTI; see `cupti_text_records`."""

from __future__ import annotations

from ingest.cupti_enums import COPY_KINDS, OBJECT_PROCESS, OBJECT_THREAD, OVERHEAD_KINDS

_KEYS = {
    "device_id": "deviceId device devId",
    "context_id": "contextId context ctxId",
    "stream_id": "streamId stream",
    "process_id": "processId process procId",
    "thread_id": "threadId thread",
    "correlation_id": "correlationId correlation corrId",
    "bytes": "size",
    "cbid": "cbid",
    "return_value": "returnValue",
    "address": "address",
    "memory_kind": "memoryKind",
    "memory_operation_type": "memoryOperationType",
    "memory_pool_operation_type": "memoryPoolOperation memoryPoolOperationType",
    "memory_pool_config_address": "memoryPoolAddress",
    "src_kind": "srcKind",
    "dst_kind": "dstKind",
    "copy_kind": "copyKind",
    "graph_id": "graphId",
    "graph_node_id": "graphNodeId",
    "static_shared_memory": "static",
    "dynamic_shared_memory": "dynamic",
    "registers_per_thread": "registersPerThread",
    "type": "type",
    "cuda_event_id": "eventId",
    "priority": "priority",
    "external_kind": "externalKind",
    "external_id": "externalId",
    "null_stream_id": "nullStreamId",
    "id": "id",
}
ATTRIBUTES = {key.lower(): name for name, keys in _KEYS.items() for key in keys.split()} | {
    "graph id": "graph_id",
    "graph node id": "graph_node_id",
    "null stream": "null_stream_id",
    "correlation id": "correlation_id",
}
_UNUSED = """duration copycount channelid channeltype cacheconfigrequested cacheconfigexecuted value pc isasync
memorypool memorypooltype memorypoolthreshold memorypoolsize memorypoolutilizedsize memorypoolprocessid source
utilizedsize releasethreshold cudaeventsyncid computeapikind gridid parentgridid srcdeviceid srccontextid dstdeviceid
dstcontextid"""
IGNORED = {*_UNUSED.split(), "compute api", "cig mode"}

WORDS: dict[str, dict[str, int]] = {
    "memory_operation_type": {"INVALID": 0, "ALLOCATE": 1, "ALLOCATION": 1, "RELEASE": 2},
    "memory_pool_operation_type": {"MEM_POOL_CREATED": 1, "MEM_POOL_DESTROYED": 2, "MEM_POOL_TRIMMED": 3},
    "type": {
        "UNKNOWN": 0,
        "EVENT_SYNCHRONIZE": 1,
        "STREAM_WAIT_EVENT": 2,
        "STREAM_SYNCHRONIZE": 3,
        "CONTEXT_SYNCHRONIZE": 4,
    },
    "flag": {"UNKNOWN": 0, "DEFAULT_STREAM": 1, "NON_BLOCKING_STREAM": 2, "NULL_STREAM": 3},
    "external_kind": {"INVALID": 0, "UNKNOWN": 1, "OPENACC": 2, "CUSTOM0": 3, "CUSTOM1": 4, "CUSTOM2": 5},
    "copy_kind": {word.upper(): number for number, word in COPY_KINDS.items()},
}
OVERHEADS = {word.upper(): number for number, word in OVERHEAD_KINDS.items()} | {
    "COMPILER": 1,
    **{name: number << 16 for number, name in enumerate(("BUFFER_FLUSH", "INSTRUMENTATION", "RESOURCE"), 1)},
}
OBJECTS = {"PROCESS": OBJECT_PROCESS, "THREAD": OBJECT_THREAD}
UNIFIED_KEYS = {
    "counterKind": "counter_kind",
    "kind": "counter_kind",
    "value": "value",
    "address": "address",
    "srcId": "src_id",
    "src": "src_id",
    "dstId": "dst_id",
    "dst": "dst_id",
    "processId": "process_id",
}
UNIFIED_WORDS = {
    "UNKNOWN": 0,
    "BYTES_TRANSFER_HTOD": 1,
    "BYTES_TRANSFER_DTOH": 2,
    "CPU_PAGE_FAULT_COUNT": 3,
    "GPU_PAGE_FAULT": 4,
    "THRASHING": 5,
    "THROTTLING": 6,
    "REMOTE_MAP": 7,
    "BYTES_TRANSFER_DTOD": 8,
}
