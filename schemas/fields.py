"""Every column name of every table, defined once: type, unit, nullability and one sentence.

The same name means the same quantity in every table. `*_ns` are int64 nanoseconds: a point on the
capture's clock (UTC realtime of the host) or a duration, as the sentence says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["int64", "int32", "uint64", "float64", "bool", "text", "list<int64>", "list<text>"]


_SQL_TYPES: dict[Kind, str] = {
    "int64": "BIGINT",
    "int32": "INTEGER",
    "uint64": "UBIGINT",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "text": "VARCHAR",
    "list<int64>": "BIGINT[]",
    "list<text>": "VARCHAR[]",
}

Limits = tuple[float | None, float | None]
"""Lowest and highest value that can be; None is any."""
_UNIT_LIMITS: dict[str, Limits] = {"bytes": (0, None), "count": (0, None), "ratio": (0, 1), "percent": (0, 100)}
_ANY: Limits = (None, None)


@dataclass(frozen=True, slots=True)
class Field:
    """One column: `kind` is the Arrow type, `unit` is empty where none applies, `limits` None where the unit tells them."""

    name: str
    kind: Kind
    sentence: str
    unit: str = ""
    nullable: bool = True
    limits: Limits | None = None

    @property
    def range(self) -> Limits:
        """What every value of core and out tables keeps to: `limits`, else what the unit says (a ratio is 0 to 1)."""
        return self.limits or _UNIT_LIMITS.get(self.unit, _ANY)

    @property
    def sql_type(self) -> str:
        """DuckDB's name of the type."""
        return _SQL_TYPES[self.kind]


def _ns(name: str, sentence: str, *, nullable: bool = True) -> Field:
    return Field(name, "int64", sentence, "ns", nullable)


def _bytes(name: str, sentence: str, *, nullable: bool = True, limits: Limits | None = None) -> Field:
    return Field(name, "int64", sentence, "bytes", nullable, limits)


def _count(name: str, sentence: str, *, nullable: bool = True) -> Field:
    return Field(name, "int64", sentence, "count", nullable)


_FIELDS: tuple[Field, ...] = (
    # who wrote the row
    Field("file_id", "int32", "Ordinal of the capture file in `capture_files`.", nullable=False),
    Field(
        "source", "text", "Producer of the row: torch, cupti, ebpf, nvml, request_log, prometheus, …", nullable=False
    ),
    Field("event_index", "int64", "Position of the record in its file, from 0.", nullable=False),
    Field("path", "text", "Path of the capture file relative to the capture folder.", nullable=False),
    Field("format", "text", "Name of the importer that read the file, null when none recognised it."),
    Field("format_version", "text", "Version of the format as the file states it."),
    Field("digest", "text", "BLAKE2b-128 of the file's bytes, hexadecimal."),
    Field(
        "clock",
        "text",
        "Clock the file was recorded on: realtime, monotonic, boottime, monotonic_raw, perf, session or unknown.",
    ),
    Field("read_state", "text", "read, partial (damage counted in `diagnostics`), refused or unknown_format."),
    Field("message", "text", "What went wrong with the file and what to do, null when nothing did."),
    Field("rank", "int64", "Rank of the process in a distributed job, null when not a ranked capture."),
    Field("host", "text", "Name of the machine the process ran on."),
    Field(
        "stage",
        "text",
        "Pipeline stage that counted: ingest, clock, lifetimes, links, leaks, ledger; analyze: checks of the tables.",
        nullable=False,
    ),
    Field(
        "severity",
        "text",
        "info, data_loss or error in `diagnostics`; critical, warning or info in `findings`.",
        nullable=False,
    ),
    Field("detail", "text", "An example or an explanation in plain words."),
    _count("row_count", "Rows of all tables that came from the file.", nullable=False),
    _count("occurrence_count", "How many times it happened.", nullable=False),
    # identity
    Field(
        "process_id",
        "int64",
        "Process id on its host; negative when no file names it (one number a rank folder or file), 0 is the kernel.",
    ),
    Field("thread_id", "int64", "Thread id as the producer gives it (CUPTI: low 32 bits of pthread_self)."),
    Field("device_index", "int32", "CUDA device ordinal within the process."),
    Field(
        "stream_id",
        "int64",
        "Stream: CUPTI's stream id, or the cudaStream_t value in PyTorch snapshots; 0 is the default stream.",
    ),
    Field("context_id", "int64", "CUDA context id within the process."),
    Field("pool_id", "text", "Allocator memory pool as `owner,number`; `0,0` is the default pool."),
    Field("correlation_id", "int64", "API call number, unique within a process only."),
    Field("external_kind", "text", "Owner of an external id: custom0, custom1, custom2, openacc, openmp, unknown."),
    Field("external_id", "int64", "Framework operation number pushed around the API call."),
    Field("name", "text", "Name of the thing the row describes."),
    Field("domain", "text", "NVTX domain, empty for the default one."),
    Field("uuid", "text", "Device UUID."),
    Field("process_name", "text", "Command name of the process."),
    Field("cpu_index", "int32", "Processor it ran on."),
    Field("priority", "int64", "Stream priority."),
    Field("stream_flag", "text", "Stream kind: default, non_blocking, null, unknown."),
    Field("parent_context_id", "int64", "Context a green context was made from."),
    # clocks
    Field("clock_aligned", "bool", "Whether `*_ns` of the row are on the capture's clock.", nullable=False),
    Field("clock_position", "text", "Where in the file the clock pair was read: start, end or middle.", nullable=False),
    _ns("realtime_ns", "CLOCK_REALTIME of the pair.", nullable=False),
    _ns("monotonic_ns", "CLOCK_MONOTONIC of the pair."),
    _ns("boottime_ns", "CLOCK_BOOTTIME of the pair."),
    _ns("monotonic_raw_ns", "CLOCK_MONOTONIC_RAW of the pair."),
    _ns("width_ns", "Time it took to read the pair, its uncertainty."),
    Field(
        "method",
        "text",
        "How the file was put on the capture's clock: shared_allocations, shared_ranges, shared_tokens, clock_pairs, declared_realtime, same_clock (as another file), own_clock (nothing tells the time of day), manual, no_times (nothing in it has a time) or none.",
        nullable=False,
    ),
    Field(
        "reference_file_id", "int32", "File whose clock was the reference, null for header pairs and declared clocks."
    ),
    _count("anchor_count", "Anchors the offset was computed from.", nullable=False),
    _count("outlier_count", "Anchors left out as farther than 5 median absolute deviations.", nullable=False),
    _ns("offset_ns", "Added to the file's own timestamps: aligned = recorded + offset + drift × (recorded − origin)."),
    Field(
        "drift_ratio",
        "float64",
        "Relative drift of the file's clock (Theil–Sen), 0 with fewer than 8 anchors.",
        "ratio",
        False,
        limits=_ANY,
    ),
    _ns("origin_ns", "Recorded time the drift is counted from."),
    _ns("residual_p50_ns", "Median absolute residual of the anchors after alignment."),
    _ns("residual_p99_ns", "99th percentile of the absolute residuals."),
    _ns("check_offset_ns", "Offset by the second-best method, null when there is none."),
    _ns("check_difference_ns", "Offset of the second-best method minus the one used."),
    Field(
        "is_disagreement", "bool", "Whether the two methods differ by more than the residual and 1 ms.", nullable=False
    ),
    # time
    _ns("ts_ns", "When it happened."),
    _ns("start_ns", "When it began."),
    _ns("end_ns", "When it ended, null when it had not."),
    _ns("arrival_ns", "When the request arrived."),
    _ns("first_token_ns", "When the first token left."),
    _ns("queue_ns", "Duration from arrival to start."),
    _ns("latency_ns", "Duration from arrival to end."),
    # memory events
    Field(
        "level",
        "text",
        "tensor (caching allocator block), segment (range from the driver), driver (CUDA driver allocation) or host.",
        nullable=False,
    ),
    Field(
        "action",
        "text",
        "alloc, free_requested, free, map, unmap, create, release, oom, snapshot or other.",
        nullable=False,
    ),
    Field("address", "uint64", "Virtual address."),
    _bytes("size_bytes", "Size of the allocation, the copy or the file, as the record gives it."),
    Field(
        "memory_kind",
        "text",
        "device, pinned, pageable, managed, array, static (module globals), device_static or unknown; of the host also heap, slab and page.",
    ),
    Field("call_path_id", "int64", "Call path (root to leaf) in `call_paths`."),
    Field("return_code", "int64", "Return value of the call, 0 is success."),
    _bytes("device_free_bytes", "Free device memory the driver reported at an out-of-memory event."),
    _bytes("total_allocated_bytes", "Bytes the allocator had handed out on the device after the event."),
    _bytes("total_reserved_bytes", "Bytes the allocator held from the driver on the device after the event."),
    Field("user_metadata", "text", "User metadata string of the allocator event."),
    Field("compile_context", "text", "torch.compile context of the allocator event."),
    # api, gpu
    Field("api", "text", "runtime, driver, or osrt (operating system calls)."),
    Field("op", "text", "kernel, memcpy, memset, graph, migration or page_fault (unified memory)."),
    Field("sync_kind", "text", "event, stream_wait, stream, context or unknown."),
    Field("event_id", "int64", "CUDA event of the synchronisation."),
    Field("copy_kind", "text", "Direction of a copy: htod, dtoh, dtod, htoh, ptop, …"),
    Field("src_kind", "text", "Memory kind of the copy's source."),
    Field("dst_kind", "text", "Memory kind of the copy's destination."),
    Field("grid", "text", "Grid as `x,y,z`."),
    Field("block", "text", "Thread block as `x,y,z`."),
    Field("registers_per_thread", "int32", "Registers a thread."),
    _bytes("static_shared_bytes", "Static shared memory a block."),
    _bytes("dynamic_shared_bytes", "Dynamic shared memory a block."),
    _bytes(
        "shared_bytes", "Shared memory a block, static and dynamic in one, where the producer does not tell them apart."
    ),
    _bytes("local_memory_bytes", "Local memory reserved for the kernel."),
    Field("graph_id", "int64", "CUDA graph the operation belongs to."),
    Field("graph_node_id", "int64", "Node of the CUDA graph."),
    Field("overhead_kind", "text", "What the profiler spent the time on.", nullable=False),
    # stack samples
    Field(
        "event",
        "text",
        "What was sampled or counted, as the producer names it (cycles:u, page-faults, outstanding, …).",
        nullable=False,
    ),
    _count("sample_count", "Samples, or occurrences, that the row stands for.", nullable=False),
    Field(
        "weight",
        "int64",
        "What the samples weigh together, in `unit`: a period, bytes; null where only the count is known.",
    ),
    # kernel metrics
    Field("launch_index", "int64", "Number of the profiled kernel launch in its report, from 0.", nullable=False),
    Field("section", "text", "Section of the report the metric stands in."),
    Field("text_value", "text", "Value of a metric that is no number."),
    Field("gpu_op_file_id", "int32", "File of the linked row of `gpu_ops`.", nullable=False),
    Field("gpu_op_event_index", "int64", "`event_index` of the linked row of `gpu_ops`.", nullable=False),
    # KV blocks
    Field(
        "kv_event", "text", "request_start, request_end, alloc, free, ref, unref, write, read or other.", nullable=False
    ),
    Field("block_id", "int64", "KV block."),
    Field("sequence_number", "int64", "Order of the event as its producer counted."),
    Field("reference_count", "int64", "References of the block after the event.", "count"),
    # ranges, requests, tokens
    Field(
        "range_kind",
        "text",
        "push_pop, start_end, mark, annotation, step, operator, python, gpu or span (of a distributed trace).",
    ),
    Field("range_id", "int64", "Range in `ranges`; of an allocation, the innermost one that encloses it."),
    Field("range_path", "text", "Names of the open ranges, outermost first, joined by ` > `, numbers replaced by #."),
    Field("request_id", "text", "Request number or name as the log gives it."),
    Field("status", "text", "Status of the request, as text (200, 499, …)."),
    Field("request_kind", "text", "What the request was (step, chat, …) as the log says."),
    Field("model", "text", "Model the request asked for."),
    _count("prompt_tokens", "Prompt tokens."),
    _count("output_tokens", "Output tokens."),
    Field("attributes", "text", "Remaining keys of the record as a JSON object."),
    Field("token_index", "int64", "Position of the token in its request, from 0."),
    _bytes("rss_bytes", "Resident set size of the process."),
    _bytes("device_allocated_bytes", "Bytes the caching allocator had handed out."),
    # metrics
    Field("metric", "text", "Name of the series.", nullable=False),
    Field("labels", "text", "Labels as a JSON object with sorted keys."),
    Field("value", "float64", "Value of the sample."),
    Field("unit", "text", "Unit of the value: bytes, ratio, count, seconds, …"),
    # allocator state
    Field("segment_address", "uint64", "Address of the segment the block lies in."),
    Field("segment_type", "text", "small or large."),
    Field("is_expandable", "bool", "Whether the segment is expandable."),
    Field("block_state", "text", "active_allocated, active_pending_free or inactive.", nullable=False),
    Field("dump_index", "int32", "Which dump of the process it comes from: 0 is the last one.", nullable=False),
    _bytes("total_bytes", "Size of the segment or of the device."),
    _bytes("allocated_bytes", "Bytes taken from the level above (block size, after rounding)."),
    _bytes("active_bytes", "Bytes in blocks that are allocated or wait for a stream."),
    _bytes("requested_bytes", "Bytes the caller asked for, before rounding."),
    Field("setting", "text", "Value of an allocator setting as text.", nullable=False),
    # allocator over time
    Field(
        "moment",
        "text",
        "sample, peak (of what was reserved, handed out or waiting for a stream), oom or end.",
        nullable=False,
    ),
    _bytes("reserved_bytes", "Bytes the caching allocator held from the driver."),
    _bytes("inactive_bytes", "Reserved bytes in free blocks."),
    _bytes(
        "inactive_split_bytes",
        "The part of them in segments that also hold blocks in use: the driver can't have it back.",
    ),
    _count("segment_count", "Segments, pieces of expandable ones counted apart."),
    _count("free_block_count", "Free blocks."),
    _bytes("largest_free_bytes", "Size of the largest free block, null when there is none."),
    _bytes("mean_free_bytes", "Mean size of the free blocks."),
    Field("external_fragmentation_ratio", "float64", "1 − largest free block / free bytes.", "ratio"),
    Field(
        "internal_fragmentation_ratio",
        "float64",
        "Share of handed-out bytes that rounding adds to what was asked for.",
        "ratio",
    ),
    # call paths
    Field("frame_id", "int64", "Frame number: a hash of function, file, line and module.", nullable=False),
    Field("function", "text", "Function name, demangled where the producer did.", nullable=False),
    Field("file", "text", "Source file."),
    Field("line", "int32", "Line number in the source file."),
    Field("module", "text", "Shared object or binary."),
    Field("frame_ids", "list<int64>", "Frames, root first.", nullable=False),
    _count("depth_count", "Number of frames.", nullable=False),
    # devices
    Field("compute_capability", "text", "Compute capability as `major.minor`."),
    _count("multiprocessor_count", "Streaming multiprocessors."),
    # allocations
    Field("allocation_id", "int64", "Number of the allocation, stable for the same input.", nullable=False),
    Field("generation", "int64", "How many earlier allocations of the window had the same address.", nullable=False),
    _ns("alloc_ts_ns", "When it was allocated; null: before the window."),
    _ns("free_requested_ts_ns", "When its owner gave it back; null: never."),
    _ns("free_ts_ns", "When its bytes could be used again; null: live at the end."),
    Field("is_alloc_before_window", "bool", "Whether it was allocated before the recording began.", nullable=False),
    Field("is_free_inferred", "bool", "Whether its free was lost: the address was allocated again.", nullable=False),
    Field(
        "is_size_estimated",
        "bool",
        "Whether allocated_bytes is the allocator's rounding rule and not the dump's block size.",
        nullable=False,
    ),
    Field("alloc_correlation_id", "int64", "API call that allocated it."),
    Field("free_correlation_id", "int64", "API call that freed it."),
    Field("alloc_call_path_id", "int64", "Call path of the allocation."),
    Field("free_call_path_id", "int64", "Call path of the free."),
    Field("parent_allocation_id", "int64", "Allocation it lies in: tensor in segment, segment in driver allocation."),
    Field(
        "link",
        "text",
        "parent (address range), api_call (correlation id), native_stack (eBPF), range or request.",
        nullable=False,
    ),
    Field(
        "link_method",
        "text",
        "What the link rests on: address_and_time, correlation_id, address_size_time, thread_and_time, time_alone, containment;"
        " of kernels sequence (launches in a row) or name_grid_order.",
        nullable=False,
    ),
    Field(
        "linked_id",
        "text",
        "What is linked: allocation id, correlation id, call path id, range id or request id.",
        nullable=False,
    ),
    _ns("time_difference_ns", "Time between the two records."),
    # live bytes
    _bytes("live_bytes", "Bytes live after the event.", nullable=False),
    _count("live_count", "Allocations live after the event.", nullable=False),
    _bytes("pending_free_bytes", "Bytes given back by their owner and not yet usable again."),
    # epochs
    Field(
        "epoch_kind", "text", "What repeats: request, step, range family, repeated range, idle window or time window."
    ),
    Field(
        "epoch_index",
        "int64",
        "Number of the epoch within its process, from 0; -1 is before the first one, null means that the time is not known.",
    ),
    Field("epoch_name", "text", "Request id or range name of the epoch."),
    # KV anomalies
    Field("anomaly_id", "int64", "Number of the anomaly, in order of time.", nullable=False),
    Field(
        "anomaly",
        "text",
        "underflow, dangling, double_free, use_after_free, unpaired or out_of_bounds.",
        nullable=False,
    ),
    # out of memory
    Field("oom_event_id", "int64", "Number of the event, in order of time.", nullable=False),
    # suspects
    Field(
        "suspect_id",
        "int64",
        "Number of the judged group, 0 is the first to look at; null in `root_causes` for causes without one.",
    ),
    Field("suspect_rank", "int64", "Order of importance among growing suspects, from 1; null for other verdicts."),
    Field("verdict", "text", "growing, bounded, one_time or inconclusive.", nullable=False),
    Field("verdict_reason", "text", "Why, in words and numbers.", nullable=False),
    Field(
        "root_cause",
        "text",
        "kv_cache, autograd_graph, outside_allocator, host_memory, cuda_context, graph_pool, fragmentation, delayed_free, redundant_kv or unclassified; null unless growing.",
    ),
    Field("confidence", "float64", "Probability that the verdict holds, 0 to 1.", "ratio"),
    _count("retained_count", "Allocations of the group live at the end.", nullable=False),
    _bytes("retained_bytes", "Their allocated bytes.", nullable=False),
    _bytes("retained_requested_bytes", "Their requested bytes."),
    _bytes("retained_bytes_low", "Lower bound when the window is truncated."),
    _bytes("retained_bytes_high", "Upper bound when the window is truncated."),
    Field("growth_bytes_per_epoch", "float64", "Theil–Sen slope of live bytes over epochs.", "bytes", limits=_ANY),
    Field("growth_bytes_per_hour", "float64", "The same slope over time.", "bytes/h"),
    _count("epochs_count", "Epochs that were judged."),
    _count("surviving_epochs_count", "Epochs that have survivors."),
    Field("leak_path", "text", "Frames, root to leaf, one a line."),
    Field("attribute", "text", "Attribute that tells leaking epochs from the rest, `name=value`."),
    Field(
        "attribute_lift",
        "float64",
        "Share of leaking epochs with the attribute over their share without it (rule of succession).",
        "ratio",
        limits=(0, None),
    ),
    Field(
        "attribute_p_value",
        "float64",
        "Fisher's exact test of attribute against survivors, one-sided, times the values that could reach it.",
        "ratio",
    ),
    Field(
        "judged_by",
        "text",
        "What its allocations share: call_path, range_path, or api_call where neither is known; null where nothing is.",
    ),
    Field("member_count", "int64", "Call paths merged into the group.", "count"),
    # tokens, requests, SLOs
    Field("is_request_id_inferred", "bool", "Whether the log gave no id and file and row stand for it, `path#row`."),
    Field("fact", "text", "model, slo, period or capture: what part of capture.yaml it was said in.", nullable=False),
    Field("memory_side", "text", "rss (process) or device (caching allocator).", nullable=False),
    _count("request_count", "Requests looked at."),
    _count("token_count", "Tokens whose memory or time could be told from the token before."),
    Field("bytes_per_token_mean", "float64", "Mean growth from one token to the next.", "bytes", limits=_ANY),
    Field("bytes_per_token_deviation", "float64", "Standard deviation of that growth (sample, n - 1).", "bytes"),
    Field("bytes_per_token_p50", "float64", "Median growth a token.", "bytes", limits=_ANY),
    Field("bytes_per_token_p95", "float64", "95th percentile of the growth a token.", "bytes", limits=_ANY),
    Field("bytes_per_token_p99", "float64", "99th percentile of the growth a token.", "bytes", limits=_ANY),
    _bytes("expected_bytes_per_token", "Bytes a token's keys and values take by the model's facts in capture.yaml."),
    Field(
        "actual_to_expected_ratio", "float64", "Median growth a token over the expected bytes.", "ratio", limits=_ANY
    ),
    _bytes(
        "first_level_bytes", "Lowest level of the first request's tokens, less what its prompt explains.", limits=_ANY
    ),
    _bytes("last_level_bytes", "The same of the last request.", limits=_ANY),
    Field(
        "kept_bytes_per_request",
        "float64",
        "Theil–Sen slope of the process's levels over its requests.",
        "bytes",
        limits=_ANY,
    ),
    Field("kept_p_value", "float64", "Mann–Kendall p-value that the levels rise, one-sided.", "ratio"),
    _ns("interval_p50_ns", "Median time from one token of a request to the next."),
    _ns("interval_p99_ns", "99th percentile of that time."),
    Field("interval_slope_ns", "float64", "Time that each further position adds to the token interval.", "ns"),
    Field("interval_slope_low_ns", "float64", "Lower end of the slope's 95 % confidence interval.", "ns"),
    Field("interval_slope_high_ns", "float64", "Upper end of the slope's 95 % confidence interval.", "ns"),
    Field(
        "interval_trend",
        "text",
        "level, linear or superlinear: how the token interval grows with the position; null when not known.",
    ),
    _count("last_position", "Highest token index that the fit saw."),
    Field("measure", "text", "latency, first_token, queue or token_interval.", nullable=False),
    _count("measured_count", "Requests (or tokens) that the measure is known of."),
    _ns("mean_ns", "Mean."),
    _ns("p50_ns", "50th percentile."),
    _ns("p95_ns", "95th percentile."),
    _ns("p99_ns", "99th percentile."),
    _ns("max_ns", "Highest value; null for histograms."),
    Field("error_ratio", "float64", "Share of requests that failed.", "ratio"),
    Field("truncation_ratio", "float64", "Share of requests whose answer was cut.", "ratio"),
    Field(
        "objective",
        "text",
        "latency_p99, short_latency_p95, first_token_p95, error_ratio or truncation_ratio.",
        nullable=False,
    ),
    Field(
        "window_kind",
        "text",
        "time, count (of requests), server (since it started), before, during or after a period.",
        nullable=False,
    ),
    Field("period", "text", "Period of capture.yaml that the window belongs to."),
    _count("bad_count", "Requests that break the objective by themselves."),
    Field("target", "float64", "Highest value that meets the objective.", nullable=False),
    Field("slo_verdict", "text", "met, missed or abstained.", nullable=False),
    Field("configuration", "text", "Configuration that the requests ran under, as capture.yaml names it."),
    Field(
        "requests_per_second", "float64", "Requests that ended without error, over the time from first to last.", "1/s"
    ),
    Field("tokens_per_second", "float64", "Output tokens over the same time.", "1/s"),
    Field("latency_score", "float64", "(target - P99 latency) / target, clamped to 0..1: 1 is best.", "ratio"),
    Field("throughput_score", "float64", "Requests a second over their target, clamped to 0..1: 1 is best.", "ratio"),
    Field(
        "is_on_front", "bool", "Whether no other row of the capture is better in one score and no worse in the other."
    ),
    # hotspots
    Field("hotspot_id", "int64", "Number of the row.", nullable=False),
    Field(
        "hotspot_kind",
        "text",
        "cpu_path, cpu_function, gpu_path, gpu_function, gpu_range, gpu_kernel, gpu_share (what the device worked on), gpu_type"
        " (width of its numbers), operand_type (bytes that operators read), recomputation, rounding or profiled_kernel.",
        nullable=False,
    ),
    Field("hotspot_event", "text", "What was sampled (cycles:u, cpu-clock, …), or the operation of a kernel row."),
    Field("is_other", "bool", "Whether the row sums what has no row of its own.", nullable=False),
    _count("call_count", "Samples, launches, calls or tensors that the row stands for."),
    Field(
        "self_amount",
        "int64",
        "What it takes itself, in `unit`: time, periods, samples, calls, bytes lost to rounding.",
    ),
    Field(
        "total_amount",
        "int64",
        "The same with all that it calls, in `unit`; of rounding the bytes of the tensors, rounding included.",
    ),
    Field("self_ratio", "float64", "self_amount over its sum: one kind and event of one process and device.", "ratio"),
    Field("total_ratio", "float64", "total_amount over the same sum; of rounding over the tensors' bytes.", "ratio"),
    Field(
        "compute_ratio",
        "float64",
        "Compute throughput against its peak, mean weighed by time.",
        "ratio",
        limits=(0, None),
    ),
    Field(
        "memory_ratio",
        "float64",
        "Memory throughput against its peak, mean weighed by time.",
        "ratio",
        limits=(0, None),
    ),
    Field("occupancy_ratio", "float64", "Achieved occupancy, mean weighed by time.", "ratio", limits=(0, None)),
    Field("calls_per_token_early", "float64", "Mean calls a token at the first third of the positions."),
    Field("calls_per_token_late", "float64", "Mean calls a token at the last third of the positions."),
    Field("rise_p_value", "float64", "Seasonal Kendall p-value that calls rise with the position, one-sided.", "ratio"),
    # stalls and gaps
    Field("stall_id", "int64", "Number of the stall, in order of time; of a gap, the wait that was on when it began."),
    Field(
        "stall_kind",
        "text",
        "synchronize, synchronous_copy, pageable_copy, allocation, context, graph (instantiation), module or eager_fallback.",
        nullable=False,
    ),
    _ns("duration_ns", "Time from start to end."),
    Field("is_hot", "bool", "Whether it began in the regular work of its process; null when that is not known."),
    _count("launch_count", "Kernels launched one by one."),
    Field("cost_id", "int64", "Number of the row.", nullable=False),
    Field("is_total", "bool", "Whether the row sums all stalls of its kind in the process.", nullable=False),
    _count("stall_count", "Stalls of the row.", nullable=False),
    _ns("total_ns", "Their durations, threads that stall at the same time counted each."),
    _ns("union_ns", "Time in which at least one of them was on; at most window_ns."),
    _ns("window_ns", "Time over which calls of the process were recorded."),
    _count("hot_count", "Those that began in the regular work of the process; null when that is not known."),
    _ns("hot_ns", "The part of union_ns in the regular work; at most hot_window_ns."),
    _ns("hot_p50_ns", "Median duration of those in the regular work."),
    _ns("hot_max_ns", "Longest duration of those in the regular work."),
    _ns("hot_window_ns", "Length of the regular work."),
    Field(
        "hot_by",
        "text",
        "What tells the regular work: request, step, range family or repeated range (all but the first), or launches (after a tenth of them).",
    ),
    Field("activity_id", "int64", "Number of the row.", nullable=False),
    Field("gap_id", "int64", "Number of the gap.", nullable=False),
    _ns("busy_ns", "Time in which the device ran at least one operation."),
    _ns("idle_ns", "Time in which it ran none; with busy_ns the time from start to end."),
    _ns("sync_idle_ns", "The part of idle_ns in which a thread that feeds the device waited for it."),
    _ns(
        "launch_idle_ns", "The part in which work was on its way: from the start of a launch to that of its operation."
    ),
    _ns("host_idle_ns", "The part in which the host did something else."),
    _ns("unknown_idle_ns", "The part in which no calls were recorded."),
    Field("idle_cause", "text", "sync, launch, host or unknown: the largest part.", nullable=False),
    _count("gap_count", "Gaps between operations."),
    _ns("longest_gap_ns", "The longest of them."),
    _count("op_count", "Operations of the device."),
    _count("stream_count", "Streams they ran on."),
    Field("pair_id", "int64", "Number of the pair.", nullable=False),
    Field("other_stream_id", "int64", "The stream it is compared with."),
    _count("burst_count", "Bursts of the stream: operations without a pause."),
    _count("other_burst_count", "Bursts of the other stream."),
    _count("matched_count", "Bursts that start and stop with one of the other stream."),
    Field("lockstep_ratio", "float64", "Matched bursts over those of the stream that has more.", "ratio"),
    Field("is_lockstep", "bool", "Whether the streams start and stop together.", nullable=False),
    # comparison
    Field("comparison_id", "int64", "Order of the row, 0 is read first.", nullable=False),
    Field(
        "comparison_scope",
        "text",
        "check (whether the captures are comparable), setting (of the allocator), capture (before/after) or call_path.",
        nullable=False,
    ),
    Field(
        "quantity",
        "text",
        "What is compared: leak_growth, peak_bytes, end_bytes, …, or a setting's name.",
        nullable=False,
    ),
    Field("compared_level", "text", "tensor, segment, driver or host, of a call path."),
    Field("compared_kind", "text", "Kind of memory, of a call path."),
    Field(
        "compared_path", "text", "Frames that both captures share, root to leaf, one a line: no lines and addresses."
    ),
    Field("baseline_value", "float64", "The baseline's value in `unit`."),
    Field("candidate_value", "float64", "The candidate's value in `unit`."),
    Field("baseline_text", "text", "The baseline's value where it is no number."),
    Field("candidate_text", "text", "The candidate's value where it is no number."),
    Field("change_value", "float64", "Candidate - baseline, in `unit`."),
    Field("change_low", "float64", "Lower end of its interval; null where nothing varies by epoch."),
    Field("change_high", "float64", "Upper end of its interval."),
    Field("change_ratio", "float64", "The change as a share of the baseline.", "ratio"),
    Field(
        "change_verdict",
        "text",
        "improved, regressed, unchanged or inconclusive; null where no direction is better.",
    ),
    Field("change_reason", "text", "Why, where it is not plain from the numbers."),
    # a process on a device
    _bytes("torch_allocated_bytes", "Of the last bytes: what PyTorch has handed out."),
    _bytes("torch_cached_bytes", "Of the last bytes: what PyTorch holds and has not handed out.", limits=_ANY),
    _bytes("outside_bytes", "Of the last bytes: driver allocations that are no segment's."),
    _bytes("context_bytes", "Of the last bytes: the CUDA context and its modules."),
    _bytes("unattributed_bytes", "Of the last bytes: what nothing explains.", limits=_ANY),
    _count("impossible_count", "Samples whose counters contradict each other.", nullable=False),
    # the host's memory
    Field("cgroup", "text", "Path of the cgroup; empty is the host itself.", nullable=False),
    _bytes("memory_bytes", "Bytes it held, the most; of a host what is not available."),
    _bytes("high_bytes", "memory.high: above it the cgroup is throttled; null where there is no limit."),
    _bytes("limit_bytes", "memory.max, of a host its memory; null where there is no limit."),
    _count("high_event_count", "Times it was throttled for being above memory.high."),
    _count("max_event_count", "Times it was about to go above memory.max and had to reclaim."),
    _count("oom_event_count", "Times it could not reclaim enough."),
    _count("kill_count", "Processes killed for lack of memory."),
    Field("some_stalled_ratio", "float64", "Share of the time in which some task waited for memory.", "ratio"),
    Field("full_stalled_ratio", "float64", "Share of the time in which all tasks waited for memory.", "ratio"),
    Field("is_pressed", "bool", "Whether memory was under pressure in the window: events, or stalls.", nullable=False),
    _count("pressed_window_count", "Windows under memory pressure.", nullable=False),
    _count("calm_window_count", "The other windows.", nullable=False),
    Field("highest_stalled_ratio", "float64", "Highest share of a window in which some task waited.", "ratio"),
    _count("pressed_request_count", "Requests that ran in a window under pressure, if only in part.", nullable=False),
    _count("calm_request_count", "Requests that ran meanwhile and in none.", nullable=False),
    _ns("pressed_p95_ns", "95th percentile of the latency of requests under pressure."),
    _ns("calm_p95_ns", "95th percentile of the latency of the others."),
    Field(
        "pressure_p_value",
        "float64",
        "Mann–Whitney p-value that requests under pressure are slower, one-sided.",
        "ratio",
    ),
    Field("node_index", "int32", "NUMA node.", nullable=False),
    Field("memory_part", "text", "used, slab, slab_unreclaimable, anonymous, file or process.", nullable=False),
    _bytes("first_bytes", "Bytes at the first sample."),
    _bytes("last_bytes", "Bytes at the last sample."),
    _bytes("highest_bytes", "Bytes at the highest sample."),
    Field("node_share_ratio", "float64", "Share of the bytes of all nodes that lie on this one, at the end.", "ratio"),
    Field("growth_p_value", "float64", "Mann–Kendall p-value that the series rises, one-sided.", "ratio"),
    _count("local_page_count", "Pages of 4 KiB handed out to processes that ran on the node."),
    _count("remote_page_count", "Pages of 4 KiB handed out to processes that ran on another node."),
    _count("miss_page_count", "Pages of 4 KiB handed out because the node wanted had none."),
    _count("foreign_page_count", "Pages of 4 KiB wanted here and handed out by another node."),
    Field("remote_ratio", "float64", "Share of the pages that went to processes on another node.", "ratio"),
    # root causes, ledger, findings
    Field("root_cause_id", "int64", "Number of the row.", nullable=False),
    Field("evidence_for", "list<text>", "What speaks for it, with numbers.", nullable=False),
    Field("evidence_against", "list<text>", "What speaks against it."),
    Field("holder_rank", "int64", "1 is who held most.", nullable=False),
    Field("holder", "text", "Innermost frame of the program's own code, else of any.", nullable=False),
    _bytes("held_bytes", "Tensors' bytes that it held at the failure.", nullable=False),
    _count("held_count", "Tensors that it held at the failure.", nullable=False),
    Field(
        "remedy",
        "text",
        "expandable_segments, max_split_size_mb, garbage_collection_threshold, synchronize, one_stream, fewer_graph_pools, other_processes or memory_limit.",
        nullable=False,
    ),
    Field("would_help", "bool", "Whether the request would have fitted; null when that is not known."),
    _bytes("room_bytes", "Bytes that it would have made usable, besides what the device had free."),
    _bytes("private_reserved_bytes", "Reserved bytes in private pools (CUDA graphs'); null where no pool is known."),
    _bytes("private_inactive_bytes", "Free bytes in private pools, which nothing else can use."),
    _count("cause_count", "Rows of `root_causes` with it; null when it could not be judged."),
    Field("reason", "text", "Why it does not hold, where it does not; of a remedy why it would have helped or not."),
    Field("advice", "text", "What to do, null when there is nothing to do."),
    Field("next_measurement", "text", "What to capture next to be surer."),
    Field("bytes", "int64", "Bytes concerned.", "bytes"),
    Field(
        "ledger_part",
        "text",
        "device_total, device_used, torch_allocated, torch_cached, driver_outside, context_and_modules, unattributed, other_process or free.",
        nullable=False,
    ),
    Field("part_bytes", "int64", "Bytes of the part, null when not known.", "bytes", limits=_ANY),
    Field("is_impossible", "bool", "Whether the counters contradict each other (see detail).", nullable=False),
    Field("finding_id", "int64", "Order of the finding, 0 is read first.", nullable=False),
    Field(
        "finding_kind",
        "text",
        "leak, kv_blocks, fragmentation, oom, cuda_context, graph_pool, delayed_free, redundant_kv, symptom, slo, host_pressure, numa, stall, idle, hotspot, clock, data_loss, ledger, no_leak or abstained.",
        nullable=False,
    ),
    Field("title", "text", "The finding in one sentence.", nullable=False),
    Field("evidence", "text", "Rows it rests on, as a JSON list of {table, where}."),
    Field("abstained_reason", "text", "What is missing, when no judgement was made."),
)

FIELDS: dict[str, Field] = {field.name: field for field in _FIELDS}
if len(FIELDS) != len(_FIELDS):
    raise ValueError("a column name is defined twice")
