"""A small made-up capture with one leak, one workspace and an idle process, in every table the report reads."""

from __future__ import annotations

from typing import Any

from tests.reports.builders import SECOND, START


def leaking_capture() -> dict[str, list[dict[str, Any]]]:
    """Six requests of process 7 on device 0, one a second; requests 1 and 4 (status 499) keep two tensors of 1 MB each.

    Request 0 leaves a workspace of 8 MB, two tensors of 3 MB each live for half a second in every request, and
    weights of 20 MB were there before. At tensor level 32 MB are live at the end; the peak is at the last request's
    two tensors: 20 + 8 + 4 + 6 = 38 MB.
    """
    mb = 1_000_000
    frames = [
        {"frame_id": 1, "function": "main", "file": "/srv/app/serve.py", "line": 10},
        {"frame_id": 2, "function": "Store.remember", "file": "/srv/app/store.py", "line": 42},
        {
            "frame_id": 3,
            "function": "forward",
            "file": "/usr/lib/python3/site-packages/torch/nn/modules/module.py",
            "line": 7,
        },
    ]
    call_paths = [
        {"call_path_id": 100, "frame_ids": [1, 2], "depth_count": 2},
        {"call_path_id": 101, "frame_ids": [1, 3], "depth_count": 2},
    ]
    place = {"process_id": 7, "device_index": 0, "level": "tensor", "source": "torch"}
    allocations: list[dict[str, Any]] = [
        place | {"allocation_id": 1, "allocated_bytes": 20 * mb, "is_alloc_before_window": True},
        place
        | {
            "allocation_id": 2,
            "allocated_bytes": 8 * mb,
            "alloc_ts_ns": START + SECOND // 10,
            "alloc_call_path_id": 101,
            "request_id": "0",
        },
    ]
    evidence, spans, epochs, live = [], [], [], [{"ts_ns": START, "live_bytes": 20 * mb}]
    kept = 28
    for number in range(6):
        start = START + number * SECOND
        status = "499" if number in (1, 4) else "200"
        span = {"process_id": 7, "request_id": str(number), "start_ns": start, "end_ns": start + SECOND * 9 // 10}
        spans.append(
            span
            | {
                "status": status,
                "model": "small",
                "prompt_tokens": 64 + number,
                "output_tokens": 5,
                "attributes": '{"tier": "free"}',
            }
        )
        epochs.append(span | {"epoch_index": number, "epoch_kind": "request", "epoch_name": str(number)})
        for half in range(2):
            allocations.append(
                place
                | {
                    "allocation_id": 10 + 10 * number + half,
                    "allocated_bytes": 3 * mb,
                    "alloc_call_path_id": 101,
                    "alloc_ts_ns": start + SECOND * 2 // 10,
                    "free_ts_ns": start + SECOND * 7 // 10,
                }
            )
        live += [
            {"ts_ns": start + SECOND * 2 // 10, "live_bytes": (kept + 6) * mb},
            {"ts_ns": start + SECOND * 7 // 10, "live_bytes": kept * mb},
        ]
        if status == "499":
            for half in range(2):
                kept += 1
                allocation = {
                    "allocation_id": 15 + 10 * number + half,
                    "allocated_bytes": mb,
                    "requested_bytes": mb - 100,
                    "request_id": str(number),
                }
                allocations.append(
                    place | allocation | {"alloc_ts_ns": start + SECOND * 8 // 10, "alloc_call_path_id": 100}
                )
                evidence.append(allocation | {"suspect_id": 0, "epoch_index": number, "call_path_id": 100})
            live.append({"ts_ns": start + SECOND * 8 // 10, "live_bytes": kept * mb})
    ledger = []
    for number in range(7):
        parts = {
            "device_total": 1000,
            "device_used": 90 + number,
            "torch_allocated": 28 + number,
            "torch_cached": 22,
            "context_and_modules": 30,
            "unattributed": 0,
            "other_process": 10,
        }
        ledger += [
            {
                "ts_ns": START + number * SECOND,
                "device_index": 0,
                "process_id": 7 if part.startswith(("torch", "context")) else None,
                "ledger_part": part,
                "part_bytes": size * mb,
            }
            for part, size in parts.items()
        ]
    return {
        "frames": frames,
        "call_paths": call_paths,
        "allocations": allocations,
        "request_spans": spans,
        "epochs": epochs,
        "live_bytes": [{"process_id": 7, "device_index": 0, "level": "tensor"} | row for row in live],
        "memory_ledger": ledger,
        "leak_evidence": evidence,
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
                "leak_path": "main (/srv/app/serve.py:10)\nStore.remember (/srv/app/store.py:42)\nempty (/x/site-packages/torch/functional.py:3)",
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
            {
                "file_id": 0,
                "source": "torch",
                "dump_index": 0,
                "process_id": 7,
                "device_index": 0,
                "segment_address": 4096,
                "address": 4096,
                "allocated_bytes": 32 * mb,
                "block_state": "active_allocated",
            },
            {
                "file_id": 0,
                "source": "torch",
                "dump_index": 0,
                "process_id": 7,
                "device_index": 0,
                "segment_address": 4096,
                "address": 5000,
                "allocated_bytes": mb,
                "block_state": "active_pending_free",
            },
            {
                "file_id": 0,
                "source": "torch",
                "dump_index": 0,
                "process_id": 7,
                "device_index": 0,
                "segment_address": 4096,
                "address": 6000,
                "allocated_bytes": 12 * mb,
                "block_state": "inactive",
            },
            {
                "file_id": 0,
                "source": "torch",
                "dump_index": 0,
                "process_id": 7,
                "device_index": 0,
                "segment_address": 4096,
                "address": 7000,
                "allocated_bytes": 5 * mb,
                "block_state": "inactive",
            },
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
