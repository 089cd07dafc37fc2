"""Two ways to get activity records from CUPTI: its raw buffers, or cupti-python's record objects.

Raw buffers cost a fraction of a microsecond a record. Record objects are the library's documented way; cupti-python
13.0 takes about ten microseconds to make one, so they are the fallback where the C library can't be reached.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from .layouts import dtype_for_size, dtypes_of
from .records import Block, block_of, rows_at, rows_of_objects, walk_buffer

BUFFER_BYTES = 2 << 20
MAX_LIMIT_REACHED = 12  # CUPTI_ERROR_MAX_LIMIT_REACHED
BuffersRequested = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
BuffersCompleted = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


class Delivery(Protocol):
    """Registers with CUPTI and passes blocks on; `skipped` counts what could not be read, `dropped` what CUPTI lost."""

    name: str
    skipped: Counter[str]
    dropped: int

    def register(self) -> None: ...


class BufferDelivery:
    """CUPTI fills our buffers and hands them back full; they are read in place and used again."""

    name = "buffers"

    def __init__(self, library: Any, module: Any, deliver: Callable[[Block], None]) -> None:
        self.native, self.module, self.deliver = library, module, deliver
        self.skipped: Counter[str] = Counter()
        self.dropped = 0
        self._kinds = {int(kind): kind.name for kind in module.ActivityKind}
        self._strides: dict[int, int] = {}
        self._used: dict[int, Any] = {}
        self._free: list[Any] = []
        # The C library keeps these two pointers: they must live as long as the process.
        self._requested = BuffersRequested(self._on_requested)
        self._completed = BuffersCompleted(self._on_completed)

    def register(self) -> None:
        status = self.native.cuptiActivityRegisterCallbacks(self._requested, self._completed)
        if status:
            raise RuntimeError(f"cuptiActivityRegisterCallbacks returned {status}")

    def _on_requested(self, buffer: Any, size: Any, max_records: Any) -> None:
        memory = self._free.pop() if self._free else ctypes.create_string_buffer(BUFFER_BYTES)
        address = ctypes.addressof(memory)
        self._used[address] = memory
        buffer[0], size[0], max_records[0] = address, BUFFER_BYTES, 0

    def _on_completed(self, context: int | None, stream: int, buffer: int, size: int, valid: int) -> None:
        try:
            if valid:
                self._read(buffer, valid)
            count = ctypes.c_size_t()
            if not self.native.cuptiActivityGetNumDroppedRecords(context, stream, ctypes.byref(count)):
                self.dropped += count.value
        except Exception as error:  # an exception can't pass through C: count it, never disturb the program
            self.skipped[f"buffer: {type(error).__name__}: {error}"] += 1
        finally:
            memory = self._used.pop(buffer, None)
            if memory is not None:
                self._free.append(memory)

    def _read(self, buffer: int, valid: int) -> None:
        data = ctypes.string_at(buffer, valid)
        walk = walk_buffer(data, self._strides, lambda offset: self._length_at(buffer, valid, offset))
        if walk.unread:
            self.skipped["bytes of buffers that could not be walked"] += walk.unread
        for number, offsets in walk.offsets.items():
            kind = self._kinds.get(number)
            dtype = dtype_for_size(self.module, kind, self._strides[number]) if kind else None
            if kind is None or dtype is None:
                self.skipped[f"{kind or number}, {self._strides[number]} bytes"] += len(offsets)
            else:
                self.deliver(block_of(kind, rows_at(data, offsets, dtype)))

    def _length_at(self, buffer: int, valid: int, offset: int) -> int:
        record = ctypes.c_void_p(buffer + offset)
        status = self.native.cuptiActivityGetNextRecord(
            ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)
        )
        if status == MAX_LIMIT_REACHED:  # there is no next one: the record fills the rest
            return valid - offset
        return record.value - buffer - offset if not status and record.value else 0


class ObjectDelivery:
    """cupti-python makes an object of each record and passes lists of them."""

    name = "objects"

    def __init__(self, module: Any, deliver: Callable[[Block], None]) -> None:
        self.module, self.deliver = module, deliver
        self.skipped: Counter[str] = Counter()
        self.dropped = 0
        self._kinds = {int(kind): kind.name for kind in module.ActivityKind}

    def register(self) -> None:
        self.module.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), self._on_completed)

    def _on_completed(self, records: list[Any]) -> None:
        try:
            groups: dict[tuple[int, type], list[Any]] = {}
            for record in records:
                groups.setdefault((int(record.kind), type(record)), []).append(record)
            for (number, cls), members in groups.items():
                kind = self._kinds.get(number, str(number))
                dtype = self._dtype_of(kind, cls)
                if dtype is None:
                    self.skipped[f"{kind}, {cls.__name__}"] += len(members)
                else:
                    self.deliver(block_of(kind, rows_of_objects(members, dtype)))
        except Exception as error:
            self.skipped[f"records: {type(error).__name__}: {error}"] += len(records)

    def _dtype_of(self, kind: str, cls: type) -> Any:
        wanted = f"{cls.__name__}_dtype".lower()
        for name in dir(self.module):
            if name.endswith("_dtype") and name.replace("_", "") == wanted.replace("_", ""):
                return getattr(self.module, name)
        return next(iter(dtypes_of(self.module, kind)), None)
