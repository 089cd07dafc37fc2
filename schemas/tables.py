"""Every table: its columns in order, key, sort order, layer and grain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from schemas.fields import FIELDS, Field, Kind

if TYPE_CHECKING:
    import pyarrow as pa

Layer = Literal["raw", "core", "out"]


@cache
def _arrow_types() -> dict[Kind, pa.DataType]:
    import pyarrow as pa  # here, since names of tables are wanted where nothing is written

    return {
        "int64": pa.int64(),
        "int32": pa.int32(),
        "uint64": pa.uint64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "text": pa.string(),
        "list<int64>": pa.list_(pa.int64()),
        "list<text>": pa.list_(pa.string()),
    }


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `timestamps` are the columns that clock alignment moves."""

    name: str
    layer: Layer
    grain: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    order: tuple[str, ...]
    timestamps: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(FIELDS[name] for name in self.columns)

    def arrow_schema(self) -> pa.Schema:
        """Arrow schema with unit and description in the field metadata, table facts in the schema metadata."""
        import pyarrow as pa

        types = _arrow_types()
        fields = [
            pa.field(f.name, types[f.kind], nullable=f.nullable, metadata={"unit": f.unit, "description": f.sentence})
            for f in self.fields
        ]
        return pa.schema(fields, metadata={"leakpath.table": self.name, "leakpath.grain": self.grain})


def _table(name: str, layer: Layer, grain: str, columns: str, key: str, order: str = "", timestamps: str = "") -> Table:
    keys = tuple(key.split())
    return Table(
        name, layer, grain, tuple(columns.split()), keys, tuple(order.split()) or keys, tuple(timestamps.split())
    )


_TABLES = (
    _table(
        "capture_files",
        "raw",
        "one file of the capture",
        "file_id path format format_version size_bytes digest clock rank host process_id read_state row_count message",
        "file_id",
    ),
    _table(
        "diagnostics",
        "raw",
        "one kind of damage or loss in one file or stage",
        "stage file_id name severity occurrence_count detail",
        "stage file_id name",
        "stage file_id name",
    ),
    _table(
        "capture_notes",
        "raw",
        "one fact of capture.yaml; periods have a start and an end",
        "fact name value text_value start_ns end_ns",
        "fact name text_value start_ns",
    ),
    _table(
        "clock_pairs",
        "raw",
        "several clocks of a host read together",
        "file_id clock_position realtime_ns monotonic_ns boottime_ns monotonic_raw_ns width_ns",
        "file_id realtime_ns",
    ),
    _table(
        "processes",
        "raw",
        "one process named by a file",
        "process_id process_name rank host file_id",
        "process_id file_id",
    ),
    _table(
        "devices",
        "raw",
        "one device of one process",
        "file_id source process_id device_index name uuid total_bytes compute_capability multiprocessor_count",
        "file_id device_index",
    ),
    _table(
        "contexts",
        "raw",
        "one CUDA context",
        "file_id source process_id context_id device_index parent_context_id stream_id",
        "file_id context_id",
    ),
    _table(
        "streams",
        "raw",
        "one CUDA stream",
        "file_id source process_id context_id stream_id priority stream_flag correlation_id",
        "file_id context_id stream_id",
    ),
    _table("frames", "raw", "one frame of code", "frame_id function file line module address", "frame_id"),
    _table("call_paths", "raw", "one call path, root to leaf", "call_path_id frame_ids depth_count", "call_path_id"),
    _table(
        "memory_events",
        "raw",
        "one allocator or driver memory event",
        "file_id event_index source level action ts_ns clock_aligned process_id thread_id device_index address size_bytes"
        " requested_bytes memory_kind stream_id context_id pool_id correlation_id call_path_id return_code device_free_bytes"
        " total_allocated_bytes total_reserved_bytes cpu_index name user_metadata compile_context",
        "file_id event_index",
        "file_id event_index",
        "ts_ns",
    ),
    _table(
        "segments",
        "raw",
        "one allocator segment at a dump",
        "file_id source dump_index ts_ns clock_aligned process_id device_index address total_bytes allocated_bytes active_bytes"
        " requested_bytes stream_id segment_type pool_id is_expandable call_path_id",
        "file_id device_index address",
        timestamps="ts_ns",
    ),
    _table(
        "blocks",
        "raw",
        "one allocator block at a dump",
        "file_id source dump_index process_id device_index segment_address address allocated_bytes requested_bytes block_state"
        " stream_id pool_id call_path_id",
        "file_id device_index address",
    ),
    _table(
        "allocator_settings",
        "raw",
        "one allocator setting at a dump",
        "file_id source process_id name setting",
        "file_id name",
    ),
    _table(
        "api_calls",
        "raw",
        "one CUDA runtime or driver call",
        "file_id event_index source api name start_ns end_ns clock_aligned process_id thread_id correlation_id return_code"
        " call_path_id",
        "file_id event_index",
        "file_id event_index",
        "start_ns end_ns",
    ),
    _table(
        "gpu_ops",
        "raw",
        "one kernel, copy, memset or graph launch on the device",
        "file_id event_index source op name start_ns end_ns clock_aligned process_id device_index context_id stream_id"
        " correlation_id size_bytes address copy_kind src_kind dst_kind grid block registers_per_thread static_shared_bytes"
        " dynamic_shared_bytes shared_bytes local_memory_bytes graph_id graph_node_id",
        "file_id event_index",
        "file_id event_index",
        "start_ns end_ns",
    ),
    _table(
        "sync_events",
        "raw",
        "one synchronisation",
        "file_id event_index source sync_kind start_ns end_ns clock_aligned process_id context_id stream_id event_id"
        " correlation_id",
        "file_id event_index",
        "file_id event_index",
        "start_ns end_ns",
    ),
    _table(
        "overheads",
        "raw",
        "one interval the profiler itself cost",
        "file_id event_index source overhead_kind start_ns end_ns clock_aligned process_id thread_id",
        "file_id event_index",
        "file_id event_index",
        "start_ns end_ns",
    ),
    _table(
        "ranges",
        "raw",
        "one NVTX range, profiler annotation or request mark",
        "range_id file_id event_index source range_kind name domain start_ns end_ns clock_aligned process_id thread_id device_index"
        " stream_id call_path_id attributes",
        "file_id event_index",
        "file_id event_index",
        "start_ns end_ns",
    ),
    _table(
        "external_correlations",
        "raw",
        "one API call tied to a framework operation",
        "file_id event_index source process_id correlation_id external_kind external_id",
        "file_id event_index",
        "file_id event_index",
    ),
    _table(
        "stack_samples",
        "raw",
        "one stack sample, or one count of equal stacks",
        "file_id event_index source event ts_ns clock_aligned process_id thread_id process_name cpu_index sample_count weight"
        " unit call_path_id",
        "file_id event_index",
        "file_id event_index",
        "ts_ns",
    ),
    _table(
        "kernel_metrics",
        "raw",
        "one metric of one profiled kernel launch",
        "file_id event_index source launch_index name process_id device_index context_id stream_id grid block section metric"
        " value unit text_value",
        "file_id event_index",
        "file_id event_index",
    ),
    _table(
        "kv_block_events",
        "raw",
        "one event of a KV block or its request",
        "file_id event_index source kv_event ts_ns clock_aligned sequence_number process_id thread_id block_id request_id"
        " reference_count size_bytes address attributes",
        "file_id event_index",
        "file_id event_index",
        "ts_ns",
    ),
    _table(
        "metrics",
        "raw",
        "one sample of one series",
        "file_id event_index source metric labels ts_ns clock_aligned value unit process_id device_index",
        "file_id event_index",
        "file_id event_index",
        "ts_ns",
    ),
    _table(
        "requests",
        "raw",
        "one request",
        "file_id event_index source request_id request_kind arrival_ns start_ns first_token_ns end_ns clock_aligned status model"
        " prompt_tokens output_tokens process_id attributes",
        "file_id event_index",
        "file_id event_index",
        "arrival_ns start_ns first_token_ns end_ns",
    ),
    _table(
        "tokens",
        "raw",
        "one generated token",
        "file_id event_index source request_id token_index ts_ns clock_aligned rss_bytes device_allocated_bytes process_id",
        "file_id event_index",
        "file_id event_index",
        "ts_ns",
    ),
    _table(
        "clock_alignments",
        "core",
        "how one file was put on the capture's clock",
        "file_id clock method reference_file_id anchor_count outlier_count offset_ns drift_ratio origin_ns residual_p50_ns"
        " residual_p99_ns check_offset_ns check_difference_ns is_disagreement clock_aligned",
        "file_id",
    ),
    _table(
        "allocations",
        "core",
        "one allocation, from alloc to free, at one level",
        "allocation_id process_id device_index level source address generation allocated_bytes requested_bytes memory_kind"
        " stream_id context_id pool_id alloc_ts_ns free_requested_ts_ns free_ts_ns is_alloc_before_window is_free_inferred"
        " is_size_estimated alloc_correlation_id free_correlation_id alloc_call_path_id free_call_path_id range_id request_id"
        " parent_allocation_id",
        "allocation_id",
    ),
    _table(
        "allocation_links",
        "core",
        "one link of an allocation to something else (tensors: those live at the end)",
        "allocation_id link link_method linked_id time_difference_ns",
        "allocation_id link linked_id",
    ),
    _table(
        "request_spans",
        "core",
        "one request on the capture's clock with its range",
        "request_id process_id rank start_ns end_ns first_token_ns queue_ns latency_ns status model request_kind prompt_tokens"
        " output_tokens attributes range_id is_request_id_inferred",
        "process_id request_id start_ns",
        "start_ns request_id",
    ),
    _table(
        "kernel_links",
        "core",
        "one profiled kernel launch and the operation in a trace it is",
        "file_id launch_index gpu_op_file_id gpu_op_event_index link_method",
        "file_id launch_index",
    ),
    _table(
        "epochs",
        "core",
        "one epoch leaks are judged over",
        "process_id epoch_index epoch_kind epoch_name start_ns end_ns request_id",
        "process_id epoch_index",
    ),
    _table(
        "live_bytes",
        "core",
        "live bytes of one level after an event, thinned to a bounded number of points",
        "process_id device_index level ts_ns live_bytes live_count pending_free_bytes",
        "process_id device_index level ts_ns",
    ),
    _table(
        "leak_suspects",
        "out",
        "one judged group of survivors",
        "suspect_id rank suspect_rank level verdict verdict_reason root_cause confidence retained_count retained_bytes"
        " retained_requested_bytes retained_bytes_low retained_bytes_high growth_bytes_per_epoch growth_bytes_per_hour epoch_kind"
        " epochs_count surviving_epochs_count process_id device_index judged_by call_path_id member_count leak_path range_path attribute"
        " attribute_lift attribute_p_value",
        "suspect_id",
    ),
    _table(
        "leak_evidence",
        "out",
        "one surviving allocation of a judged group",
        "suspect_id allocation_id epoch_index request_id allocated_bytes requested_bytes call_path_id",
        "suspect_id allocation_id",
    ),
    _table(
        "root_causes",
        "out",
        "one root-cause rule that holds or nearly holds",
        "root_cause_id suspect_id root_cause confidence process_id device_index bytes evidence_for evidence_against advice"
        " next_measurement",
        "root_cause_id",
    ),
    _table(
        "root_cause_checks",
        "out",
        "one root cause that was looked for",
        "root_cause cause_count reason abstained_reason next_measurement",
        "root_cause",
    ),
    _table(
        "memory_ledger",
        "out",
        "one part of the device's memory at one sample",
        "ts_ns device_index process_id ledger_part part_bytes is_impossible detail",
        "device_index ts_ns process_id ledger_part",
    ),
    _table(
        "process_ledger",
        "out",
        "one process on one device over its samples",
        "process_id rank device_index sample_count start_ns end_ns first_bytes last_bytes highest_bytes torch_allocated_bytes"
        " torch_cached_bytes outside_bytes context_bytes unattributed_bytes impossible_count",
        "process_id device_index",
        "device_index process_id",
    ),
    _table(
        "fragmentation",
        "out",
        "the caching allocator's state at one moment",
        "process_id device_index ts_ns moment reserved_bytes allocated_bytes active_bytes pending_free_bytes inactive_bytes"
        " inactive_split_bytes segment_count free_block_count largest_free_bytes mean_free_bytes external_fragmentation_ratio"
        " internal_fragmentation_ratio private_reserved_bytes private_inactive_bytes",
        "process_id device_index ts_ns",
    ),
    _table(
        "kv_anomalies",
        "out",
        "one break in the life of a KV block",
        "anomaly_id anomaly process_id block_id request_id ts_ns size_bytes file_id event_index detail",
        "anomaly_id",
    ),
    _table(
        "oom_events",
        "out",
        "one failed allocation",
        "oom_event_id process_id device_index ts_ns source level name return_code requested_bytes device_free_bytes"
        " total_allocated_bytes total_reserved_bytes correlation_id call_path_id range_id request_id detail",
        "oom_event_id",
    ),
    _table(
        "oom_holders",
        "out",
        "who held memory when an allocation failed, the most first",
        "oom_event_id holder_rank holder held_bytes held_count",
        "oom_event_id holder_rank",
    ),
    _table(
        "oom_remedies",
        "out",
        "one setting or measure weighed against a failed allocation",
        "oom_event_id remedy would_help room_bytes reason",
        "oom_event_id remedy",
    ),
    _table(
        "token_memory",
        "out",
        "what a generated token costs in memory and time, of one process, model and side of memory",
        "process_id model memory_side request_count token_count bytes_per_token_mean bytes_per_token_deviation"
        " bytes_per_token_p50 bytes_per_token_p95 bytes_per_token_p99 expected_bytes_per_token actual_to_expected_ratio"
        " first_level_bytes last_level_bytes kept_bytes_per_request kept_p_value interval_p50_ns interval_p99_ns"
        " interval_slope_ns interval_slope_low_ns interval_slope_high_ns interval_trend last_position abstained_reason",
        "process_id model memory_side",
    ),
    _table(
        "request_latency",
        "out",
        "one measure of requests: all of a source, by model and by status (null: all), or a server's histogram",
        "source metric model status measure start_ns end_ns request_count measured_count mean_ns p50_ns p95_ns p99_ns max_ns error_ratio"
        " truncation_ratio",
        "source metric model status measure start_ns",
    ),
    _table(
        "slo",
        "out",
        "one objective over one window of requests",
        "source metric objective window_kind period start_ns end_ns request_count bad_count value unit target slo_verdict"
        " abstained_reason",
        "source metric objective window_kind period start_ns",
    ),
    _table(
        "pareto",
        "out",
        "latency and throughput of one configuration against their targets",
        "configuration start_ns end_ns request_count p99_ns requests_per_second tokens_per_second latency_score"
        " throughput_score is_on_front abstained_reason",
        "configuration start_ns",
    ),
    _table(
        "hotspots",
        "out",
        "one place where time, calls or bytes go, or why that is not known",
        "hotspot_id hotspot_kind hotspot_event unit process_id device_index name file module call_path_id range_path is_other"
        " call_count self_amount self_ratio total_amount total_ratio compute_ratio memory_ratio occupancy_ratio"
        " calls_per_token_early calls_per_token_late rise_p_value suspect_id detail abstained_reason",
        "hotspot_id",
    ),
    _table(
        "sync_stalls",
        "out",
        "one call that held the host up, or one range that launched kernels where others launch a graph",
        "stall_id stall_kind name source file_id event_index process_id thread_id device_index stream_id start_ns end_ns"
        " duration_ns clock_aligned is_hot size_bytes launch_count pending_free_bytes correlation_id call_path_id range_id"
        " range_path request_id detail",
        "stall_id",
    ),
    _table(
        "stall_costs",
        "out",
        "what stalls of one kind, call, call path and range cost a process; also one row a kind",
        "cost_id process_id stall_kind is_total name call_path_id range_path stall_count total_ns union_ns window_ns p50_ns max_ns"
        " hot_by hot_count hot_ns hot_window_ns hot_p50_ns hot_max_ns size_bytes launch_count pending_free_bytes",
        "cost_id",
    ),
    _table(
        "device_activity",
        "out",
        "one device between its first operation and its last, or why nothing is known of it",
        "activity_id process_id device_index uuid start_ns end_ns busy_ns idle_ns sync_idle_ns launch_idle_ns host_idle_ns"
        " unknown_idle_ns gap_count longest_gap_ns op_count stream_count abstained_reason",
        "activity_id",
    ),
    _table(
        "idle_gaps",
        "out",
        "one gap in the work of a device, the longest ones",
        "gap_id process_id device_index uuid start_ns end_ns idle_ns sync_idle_ns launch_idle_ns host_idle_ns unknown_idle_ns"
        " idle_cause stall_id range_id range_path request_id",
        "gap_id",
    ),
    _table(
        "stream_pairs",
        "out",
        "two streams of a process on a device, and how often they start and stop together",
        "pair_id process_id device_index stream_id other_stream_id burst_count other_burst_count matched_count lockstep_ratio is_lockstep",
        "pair_id",
    ),
    _table(
        "comparison",
        "out",
        "one quantity of two captures that `leakpath compare` sets side by side (of one capture alone there is none)",
        "comparison_id comparison_scope quantity unit compared_level compared_kind rank compared_path baseline_value candidate_value"
        " baseline_text candidate_text change_value change_low change_high change_ratio change_verdict change_reason",
        "comparison_id",
    ),
    _table(
        "host_pressure",
        "out",
        "one window between samples of a host's or cgroup's memory, with the requests that ended in it",
        "host cgroup clock_aligned start_ns end_ns memory_bytes high_bytes limit_bytes high_event_count max_event_count"
        " oom_event_count kill_count some_stalled_ratio full_stalled_ratio is_pressed request_count p95_ns",
        "host cgroup clock_aligned start_ns",
    ),
    _table(
        "pressure_effects",
        "out",
        "one host or cgroup, and whether requests were slower while its memory was under pressure",
        "host cgroup clock_aligned start_ns end_ns pressed_window_count calm_window_count high_event_count max_event_count"
        " oom_event_count kill_count highest_stalled_ratio memory_bytes limit_bytes pressed_request_count calm_request_count"
        " pressed_p95_ns calm_p95_ns pressure_p_value abstained_reason",
        "host cgroup clock_aligned",
    ),
    _table(
        "numa_memory",
        "out",
        "one part of a host's or process's memory on one NUMA node",
        "host process_id node_index memory_part clock_aligned sample_count start_ns end_ns first_bytes last_bytes highest_bytes"
        " node_share_ratio growth_bytes_per_hour growth_p_value",
        "host process_id memory_part node_index clock_aligned",
    ),
    _table(
        "numa_traffic",
        "out",
        "pages that one NUMA node handed out between two samples",
        "host node_index start_ns end_ns local_page_count remote_page_count miss_page_count foreign_page_count remote_ratio",
        "host node_index",
    ),
    _table(
        "findings",
        "out",
        "one thing a person should read",
        "finding_id finding_kind severity title confidence bytes evidence advice abstained_reason",
        "finding_id",
    ),
)

TABLES: dict[str, Table] = {table.name: table for table in _TABLES}


def table(name: str) -> Table:
    """The table called `name`; KeyError with the known names otherwise."""
    try:
        return TABLES[name]
    except KeyError:
        raise KeyError(f"no table {name!r}; known: {', '.join(TABLES)}") from None
