"""What an analysis says of the sample capture, the allocator's state in it, and how its files were read."""

from __future__ import annotations

from typing import Any


def judged_tables() -> dict[str, list[dict[str, Any]]]:
    """Rows of the tables that hold judgements, allocator state and limits."""
    mb = 1_000_000
    block = {
        "file_id": 0,
        "source": "torch",
        "dump_index": 0,
        "process_id": 7,
        "device_index": 0,
        "segment_address": 4096,
    }
    return {
        "leak_suspects": [
            {
                "suspect_id": 0,
                "suspect_rank": 1,
                "level": "tensor",
                "verdict": "growing",
                "verdict_reason": "4 survivors from 2 of 6 requests",
                "root_cause": "kv_cache",
                "confidence": 0.97,
                "retained_count": 4,
                "retained_bytes": 4 * mb,
                "retained_requested_bytes": 4 * mb - 400,
                "growth_bytes_per_epoch": 666_666.7,
                "growth_bytes_per_hour": 2.4e9,
                "epoch_kind": "request",
                "epochs_count": 6,
                "surviving_epochs_count": 2,
                "process_id": 7,
                "device_index": 0,
                "call_path_id": 100,
                "member_count": 1,
                "leak_path": "main (/srv/app/serve.py:10)\n"
                "Store.remember (/srv/app/store.py:42)\n"
                "empty (/x/site-packages/torch/functional.py:3)",
                "range_path": "request:#",
                "attribute": "status=499",
                "attribute_lift": 4.5,
                "attribute_p_value": 0.067,
            },
            {
                "suspect_id": 1,
                "level": "tensor",
                "verdict": "one_time",
                "verdict_reason": "all of the first request",
                "retained_count": 1,
                "retained_bytes": 8 * mb,
                "process_id": 7,
                "device_index": 0,
                "call_path_id": 101,
                "leak_path": "main (/srv/app/serve.py:10)",
            },
        ],
        "root_causes": [
            {
                "root_cause_id": 0,
                "suspect_id": 0,
                "root_cause": "kv_cache",
                "confidence": 0.9,
                "process_id": 7,
                "device_index": 0,
                "bytes": 4 * mb,
                "evidence_for": ["2 equal tensors a request"],
                "evidence_against": ["no cache class on the path"],
                "advice": "Drop the session when its request is cancelled.",
                "next_measurement": "Record with frames of the cache class.",
            },
            {
                "root_cause_id": 1,
                "suspect_id": -1,
                "root_cause": "cuda_context",
                "confidence": 0.8,
                "process_id": 99,
                "device_index": 0,
                "bytes": 10 * mb,
                "evidence_for": ["process 99 holds memory and allocates nothing"],
                "evidence_against": [],
                "advice": "End process 99.",
            },
        ],
        "findings": [
            {
                "finding_id": 0,
                "finding_kind": "leak",
                "severity": "critical",
                "title": "KV cache of cancelled requests is kept",
                "confidence": 0.97,
                "bytes": 4 * mb,
                "evidence": '[{"table": "leak_suspects", "where": "suspect_id = 0"}]',
                "advice": "Drop the session.",
            },
            {
                "finding_id": 1,
                "finding_kind": "cuda_context",
                "severity": "warning",
                "title": "Process 99 holds 10 MB and does nothing",
                "advice": "End process 99.",
                "bytes": 10 * mb,
            },
        ],
        "segments": [
            {
                "file_id": 0,
                "source": "torch",
                "dump_index": 0,
                "process_id": 7,
                "device_index": 0,
                "address": 4096,
                "total_bytes": 50 * mb,
                "allocated_bytes": 32 * mb,
                "active_bytes": 33 * mb,
                "segment_type": "large",
                "pool_id": "0,0",
            },
        ],
        "blocks": [
            block | {"address": 4096, "allocated_bytes": 32 * mb, "block_state": "active_allocated"},
            block | {"address": 5000, "allocated_bytes": mb, "block_state": "active_pending_free"},
            block | {"address": 6000, "allocated_bytes": 12 * mb, "block_state": "inactive"},
            block | {"address": 7000, "allocated_bytes": 5 * mb, "block_state": "inactive"},
        ],
        "capture_files": [
            {
                "file_id": 0,
                "path": "snapshot.pickle",
                "format": "torch_snapshot",
                "size_bytes": 5000,
                "clock": "realtime",
                "read_state": "read",
                "row_count": 40,
            },
            {
                "file_id": 1,
                "path": "bpftrace.txt",
                "format": "bpftrace_cuda",
                "size_bytes": 900,
                "clock": "monotonic",
                "read_state": "partial",
                "row_count": 12,
                "message": "cut in the middle of a line",
            },
        ],
        "clock_alignments": [
            {"file_id": 0, "clock": "realtime", "method": "declared_realtime", "offset_ns": 0, "clock_aligned": True},
            {
                "file_id": 1,
                "clock": "monotonic",
                "method": "shared_allocations",
                "anchor_count": 20,
                "offset_ns": 5_000_000_000,
                "residual_p50_ns": 90_000,
                "residual_p99_ns": 180_000,
                "clock_aligned": True,
            },
        ],
        "diagnostics": [
            {
                "stage": "ingest",
                "file_id": 1,
                "name": "truncated_line",
                "severity": "data_loss",
                "occurrence_count": 1,
                "detail": "line 900",
            },
            {"stage": "lifetimes", "name": "free_without_alloc", "severity": "info", "occurrence_count": 3},
        ],
    }
