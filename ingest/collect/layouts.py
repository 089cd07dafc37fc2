"""From CUPTI's record structs to named columns.

cupti-python publishes each struct as a numpy dtype (`activity_kernel10_dtype`). The struct of a kind grows with
CUPTI's version (`CUpti_ActivityKernel9`, `10`, ...), and the library that is loaded decides which one is delivered, so
the dtype is chosen by the size the library itself says a record has.

Definition of the structs: https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

STEMS = {
    "RUNTIME": "api",
    "DRIVER": "api",
    "MEMORY2": "memory",
    "MEMORY_POOL": "memory_pool",
    "CONCURRENT_KERNEL": "kernel",
    "MEMCPY": "memcpy",
    "MEMCPY2": "memcpy_pto_p",
    "MEMSET": "memset",
    "SYNCHRONIZATION": "synchronization",
    "EXTERNAL_CORRELATION": "external_correlation",
    "MARKER": "marker",
    "MARKER_DATA": "marker_data",
    "NAME": "name",
    "OVERHEAD": "overhead",
    "CONTEXT": "context",
    "STREAM": "stream",
    "DEVICE": "device",
    "GRAPH_TRACE": "graph_trace",
}
TEXT_FIELDS = frozenset({"name", "domain", "source", "cache_path"})
TIME_FIELDS = frozenset({"start", "end", "completed", "queued", "submitted", "timestamp"})
_LEFT_OUT = re.compile(r"kind|pad(ding)?\d*|reserved\d*|cubin|overhead_data|p_access_policy_window")
_PROCESS_LEVELS = {"process_id": (1, 2), "thread_id": (2,)}  # CUpti_ActivityObjectKind: 1 process, 2 thread
_DEVICE_LEVELS = {"device_id": (3, 4, 5), "context_id": (4, 5), "stream_id": (5,)}  # 3 device, 4 context, 5 stream


@dataclass(frozen=True)
class Column:
    """Where one output column lies in a record: `path` into nested fields; `levels`: object kinds that set it."""

    name: str
    path: tuple[str, ...]
    form: str  # "number", "time", "text" or "hex"
    levels: tuple[int, ...] = ()


def dtypes_of(module: Any, kind: str) -> list[np.dtype[np.void]]:
    """All struct versions that `module` (cupti-python's `cupti`) knows for a kind; empty if it knows none."""
    pattern = re.compile(rf"activity_{STEMS.get(kind, kind.lower())}\d*_dtype")
    found = (getattr(module, name) for name in dir(module) if pattern.fullmatch(name))
    # 13.0 publishes numpy dtypes, other releases may publish what np.dtype() understands.
    return [np.dtype(dtype) for dtype in found]


def dtype_for_size(module: Any, kind: str, size: int) -> np.dtype[np.void] | None:
    """The struct version of `kind` whose size is `size` bytes, None when there is none."""
    return next((dtype for dtype in dtypes_of(module, kind) if dtype.itemsize == size), None)


def columns_of(dtype: np.dtype[np.void]) -> list[Column]:
    """The columns of a struct in its field order, nested structs flattened, padding and pointers left out."""
    columns: list[Column] = []
    for name in dtype.names or ():
        if not _LEFT_OUT.fullmatch(name):
            columns += _columns_of_field(name, dtype[name])
    return columns


def _columns_of_field(name: str, field: np.dtype[Any]) -> list[Column]:
    if name == "object_id":
        pairs = (("pt", _PROCESS_LEVELS), ("dcs", _DEVICE_LEVELS))
        return [
            Column(f"object_id_{leaf}", (name, part, leaf), "number", levels)
            for part, leaves in pairs
            for leaf, levels in leaves.items()
        ]
    if name == "payload":
        return [Column(name, (name, "metric_value_uint64"), "number")]
    if name == "cache_config":
        return [Column(name, (name, "both"), "number")]
    if field.names:
        columns: list[Column] = []
        for inner in field.names:
            if inner == "pool":  # a union: the size of a local pool, the owner of an imported one
                columns.append(Column(f"{name}_size_", (name, inner, "size_"), "number"))
            elif not _LEFT_OUT.fullmatch(inner):
                columns.append(Column(f"{name}_{inner}", (name, inner), "number"))
        return columns
    if field.subdtype or field.kind == "V":  # a uuid: 13.0 says 16 numbers, 13.4 says 16 opaque bytes
        return [Column(name, (name,), "hex")]
    form = "text" if name in TEXT_FIELDS else "time" if name in TIME_FIELDS else "number"
    return [Column(name, (name,), form)]


def field_values(rows: np.ndarray[Any, Any], column: Column) -> np.ndarray[Any, Any]:
    """One column's raw values, contiguous, shape (rows,) or (rows, bytes) for `hex`."""
    values: np.ndarray[Any, Any] = rows
    for part in column.path:
        values = values[part]
    values = np.ascontiguousarray(values)
    return values.astype(np.int64) if column.form == "time" else values
