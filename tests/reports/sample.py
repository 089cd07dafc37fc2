"""A small made-up capture with one leak, one workspace and an idle process, in every table the report reads."""

from __future__ import annotations

from typing import Any

from tests.reports.builders import SECOND, START
from tests.reports.sample_judged import judged_tables


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
        **judged_tables(),
    }
