"""Stands in for nvidia-ml-py's `pynvml`: two devices, the second without utilisation and without processes."""

import os
from types import SimpleNamespace


class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):
    pass


def nvmlInit():
    if os.environ.get("STAND_IN_NO_DRIVER"):
        raise NVMLError("Driver Not Loaded")


def nvmlShutdown():
    pass


def nvmlDeviceGetCount():
    return int(os.environ.get("STAND_IN_DEVICES", "2"))


def nvmlDeviceGetHandleByIndex(index):
    return index


def nvmlDeviceGetMemoryInfo(handle):
    return SimpleNamespace(used=1000 + handle, free=9000 - handle, total=10000)


def nvmlDeviceGetUtilizationRates(handle):
    if handle:
        raise NVMLError_NotSupported("Not Supported")
    return SimpleNamespace(gpu=37, memory=5)


def nvmlDeviceGetComputeRunningProcesses(handle):
    if handle:
        return []
    return [SimpleNamespace(pid=11, usedGpuMemory=700), SimpleNamespace(pid=12, usedGpuMemory=None)]
