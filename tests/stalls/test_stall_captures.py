"""Stalls and gaps of recorded traces of CUPTI and Kineto, against their records read as plain JSON."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.capture import capture_files
from pipeline.steps import ingest
from tests.ingest.support import SHARED
from tests.stalls.support import from_tables

CAPTURES = SHARED / "captures"
pytestmark = pytest.mark.skipif(not CAPTURES.exists(), reason="the recorded captures are not beside the checkout")

Record = tuple[str, int, int, int | None]
"""Name, start and end in ns, correlation id."""


def _kineto(path: Path) -> Iterator[tuple[str, Record, bool]]:
    """(call, op), its record, and whether a side of a copy is pageable."""
    with gzip.open(path) as stream:
        trace = json.load(stream)
    for event in trace["traceEvents"]:
        kind = {"cuda_runtime": "call", "cuda_driver": "call"}.get(event.get("cat"))
        kind = kind or ("op" if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") else None)
        if kind:
            start = round(event["ts"] * 1000)
            span = start, start + round(event["dur"] * 1000)
            number = event.get("args", {}).get("correlation")
            yield kind, (event["name"], *span, number), "Pageable" in event["name"]


def _cupti(path: Path) -> Iterator[tuple[str, Record, bool]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for row in map(json.loads, stream):
            kind = {"RUNTIME": "call", "DRIVER": "call", "CONCURRENT_KERNEL": "op", "MEMCPY": "op", "MEMSET": "op"}.get(
                row["kind"]
            )
            if kind:
                is_pageable = row["kind"] == "MEMCPY" and 1 in (row["src_kind"], row["dst_kind"])
                name = str(row.get("name", "")).split("_v")[0]
                yield kind, (name, row["start"], row["end"], row["correlation_id"]), is_pageable


def _union(spans: list[tuple[int, int]]) -> int:
    covered, until = 0, 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, until))
        until = max(until, end)
    return covered


@pytest.mark.parametrize(
    ("name", "reader"),
    [("kv_leak_kineto/kineto.json.gz", _kineto), ("expandable/cupti.jsonl.gz", _cupti)],
)
def test_sums_equal_those_of_the_records(tmp_path: Path, name: str, reader: Any) -> None:
    path = CAPTURES / name
    (tmp_path / "in").mkdir()
    shutil.copyfile(path, tmp_path / "in" / "trace.bin")
    ingest(capture_files(tmp_path / "in"), tmp_path / "in", tmp_path / "out")
    database = from_tables(tmp_path / "out", tmp_path / "duckdb")
    calls: list[Record] = []
    ops: list[Record] = []
    pageable = set()
    for kind, record, is_pageable in reader(path):
        (calls if kind == "call" else ops).append(record)
        if is_pageable:
            pageable.add(record[3])

    slack = 2 if reader is _kineto else 0  # ns a record: its times are fractions of a microsecond
    for call in ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMalloc", "cudaFree", "cudaHostAlloc"):
        own = [end - start for label, start, end, _ in calls if label == call]
        [(count, total)] = database.rows(
            f"SELECT count(*), coalesce(sum(duration_ns), 0) FROM sync_stalls WHERE name = '{call}'"
        )
        assert count == len(own) > 0, call
        assert abs(total - sum(own)) <= slack * count, call
    copies = [end - start for label, start, end, number in calls if number in pageable and "Async" in label]
    [(count, total)] = database.rows(
        "SELECT count(*), sum(duration_ns) FROM sync_stalls WHERE stall_kind = 'pageable_copy'"
    )
    assert count == len(copies) > 20
    assert abs(total - sum(copies)) <= slack * count

    spans = [(start, end) for _, start, end, _ in ops if end > start]
    length = max(end for _, end in spans) - min(start for start, _ in spans)
    [(busy, idle, *parts, unknown, gaps)] = database.rows(
        "SELECT busy_ns, idle_ns, sync_idle_ns, launch_idle_ns, host_idle_ns, unknown_idle_ns, gap_count"
        " FROM device_activity"
    )
    assert abs(busy - _union(spans)) <= slack * len(spans)
    assert abs(busy + idle - length) <= slack
    assert sum(parts) == idle
    assert unknown == 0
    assert gaps <= len(spans)
    assert parts[2] > 0.5 * idle, "the host of these programs is in Python most of the time"
    bad = database.rows("FROM stall_costs WHERE union_ns > window_ns OR hot_ns > hot_window_ns OR union_ns > total_ns")
    assert bad == []
