"""Sample device and per-process GPU memory with NVML into a CSV file.

https://docs.nvidia.com/deploy/nvml-api/ through nvidia-ml-py. One row for each compute process on each device, or one
without process where a device has none. Times are UTC realtime ns, sizes bytes, utilisation percent of the last period.
"""

from __future__ import annotations

import csv
import importlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ingest.errors import BadInput, OutputError

COLUMNS = (
    "timestamp_ns",
    "device_index",
    "used_bytes",
    "free_bytes",
    "total_bytes",
    "gpu_util_pct",
    "mem_util_pct",
    "pid",
    "pid_used_bytes",
)
Row = tuple[Any, ...]


class NvmlSampler:
    """Samples every `period_s` seconds on a thread, from `with` to its end. Entry raises BadInput and OutputError."""

    def __init__(self, path: Path, period_s: float) -> None:
        self.path, self.period_s = path, period_s
        self.rows = 0
        self.failure: str | None = None
        self._done = threading.Event()

    def __enter__(self) -> NvmlSampler:
        self._nvml = load_nvml()
        self._handles = [self._nvml.nvmlDeviceGetHandleByIndex(i) for i in range(self._nvml.nvmlDeviceGetCount())]
        if not self._handles:
            raise BadInput("NVML sees no GPU", todo="run this on the machine with the GPU")
        try:
            self._file = self.path.open("x", newline="", buffering=1)
        except OSError as error:
            raise OutputError(error.strerror or str(error), where=str(self.path), todo="choose another name") from None
        self._writer = csv.writer(self._file)
        self._writer.writerow(COLUMNS)
        self._thread = threading.Thread(target=self._sample_all, name="leakpath-nvml", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
        self._file.close()
        self._nvml.nvmlShutdown()

    def watch(self, pid: int) -> None:
        """NVML lists every process by itself."""

    def wait(self, duration_s: float | None) -> None:
        """Sleep for `duration_s` seconds (None: until interrupted) or until sampling failed."""
        self._done.wait(duration_s)

    def _sample_all(self) -> None:
        due = time.monotonic()
        while not self._done.is_set():
            try:
                rows = [row for i, handle in enumerate(self._handles) for row in sample(self._nvml, i, handle)]
                self._writer.writerows(rows)
            except Exception as error:  # a lost device or a full disk ends the series, not the program
                self.failure = " ".join(str(error).split()) or type(error).__name__
                self._done.set()
                return
            self.rows += len(rows)
            due = max(due + self.period_s, time.monotonic())  # after a stall: go on, don't catch up
            self._done.wait(due - time.monotonic())


def sample(nvml: Any, device_index: int, handle: Any) -> Iterator[Row]:
    """The rows of one device now. What the device doesn't support (utilisation on MIG, say) is empty."""
    now = time.time_ns()
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    use = _or_none(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    processes = _or_none(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle) or [None]
    gpu, bus = (use.gpu, use.memory) if use is not None else (None, None)
    for process in processes:
        pid, used = (process.pid, process.usedGpuMemory) if process is not None else (None, None)
        yield now, device_index, memory.used, memory.free, memory.total, gpu, bus, pid, used


def load_nvml() -> Any:
    """pynvml, initialised. Raises BadInput when it is missing, or when there is no driver."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        raise BadInput("the package nvidia-ml-py is not installed", todo="pip install nvidia-ml-py") from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise BadInput(f"NVML does not start: {error}", todo="run this on the machine with the GPU") from None
    return nvml


def _or_none(nvml: Any, ask: Callable[[Any], Any], handle: Any) -> Any:
    try:
        return ask(handle)
    except nvml.NVMLError_NotSupported:
        return None
