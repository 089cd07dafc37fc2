"""Failed allocations and the causes that were looked for, on the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reports.models.failures import CauseCheck, read_checks, read_failures
from reports.source import CaptureTables
from tests.reports.builders import START, write_tables

MB = 1_000_000


def _tables(temp: Path, failures: int = 1) -> Path:
    event: dict[str, Any] = {"process_id": 7, "device_index": 1, "source": "torch", "level": "tensor", "ts_ns": START}
    sizes = {"requested_bytes": 50 * MB, "device_free_bytes": None}
    return write_tables(
        temp,
        {
            "oom_events": [event | sizes | {"oom_event_id": number} for number in range(failures)],
            "oom_holders": [
                {"oom_event_id": 0, "holder_rank": 2, "holder": "b", "held_bytes": MB, "held_count": 1},
                {"oom_event_id": 0, "holder_rank": 1, "holder": "<a>", "held_bytes": 9 * MB, "held_count": 3},
            ],
            "oom_remedies": [
                {"oom_event_id": 0, "remedy": name, "would_help": helps, "room_bytes": None, "reason": f"why {name}"}
                for name, helps in (("other_processes", None), ("expandable_segments", True), ("new_one", False))
            ],
            "root_cause_checks": [
                {"root_cause": "graph_pool", "abstained_reason": "no pools", "next_measurement": "take one"},
                {"root_cause": "kv_cache", "cause_count": 2, "next_measurement": "left out"},
            ],
        },
    )


def test_a_failure_has_its_holders_and_what_was_weighed(tmp_path: Path) -> None:
    with CaptureTables(_tables(tmp_path, 7)) as tables:
        failures, left_out = read_failures(tables)
        checks = read_checks(tables)
    assert (len(failures), left_out) == (5, 2)
    first = failures[0]
    assert (first.requested_bytes, first.device_free_bytes) == (50 * MB, None)
    assert [(row.name, row.bytes, row.count) for row in first.holders] == [("<a>", 9 * MB, 3), ("b", MB, 1)]
    assert [(row.label, row.would_help) for row in first.weighed] == [
        ("expandable_segments:True", True),
        ("free what is outside the allocator", None),
        ("new_one", False),
    ]
    assert failures[1].holders == ()
    assert checks == (
        CauseCheck("KV cache leak", 2, "", ""),
        CauseCheck("CUDA graph pool growth", None, "no pools", "take one"),
    )
