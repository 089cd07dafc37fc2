"""API calls that are left out by default: frequent, quick, and with no effect on memory or order."""

from __future__ import annotations

import re
from typing import Any

QUIET_CALLS = frozenset(
    """
    cudaGetDevice cudaSetDevice cudaGetDeviceCount cudaDeviceGetAttribute cudaDeviceGetStreamPriorityRange
    cudaGetLastError cudaPeekAtLastError cudaGetErrorString cudaGetErrorName cudaDriverGetVersion
    cudaRuntimeGetVersion cudaStreamIsCapturing cudaStreamGetCaptureInfo cudaStreamGetId cudaStreamGetPriority
    cudaStreamGetFlags cudaStreamGetDevice cudaThreadExchangeStreamCaptureMode cudaEventQuery cudaStreamQuery
    cudaFuncGetAttributes cudaFuncSetAttribute cudaFuncGetName cudaGetFuncBySymbol cudaGetKernel
    cudaKernelSetAttributeForDevice cudaPointerGetAttributes cudaGetDriverEntryPoint
    cudaGetDriverEntryPointByVersion cudaOccupancyMaxActiveBlocksPerMultiprocessor
    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaOccupancyMaxActiveClusters
    cudaOccupancyMaxPotentialClusterSize __cudaPushCallConfiguration __cudaPopCallConfiguration
    cudaPushCallConfiguration cudaPopCallConfiguration cudaGetExportTable
    cuCtxGetCurrent cuCtxSetCurrent cuCtxGetDevice cuCtxPushCurrent cuCtxPopCurrent cuCtxGetFlags cuCtxGetId
    cuCtxGetApiVersion cuCtxGetStreamPriorityRange cuDeviceGet cuDeviceGetCount cuDeviceGetAttribute
    cuDeviceGetName cuDeviceGetUuid cuDeviceGetLuid cuDeviceGetPCIBusId cuDeviceComputeCapability
    cuDevicePrimaryCtxGetState cuDeviceCanAccessPeer cuDriverGetVersion cuGetErrorString cuGetErrorName
    cuGetProcAddress cuGetExportTable cuStreamIsCapturing cuStreamGetCaptureInfo cuStreamGetCtx cuStreamGetId
    cuStreamGetPriority cuStreamGetFlags cuStreamGetDevice cuThreadExchangeStreamCaptureMode cuEventQuery
    cuStreamQuery cuFuncGetAttribute cuFuncSetAttribute cuFuncGetModule cuFuncGetName cuFuncIsLoaded
    cuKernelGetFunction cuKernelGetAttribute cuKernelSetAttribute cuKernelGetName cuLibraryGetKernel
    cuLibraryGetModule cuModuleGetFunction cuModuleGetGlobal cuModuleGetLoadingMode cuPointerGetAttribute
    cuPointerGetAttributes cuOccupancyMaxActiveBlocksPerMultiprocessor
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxActiveClusters cuTensorMapEncodeTiled
    cuMemGetAllocationGranularity cuMemGetAttribute cuCtxGetLimit cuOccupancyAvailableDynamicSMemPerBlock
    cudaOccupancyAvailableDynamicSMemPerBlock
    """.split()  # noqa: SIM905 (a list of quoted names would hide the names)
)
_VERSION = re.compile(r"(_v\d+)?(_pt[ds][sz])?(_v\d+)?$")


def base_name(call: str) -> str:
    """A callback name without version and per-thread suffixes: `cudaGetDevice_v3020` is `cudaGetDevice`."""
    return _VERSION.sub("", call)


def quiet_ids(ids: Any) -> dict[int, str]:
    """Callback id -> name of the muted calls in one of cupti-python's callback id enums."""
    return {int(member): name for name, member in ids.__members__.items() if base_name(name) in QUIET_CALLS}
