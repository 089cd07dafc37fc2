"""Stands in for cupti-python 13.0's `cupti.cupti`: the same names, enum numbers and struct layouts, no GPU.

Records come from the test program: `emit("RUNTIME", cbid=20, start=1, ...)` queues one, `activity_flush_all` delivers
what is queued as the library does, as objects that know the address of their struct.
Layouts: https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html
"""

import ctypes
import enum
import os
import time

import numpy as np

_API = "kind:i4 cbid:u4 start:u8 end:u8 process_id:u4 thread_id:u4 correlation_id:u4 return_value:u4"
_PT = [("process_id", "<u4"), ("thread_id", "<u4")]
_DCS = [("device_id", "<u4"), ("context_id", "<u4"), ("stream_id", "<u4")]
_OBJECT_ID = np.dtype({"names": ["pt", "dcs"], "formats": [_PT, _DCS], "offsets": [0, 0], "itemsize": 12})
_POOL = np.dtype({"names": ["size_", "process_id"], "formats": ["<u8", "<u8"], "offsets": [0, 0], "itemsize": 8})
_POOL_CONFIG = np.dtype(
    [
        ("memory_pool_type", "<i4"),
        ("pad2", "<u4"),
        ("address", "<u8"),
        ("release_threshold", "<u8"),
        ("pool", _POOL),
        ("utilized_size", "<u8"),
    ]
)


def _struct(text, **nested):
    fields = [field.split(":") for field in text.split()]
    return np.dtype([(name, nested.get(name, f"<{form}")) for name, form in fields])


activity_api_dtype = _struct(_API)
activity_memory_dtype = np.dtype([("kind", "<i4"), ("old_layout", "<u4", (19,))])
activity_memory4_dtype = _struct(
    "kind:i4 memory_operation_type:i4 memory_kind:i4 correlation_id:u4 address:u8 bytes:u8 timestamp:u8 pc:u8"
    " process_id:u4 device_id:u4 context_id:u4 stream_id:u4 name:i8 is_async:u4 pad1:u4 memory_pool_config: source:i8",
    memory_pool_config=_POOL_CONFIG,
)
activity_marker2_dtype = _struct(
    "kind:i4 flags_:i4 timestamp:u8 id:u4 object_kind:i4 object_id: pad:u4 name:i8 domain:i8", object_id=_OBJECT_ID
)
activity_external_correlation_dtype = _struct("kind:i4 external_kind:i4 external_id:u8 correlation_id:u4 reserved:u4")
activity_stream_dtype = _struct("kind:i4 context_id:u4 stream_id:u4 priority:u4 flag:i4 correlation_id:u4")
assert [activity_api_dtype.itemsize, activity_memory4_dtype.itemsize, activity_marker2_dtype.itemsize] == [40, 128, 56]


class ActivityKind(enum.IntEnum):
    MEMCPY = 1
    MEMSET = 2
    DRIVER = 4
    RUNTIME = 5
    DEVICE = 8
    CONTEXT = 9
    CONCURRENT_KERNEL = 10
    NAME = 11
    MARKER = 12
    MARKER_DATA = 13
    OVERHEAD = 17
    MEMCPY2 = 22
    SYNCHRONIZATION = 38
    EXTERNAL_CORRELATION = 39
    STREAM = 42
    MEMORY2 = 49
    MEMORY_POOL = 50
    GRAPH_TRACE = 51


class ActivityMemoryKind(enum.IntEnum):
    UNKNOWN = 0
    PINNED = 2
    DEVICE = 3


class ActivityThreadIdType(enum.IntEnum):
    DEFAULT = 0
    SYSTEM = 1


class CallbackDomain(enum.IntEnum):
    DRIVER_API = 1
    RUNTIME_API = 2


class runtime_api_trace_cbid(enum.IntEnum):
    cudaGetDevice_v3020 = 18
    cudaMalloc_v3020 = 20
    cudaFree_v3020 = 22


class driver_api_trace_cbid(enum.IntEnum):
    cuMemAlloc_v2 = 243
    cuCtxGetCurrent = 304


class cuptiError(Exception):
    pass


class _Record:
    def __init__(self, kind, address):
        self.kind, self.ptr = kind, address


class ActivityAPI(_Record):
    pass


class ActivityMemory4(_Record):
    pass


class ActivityMarker2(_Record):
    pass


class ActivityExternalCorrelation(_Record):
    pass


class ActivityUnheardOf(_Record):
    pass


_FORMS = {
    "RUNTIME": (activity_api_dtype, ActivityAPI),
    "DRIVER": (activity_api_dtype, ActivityAPI),
    "MEMORY2": (activity_memory4_dtype, ActivityMemory4),
    "MARKER": (activity_marker2_dtype, ActivityMarker2),
    "EXTERNAL_CORRELATION": (activity_external_correlation_dtype, ActivityExternalCorrelation),
    "GRAPH_TRACE": (activity_stream_dtype, ActivityUnheardOf),  # a struct that nobody described
}
_enabled, _queued, _kept, _muted = set(), [], [], set()
_completed = None


def pack(kind, **fields):
    """The bytes of one record. Text is kept alive for ever, as its address is in the struct."""
    dtype, _ = _FORMS[kind]
    row = np.zeros(1, dtype)
    row["kind"] = ActivityKind[kind]
    for name, value in fields.items():
        target = row
        *outer, last = name.split(".")
        for part in outer:
            target = target[part]
        if isinstance(value, str):
            _kept.append(ctypes.create_string_buffer(value.encode()))
            value = ctypes.addressof(_kept[-1])
        target[last] = value
    return row.tobytes()


def emit(kind, **fields):
    if kind in _enabled and (kind, fields.get("cbid")) not in _muted:
        _queued.append((kind, pack(kind, **fields)))


def activity_register_callbacks(requested, completed):
    global _completed
    size, _limit = requested()
    assert size >= 1 << 16
    _completed = completed


def activity_enable(kind):
    if os.environ.get("STAND_IN_REFUSES") == ActivityKind(kind).name:
        raise cuptiError("NOT_SUPPORTED")
    _enabled.add(ActivityKind(kind).name)


def activity_disable(kind):
    _enabled.discard(ActivityKind(kind).name)


def activity_enable_runtime_api(cbid, enable):
    if os.environ.get("STAND_IN_CAN_MUTE") == "1":
        _muted.add(("RUNTIME", cbid))
    else:
        raise cuptiError("NOT_SUPPORTED")


def activity_enable_driver_api(cbid, enable):
    raise cuptiError("NOT_SUPPORTED")


def activity_flush_all(flag):
    records = []
    for kind, data in _queued:
        _kept.append(ctypes.create_string_buffer(data, len(data)))
        records.append(_FORMS[kind][1](int(ActivityKind[kind]), ctypes.addressof(_kept[-1])))
    _queued.clear()
    if records:
        _completed(records)


def set_thread_id_type(kind):
    if os.environ.get("STAND_IN_PTHREAD_IDS"):
        raise cuptiError("NOT_SUPPORTED")


def get_timestamp():
    if os.environ.get("STAND_IN_NO_DRIVER"):
        raise cuptiError("CUDA driver is not found")
    return time.time_ns()


def get_callback_name(domain, cbid):
    ids = runtime_api_trace_cbid if domain == CallbackDomain.RUNTIME_API else driver_api_trace_cbid
    if cbid not in list(ids):
        raise cuptiError("INVALID_PARAMETER")
    return ids(cbid).name
