"""cupti-python, and the C library it loaded, behind the few calls the recorder needs.

https://docs.nvidia.com/cupti-python/ and https://docs.nvidia.com/cupti/api/modules.html
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.metadata
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .deliveries import BufferDelivery, Delivery, ObjectDelivery
from .muted import quiet_ids
from .records import Block

KINDS = (
    "DEVICE",
    "CONTEXT",
    "STREAM",
    "MEMORY2",
    "MEMORY_POOL",
    "CONCURRENT_KERNEL",
    "MEMCPY",
    "MEMCPY2",
    "MEMSET",
    "SYNCHRONIZATION",
    "EXTERNAL_CORRELATION",
    "MARKER",
    "MARKER_DATA",
    "NAME",
    "OVERHEAD",
    "GRAPH_TRACE",
)
API_KINDS = ("RUNTIME", "DRIVER")
NVTX_VARIABLE = "NVTX_INJECTION64_PATH"
_ENUMS = {
    "memory_kind": "ActivityMemoryKind",
    "memory_operation_type": "ActivityMemoryOperationType",
    "memory_pool_type": "ActivityMemoryPoolType",
    "memory_pool_operation_type": "ActivityMemoryPoolOperationType",
    "copy_kind": "ActivityMemcpyKind",
    "synchronization_type": "ActivitySynchronizationType",
    "external_kind": "ExternalCorrelationKind",
    "object_kind": "ActivityObjectKind",
    "overhead_kind": "ActivityOverheadKind",
    "stream_flag": "ActivityStreamFlag",
    "launch_type": "ActivityLaunchType",
    "channel_type": "ChannelType",
}
_ID_ENUMS = {"RUNTIME": "runtime_api_trace_cbid", "DRIVER": "driver_api_trace_cbid"}
_DOMAINS = {"RUNTIME": "RUNTIME_API", "DRIVER": "DRIVER_API"}


class CuptiUnavailable(Exception):
    """CUPTI can't be used here; the message says why and what to do."""


class CuptiLibrary:
    """A loaded cupti-python. Raises CuptiUnavailable when it is missing, or when there is no driver or no GPU."""

    def __init__(self) -> None:
        try:
            self.module: Any = importlib.import_module("cupti.cupti")
        except ImportError as error:
            raise CuptiUnavailable(
                f"cupti-python can't be imported by this interpreter ({error}); pip install cupti-python into it, "
                "of the same release as its CUDA (cupti-python==13.0.* for CUDA 13.0)"
            ) from None
        try:
            self.module.get_timestamp()
        except Exception as error:
            raise CuptiUnavailable(
                f"CUPTI does not start ({_sentence(error)}); record on the machine with the GPU and its driver"
            ) from None
        self.path = loaded_path("libcupti")
        self.c_library: Any = ctypes.CDLL(self.path) if self.path else None

    def delivery(self, wish: str, deliver: Callable[[Block], None]) -> Delivery:
        """Register for records; `wish` is `buffers` (when the C library can be reached) or `objects`."""
        chosen: Delivery
        if wish == "buffers" and self.c_library is not None:
            chosen = BufferDelivery(self.c_library, self.module, deliver)
        else:
            self._check_release()
            chosen = ObjectDelivery(self.module, deliver)
        chosen.register()
        return chosen

    def use_system_thread_ids(self) -> str:
        """Ask for Linux tids, which eBPF and perf show too; returns the kind of id in use."""
        with contextlib.suppress(Exception):
            self.module.set_thread_id_type(int(self.module.ActivityThreadIdType.SYSTEM))
            return "SYSTEM"
        return "DEFAULT"

    def enable(self, kind: str) -> str | None:
        """Start recording a kind; returns the reason when CUPTI refuses."""
        try:
            self.module.activity_enable(int(self.module.ActivityKind[kind]))
        except Exception as error:
            return _sentence(error)
        return None

    def disable(self, kind: str) -> None:
        with contextlib.suppress(Exception):
            self.module.activity_disable(int(self.module.ActivityKind[kind]))

    def quiet_calls(self, kind: str) -> dict[int, str]:
        """Callback id -> name of the calls that are muted by default, for RUNTIME or DRIVER."""
        ids = getattr(self.module, _ID_ENUMS[kind], None)
        return quiet_ids(ids) if ids is not None else {}

    def mute(self, kind: str, callback_id: int) -> None:
        """Keep CUPTI from recording one call. Older libraries can't: the recorder drops such records itself too."""
        switch = "activity_enable_runtime_api" if kind == "RUNTIME" else "activity_enable_driver_api"
        with contextlib.suppress(Exception):
            getattr(self.module, switch)(callback_id, 0)

    def call_name(self, kind: str, callback_id: int) -> str | None:
        try:
            name = self.module.get_callback_name(int(self.module.CallbackDomain[_DOMAINS[kind]]), callback_id)
        except Exception:
            return None
        return name.decode("utf-8", "replace") if isinstance(name, bytes) else name

    def follow_nvtx(self) -> None:
        """Make NVTX ranges reach CUPTI; works while the program has not made its first NVTX call."""
        if self.path:
            os.environ.setdefault(NVTX_VARIABLE, self.path)

    def flush(self, *, force: bool) -> None:
        """Have CUPTI hand over its buffers: those whose records are complete, or with `force` all.

        Called through the C library where possible, which surely lets other Python threads run meanwhile.
        """
        flush = self.module.activity_flush_all if self.c_library is None else self.c_library.cuptiActivityFlushAll
        with contextlib.suppress(Exception):  # what it did not hand over is missing, the rest is still worth a footer
            flush(int(force))

    def timestamp(self) -> int | None:
        try:
            return int(self.module.get_timestamp())
        except Exception:
            return None

    def describe(self) -> dict[str, Any]:
        """Versions and enum names for the capture's header."""
        enums = {
            key: {str(int(member)): name for name, member in getattr(self.module, cls).__members__.items()}
            for key, cls in _ENUMS.items()
            if hasattr(self.module, cls)
        }
        return {"cupti_python": _release(), "cupti_api_version": self._api_version(), "enums": enums}

    def _api_version(self) -> int | None:
        if self.c_library is None:
            return None
        number = ctypes.c_uint32()
        return None if self.c_library.cuptiGetVersion(ctypes.byref(number)) else number.value

    def _check_release(self) -> None:
        """cupti-python's objects have the layout of its own release, whichever library is loaded."""
        release, version = _release(), self._api_version()
        loaded = f"{version // 10000}.{version // 100 % 100}" if version else None  # 130001 is 13.0.1
        if release and loaded and not release.startswith(f"{loaded}."):
            raise CuptiUnavailable(
                f"cupti-python {release} would misread the records of the loaded CUPTI {loaded}; "
                f"pip install cupti-python=={loaded}.*, or leave --delivery as it is"
            )


def _release() -> str | None:
    try:
        return importlib.metadata.version("cupti-python")
    except importlib.metadata.PackageNotFoundError:
        return None


def loaded_path(stem: str) -> str | None:
    """The path of a shared library that this process has loaded, by the start of its file name."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    paths = (line.split(maxsplit=5)[5] for line in lines if line.count(" /"))
    return next((path for path in paths if Path(path).name.startswith(f"{stem}.so")), None)


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
