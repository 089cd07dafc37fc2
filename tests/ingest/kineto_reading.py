"""What a Kineto trace says, read with plain `json` and exact decimals, to hold the importer's tables against."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from tests.ingest.support import SHARED

CORPUS = SHARED / "corpus" / "kineto"
GPU = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
GPU |= {"Kernel": "kernel", "Memcpy": "memcpy", "Memset": "memset"}
API = {"cuda_runtime": "runtime", "cuda_driver": "driver", "Runtime": "runtime"}
OPERATORS = ("cpu_op", "Operator")

Events = list[dict[str, Any]]


def load(path: Path) -> tuple[Events, int]:
    """Events with times as decimals, and the base of their times in ns."""
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    trace = json.loads(text, parse_float=Decimal)
    if isinstance(trace, list):
        return trace, 0
    return trace["traceEvents"], trace.get("baseTimeNanoseconds", 0)


def ns(value: Decimal | int) -> int:
    """µs as ns; AssertionError when that is no whole number."""
    exact = Decimal(value) * 1000
    assert exact == int(exact)
    return int(exact)


def of(events: Events, *categories: str) -> Events:
    return [event for event in events if event.get("ph") == "X" and event.get("cat") in categories]


def shown(name: str) -> str:
    """A name as the tables hold it: template names of more than 4096 characters are cut."""
    return name if len(name) <= 4096 else f"{name[:4096]}… ({len(name)} characters)"


def kernel_sums(events: Events) -> dict[str, int]:
    """Name → ns of all kernels of that name."""
    sums: Counter[str] = Counter()
    for event in of(events, "kernel", "Kernel"):
        sums[shown(event["name"])] += ns(event["dur"])
    return dict(sums)


def launches(events: Events) -> Counter[tuple[str, str | None]]:
    """(kernel, call that launched it) → how often, by correlation."""
    calls = {event["args"]["correlation"]: event["name"] for event in of(events, *API)}
    kernels = of(events, "kernel", "Kernel")
    return Counter((shown(event["name"]), calls.get(event["args"]["correlation"])) for event in kernels)


def memory(events: Events, base: int) -> Counter[tuple[object, ...]]:
    """(time, thread, host?, device, address, signed bytes, allocated, reserved) of `[memory]` events."""
    rows = []
    for event in events:
        if event.get("name") == "[memory]":
            args = event["args"]
            is_host = args["Device Type"] == 0
            device = None if is_host else args["Device Id"]
            totals = (args.get("Total Allocated"), args.get("Total Reserved"))
            time = base + ns(event["ts"])
            rows.append((time, int(event["tid"]), is_host, device, args.get("Addr"), args["Bytes"], *totals))
    return Counter(rows)


def memory_rows(table: pl.DataFrame) -> Counter[tuple[object, ...]]:
    sign = pl.when(pl.col("action") == "free").then(-1).otherwise(1)
    columns = ("ts_ns", "thread_id", pl.col("level") == "host", "device_index", "address", pl.col("size_bytes") * sign)
    return Counter(table.select(*columns, "total_allocated_bytes", "total_reserved_bytes").rows())


def python_name(name: str) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", name)


def python_stacks(events: Events) -> dict[tuple[int, Decimal], list[str]]:
    """(thread, time) of each `[memory]` event → Python functions around it, by the profiler's own parent ids."""
    calls = of(events, "python_function")
    by_id = {event["args"]["Python id"]: event for event in calls}
    by_thread: dict[int, Events] = {}
    for event in calls:
        by_thread.setdefault(event["tid"], []).append(event)
    stacks = {}
    for event in events:
        if event.get("name") != "[memory]" or (event["tid"], event["ts"]) in stacks:
            continue
        open_calls = [
            call for call in by_thread.get(event["tid"], []) if call["ts"] <= event["ts"] <= call["ts"] + call["dur"]
        ]
        stack: list[str] = []
        call = max(open_calls, key=lambda call: call["args"]["Python id"], default=None)
        while call is not None:
            stack.append(python_name(call["name"]))
            call = by_id.get(call["args"]["Python parent id"])
        stacks[event["tid"], event["ts"]] = stack[::-1]
    return stacks


def paths_of(tables: dict[str, pl.DataFrame]) -> dict[int, list[str]]:
    """call_path_id → frames as PyTorch names them, root first."""
    frames = {
        number: function if file is None else f"{file}({line}): {function}"
        for number, function, file, line in tables["frames"].select("frame_id", "function", "file", "line").rows()
    }
    paths = tables["call_paths"].select("call_path_id", "frame_ids").rows()
    return {number: [frames[frame] for frame in path] for number, path in paths}
