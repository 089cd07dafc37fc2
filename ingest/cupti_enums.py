"""CUPTI's numbers as the words of the tables, and the record attributes that are read.

Numbers and attributes as in CUPTI 13.5's `cupti_activity.h` and cupti-python 13.4:
https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html
"""

from __future__ import annotations

from typing import Any

import polars as pl

# Values that stand for "not applicable": CUPTI_INVALID_DEVICE_ID, CUPTI_SYNCHRONIZATION_INVALID_VALUE.
INVALID = 0xFFFFFFFF

_KINDS = (
    "INVALID MEMCPY MEMSET KERNEL DRIVER RUNTIME EVENT METRIC DEVICE CONTEXT CONCURRENT_KERNEL NAME MARKER MARKER_DATA"
    " SOURCE_LOCATOR GLOBAL_ACCESS BRANCH OVERHEAD CDP_KERNEL PREEMPTION ENVIRONMENT EVENT_INSTANCE MEMCPY2"
    " METRIC_INSTANCE INSTRUCTION_EXECUTION UNIFIED_MEMORY_COUNTER FUNCTION MODULE DEVICE_ATTRIBUTE SHARED_ACCESS"
    " PC_SAMPLING PC_SAMPLING_RECORD_INFO INSTRUCTION_CORRELATION OPENACC_DATA OPENACC_LAUNCH OPENACC_OTHER CUDA_EVENT"
    " STREAM SYNCHRONIZATION EXTERNAL_CORRELATION NVLINK INSTANTANEOUS_EVENT INSTANTANEOUS_EVENT_INSTANCE"
    " INSTANTANEOUS_METRIC INSTANTANEOUS_METRIC_INSTANCE MEMORY PCIE OPENMP INTERNAL_LAUNCH_API MEMORY2 MEMORY_POOL"
    " GRAPH_TRACE JIT DEVICE_GRAPH_TRACE MEM_DECOMPRESS ROTATION GRAPH_HOST_NODE COMPUTE_ENGINE_CTX_SWITCH HOST_LAUNCH"
    " GREEN_CONTEXT"
)
KIND_NAMES: tuple[str, ...] = tuple(_KINDS.split())
"""`CUpti_ActivityKind`: the name at its number."""

MEMORY_KINDS = {
    0: "unknown",
    1: "pageable",
    2: "pinned",
    3: "device",
    4: "array",
    5: "managed",
    6: "static",
    7: "static",
}
_MEMORY_NAMES = ("UNKNOWN", "PAGEABLE", "PINNED", "DEVICE", "ARRAY", "MANAGED", "DEVICE_STATIC", "MANAGED_STATIC")
MEMORY_OPERATIONS = {1: "alloc", 2: "free"}
POOL_OPERATIONS = {1: "pool_created", 2: "pool_destroyed", 3: "pool_trimmed"}
COPY_KINDS = {
    0: "unknown",
    1: "htod",
    2: "dtoh",
    3: "htoa",
    4: "atoh",
    5: "atoa",
    6: "atod",
    7: "dtoa",
    8: "dtod",
    9: "htoh",
    10: "ptop",
}
SYNC_KINDS = {0: "unknown", 1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
EXTERNAL_KINDS = {1: "unknown", 2: "openacc", 3: "custom0", 4: "custom1", 5: "custom2"}
STREAM_FLAGS = {0: "unknown", 1: "default", 2: "non_blocking", 3: "null"}
OVERHEAD_KINDS = {
    0: "unknown",
    1: "driver_compiler",
    1 << 16: "cupti_buffer_flush",
    2 << 16: "cupti_instrumentation",
    3 << 16: "cupti_resource",
    4 << 16: "runtime_triggered_module_loading",
    5 << 16: "lazy_function_loading",
    6 << 16: "command_buffer_full",
    7 << 16: "activity_buffer_request",
    8 << 16: "uvm_activity_init",
}

# CUpti_ActivityUnifiedMemoryCounterKind, and what its flags say by kind: CUpti_ActivityUnifiedMemoryMigrationCause and
# CUpti_ActivityUnifiedMemoryAccessType.
UNIFIED_KINDS = {
    0: "unknown",
    1: "htod",
    2: "dtoh",
    3: "cpu_page_fault",
    4: "gpu_page_fault",
    5: "thrashing",
    6: "throttling",
    7: "remote_map",
    8: "dtod",
}
UNIFIED_MIGRATIONS, UNIFIED_FAULTS = (1, 2, 8), (3, 4)
MIGRATION_CAUSES = {0: "unknown", 1: "user", 2: "coherence", 3: "prefetch", 4: "eviction", 5: "access_counters"}
ACCESS_TYPES = {0: "unknown", 1: "read", 2: "write", 3: "atomic", 4: "prefetch"}

# CUpti_ActivityFlag of a MARKER record, and CUpti_ActivityObjectKind.
MARKER_INSTANT, MARKER_START, MARKER_END = 1, 2, 4
OBJECT_PROCESS, OBJECT_THREAD = 1, 2

ENUMS: dict[tuple[str, str], dict[int, str]] = {
    ("MEMORY2", "memory_kind"): MEMORY_KINDS,
    ("MEMORY2", "memory_operation_type"): MEMORY_OPERATIONS,
    ("MEMORY", "memory_kind"): MEMORY_KINDS,
    ("MEMORY_POOL", "memory_pool_operation_type"): POOL_OPERATIONS,
    ("MEMCPY", "copy_kind"): COPY_KINDS,
    ("MEMCPY", "src_kind"): MEMORY_KINDS,
    ("MEMCPY", "dst_kind"): MEMORY_KINDS,
    ("MEMCPY2", "copy_kind"): COPY_KINDS,
    ("MEMCPY2", "src_kind"): MEMORY_KINDS,
    ("MEMCPY2", "dst_kind"): MEMORY_KINDS,
    ("MEMSET", "memory_kind"): MEMORY_KINDS,
    ("SYNCHRONIZATION", "type"): SYNC_KINDS,
    ("EXTERNAL_CORRELATION", "external_kind"): EXTERNAL_KINDS,
    ("STREAM", "flag"): STREAM_FLAGS,
    ("OVERHEAD", "overhead_kind"): OVERHEAD_KINDS,
    ("UNIFIED_MEMORY_COUNTER", "counter_kind"): UNIFIED_KINDS,
}
"""Which attribute of which kind holds which enumeration."""

ENUM_NUMBERS: dict[tuple[str, str], int] = {
    **{("memory_kind", name): number for number, name in enumerate(_MEMORY_NAMES)},
    **{("src_kind", name): number for number, name in enumerate(_MEMORY_NAMES)},
    **{("dst_kind", name): number for number, name in enumerate(_MEMORY_NAMES)},
    **{("memory_operation_type", name): number for number, name in enumerate(("INVALID", "ALLOCATION", "RELEASE"))},
    **{("copy_kind", word.upper()): number for number, word in COPY_KINDS.items()},
}
"""Numbers of enumeration values that a dump tells by (attribute, cupti-python's name)."""

_TEXT = "name domain uuid"
_UNSIGNED = (
    "address memory_pool_config_address bytes size_ external_id graph_node_id local_memory_total_v2 global_memory_size"
    " value"
)
_SIGNED = """start end timestamp process_id thread_id correlation_id return_value cbid device_id context_id stream_id
 memory_kind memory_operation_type memory_pool_operation_type copy_kind src_kind dst_kind
 grid_x grid_y grid_z block_x block_y block_z registers_per_thread static_shared_memory dynamic_shared_memory
 local_memory_total graph_id type cuda_event_id external_kind overhead_kind object_kind flags_ id flag priority
 null_stream_id parent_context_id compute_capability_major compute_capability_minor num_multiprocessors
 object_id_process_id object_id_thread_id counter_kind src_id dst_id"""

COLUMNS: dict[str, Any] = (
    dict.fromkeys(_TEXT.split(), pl.String)
    | dict.fromkeys(_UNSIGNED.split(), pl.UInt64)
    | dict.fromkeys(_SIGNED.split(), pl.Int64)
)
"""Attributes that are read, flattened as `leakpath collect cupti` writes them, with the type they are read as."""

NESTED: dict[str, dict[str, str]] = {
    "object_id": {"process_id": "object_id_process_id", "thread_id": "object_id_thread_id"},
    "memory_pool_config": {"address": "memory_pool_config_address"},
}
"""Attributes that hold a record of their own in NDJSON dumps: key inside → flattened name."""

_UNUSED = """
alloc_pc cache_config channel_id channel_type cig_mode cluster_scheduling_policy cluster_x cluster_y cluster_z
completed compute_api_kind compute_instance_id constant_memory_size copy_count core_clock_rate cuda_event_sync_id
device_launch_mode dst_context_id dst_device_id ecc_enabled end_context_id end_device_id execution_model free_pc
global_memory_bandwidth gpu_instance_id grid_id is_async is_cuda_visible is_device_launched is_green_context
is_managed_pool is_mig_enabled is_numa_node is_shared_memory_carveout_requested l2cache_size launch_type
launcher_graph_id local_memory_per_thread logical_tpc_mask logical_tpc_mask_size max_active_clusters max_block_dim_x
max_block_dim_y max_block_dim_z max_blocks_per_multiprocessor max_grid_dim_x max_grid_dim_y max_grid_dim_z max_ipc
max_potential_cluster_size max_registers_per_block max_registers_per_multiprocessor max_shared_memory_per_block
max_shared_memory_per_multiprocessor max_threads_per_block max_warps_per_multiprocessor mig_uuid min_bytes_to_keep
num_memcpy_engines num_threads_per_warp num_tpcs numa_id overhead_data p_access_policy_window padding padding2 pad
pad1 pad2 pad3 parent_block_x parent_block_y parent_block_z parent_grid_id partitioned_global_cache_executed
partitioned_global_cache_requested pc ptr queued release_threshold runtime_correlation_id
shared_memory_carveout_requested shared_memory_config shared_memory_executed shmem_limit_config source source_graph_id
source_graph_node_id src_context_id src_device_id submitted utilized_size
memory_pool_config_release_threshold memory_pool_config_size_ memory_pool_config_utilized_size
memory_pool_config_memory_pool_type memory_pool_type object_id_device_id
object_id_context_id object_id_stream_id
"""
UNUSED_KEYS = frozenset(_UNUSED.split())
"""Attributes of the records that are read but have no column in the tables."""
