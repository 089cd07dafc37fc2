"""Rules between columns and sums between tables: each fires on its planted fault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.capture_findings import loss_findings
from pipeline.checks.findings import evidence_faults
from pipeline.checks.step import check_findings, check_results
from pipeline.checks.tables import check_tables, recorded_windows
from pipeline.database import Database
from pipeline.leaks.tables import write_rows
from schemas.rules import BROKEN
from tests.checks.planting import empty, put

STATE = {"reserved_bytes": 10, "active_bytes": 6, "allocated_bytes": 5, "pending_free_bytes": 1, "inactive_bytes": 4}
FAULTS: dict[tuple[str, str], dict[str, Any]] = {
    ("allocations", "freed_before_given_back"): {"free_requested_ts_ns": 9, "free_ts_ns": 8},
    ("allocations", "wrong_start"): {"is_alloc_before_window": True, "alloc_ts_ns": 5},
    ("live_bytes", "bytes_without_allocations"): {"live_count": 0, "live_bytes": 512},
    ("leak_suspects", "more_survivors_than_epochs"): {"surviving_epochs_count": 5, "epochs_count": 4},
    ("leak_suspects", "growing_without_bytes"): {"verdict": "growing", "retained_bytes": 0, "retained_count": 0},
    ("leak_suspects", "rank_without_growth"): {"verdict": "bounded", "suspect_rank": 1},
    ("leak_evidence", "more_asked_for_than_taken"): {"requested_bytes": 513, "allocated_bytes": 512},
    ("fragmentation", "state_not_conserved"): STATE | {"inactive_bytes": 3},
    ("fragmentation", "part_above_whole"): STATE | {"largest_free_bytes": 5},
    ("request_latency", "part_above_whole"): {"measured_count": 3, "request_count": 2},
    ("slo", "part_above_whole"): {"bad_count": 3, "request_count": 2},
    ("slo", "verdict_without_value"): {"slo_verdict": "abstained"},
    ("sync_stalls", "wrong_duration"): {"start_ns": 5, "end_ns": 9, "duration_ns": 5},
    ("stall_costs", "part_above_whole"): {"union_ns": 5, "total_ns": 4},
    ("device_activity", "time_not_conserved"): {
        "start_ns": 0,
        "end_ns": 9,
        "busy_ns": 5,
        "idle_ns": 3,
        "unknown_idle_ns": 3,
    },
    ("idle_gaps", "time_not_conserved"): {"start_ns": 0, "end_ns": 9, "idle_ns": 9, "unknown_idle_ns": 8},
    ("stream_pairs", "part_above_whole"): {"matched_count": 3, "burst_count": 2, "other_burst_count": 9},
    ("hotspots", "part_above_whole"): {"self_amount": 3.0, "total_amount": 2.0},
    ("hotspots", "number_of_what_is_not_known"): {"abstained_reason": "no samples", "self_amount": 1.0},
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with empty(tmp_path) as opened:
        yield opened


def _names(rows: list[dict[str, Any]]) -> set[str]:
    return {row["name"] for row in rows}


def test_every_rule_has_a_planted_fault() -> None:
    assert {(table, fault) for table, faults in BROKEN.items() for fault in faults} <= set(FAULTS)


@pytest.mark.parametrize(("table", "fault"), FAULTS, ids="-".join)
def test_each_rule_sees_its_fault(table: str, fault: str, database: Database) -> None:
    put(database, table, FAULTS[table, fault])
    assert f"{fault}_in_{table}" in _names(check_tables(database, [table]))


def _allocation(
    number: int, size: int, start: int | None, end: int | None = None, level: str = "tensor"
) -> dict[str, Any]:
    return {
        "allocation_id": number,
        "process_id": 1,
        "device_index": 0,
        "level": level,
        "memory_kind": "device",
        "allocated_bytes": size,
        "alloc_ts_ns": start,
        "free_ts_ns": end,
    }


def _live(ts: int, size: int, count: int, level: str = "tensor") -> dict[str, Any]:
    facts = {"process_id": 1, "device_index": 0, "level": level, "pending_free_bytes": 0}
    return facts | {"ts_ns": ts, "live_bytes": size, "live_count": count}


ALLOCATIONS = [_allocation(0, 100, 10), _allocation(1, 30, 20, 30), _allocation(2, 7, None, 40)]
LIVE = [_live(10, 107, 2), _live(20, 137, 3), _live(40, 100, 1)]


@pytest.mark.parametrize(
    ("at_end", "count", "in_middle", "is_fault"),
    [(100, 1, 137, False), (99, 1, 137, True), (100, 2, 137, True), (100, 1, 136, True)],
    ids=["right", "bytes", "count", "middle"],
)
def test_allocated_less_freed_is_live(
    at_end: int, count: int, in_middle: int, is_fault: bool, database: Database
) -> None:
    put(database, "allocations", *ALLOCATIONS)
    put(database, "live_bytes", LIVE[0], LIVE[1] | {"live_bytes": in_middle}, _live(40, at_end, count))
    found = {row["name"]: row for row in check_tables(database)}
    assert ("live_bytes_not_conserved" in found) == is_fault
    if is_fault:
        assert "tensors of process 1 on device 0" in found["live_bytes_not_conserved"]["detail"]


@pytest.mark.parametrize(("reserved", "active", "is_fault"), [(200, 100, False), (201, 100, True), (200, 90, True)])
def test_the_allocators_end_is_what_nobody_freed(
    reserved: int, active: int, is_fault: bool, database: Database
) -> None:
    put(database, "allocations", *ALLOCATIONS, _allocation(3, 200, 5, level="segment"))
    put(database, "live_bytes", *LIVE, _live(40, 200, 1, "segment"))
    state = {"process_id": 1, "device_index": 0, "ts_ns": 40, "moment": "end", "reserved_bytes": reserved}
    put(database, "fragmentation", state | {"active_bytes": active})
    assert ("allocator_state_not_conserved" in _names(check_tables(database))) == is_fault


@pytest.mark.parametrize(("count", "size", "is_fault"), [(2, 150, False), (2, 151, True), (3, 150, True)])
def test_a_suspect_is_what_its_evidence_adds_up_to(count: int, size: int, is_fault: bool, database: Database) -> None:
    put(database, "leak_suspects", {"suspect_id": 0, "retained_count": count, "retained_bytes": size})
    evidence = [{"suspect_id": 0, "allocation_id": number, "allocated_bytes": 50 * number} for number in (1, 2)]
    put(database, "leak_evidence", *evidence)
    assert ("evidence_does_not_add_up" in _names(check_tables(database))) == is_fault


@pytest.mark.parametrize(("used", "is_fault"), [(1_000, False), (999, True)])
def test_a_device_is_the_sum_of_its_parts(used: int, is_fault: bool, database: Database) -> None:
    parts = {"device_total": 5_000, "free": 4_000, "device_used": used, "unattributed": 100, "torch_allocated": 850}
    rows = [{"ledger_part": part, "part_bytes": size} for part, size in (*parts.items(), ("driver_outside", 50))]
    put(database, "memory_ledger", *({"device_index": 0, "ts_ns": 5} | row for row in rows))
    found = {row["name"]: row for row in check_tables(database)}
    assert ("ledger_does_not_add_up" in found) == is_fault
    if is_fault:
        assert found["ledger_does_not_add_up"]["detail"] == "device 0 at 5: 999 bytes used, the parts are 1000"


def test_times_are_those_of_the_raw_rows_on_and_off_the_clock(database: Database) -> None:
    put(database, "memory_events", {"ts_ns": 100, "clock_aligned": True}, {"ts_ns": 300, "clock_aligned": True})
    put(database, "api_calls", {"start_ns": 5, "end_ns": 9, "clock_aligned": False})
    assert recorded_windows(database) == [(5, 9), (100, 300)]
    put(database, "oom_events", *({"oom_event_id": ts, "ts_ns": ts} for ts in (5, 9, 10, 99, 100, 300, 301)))
    [found] = [row for row in check_tables(database) if row["name"].startswith("time_outside")]
    assert (found["name"], found["occurrence_count"]) == ("time_outside_capture_in_oom_events", 3)
    assert found["detail"] == "ts_ns = 10 where oom_event_id = 10"


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ([("leak_suspects", "suspect_id = 0")], None),
        ([("slo", "true"), ("leak_suspects", "suspect_id = 0")], None),
        ([("leak_suspects", "suspect_id = 7")], "no row meets it"),
        ([("leak_suspects", "suspct_id = 0")], "suspct_id"),
        ([("no_such_table", "true")], "no table no_such_table"),
        ([], "no row meets it"),
    ],
    ids=["there", "one of two", "no row", "no column", "no table", "nothing"],
)
def test_evidence_leads_to_rows(evidence: list[tuple[str, str]], words: str | None, database: Database) -> None:
    put(database, "leak_suspects", {"suspect_id": 0})
    text = json.dumps([{"table": table, "where": where} for table, where in evidence])
    found = evidence_faults(database, [{"finding_id": 3, "finding_kind": "leak", "evidence": text}])
    assert bool(found) == (words is not None)
    if words:
        assert "finding 3 (leak)" in found[0]["detail"]
        assert words in found[0]["detail"]


def test_faults_become_rows_of_diagnostics_and_a_finding(tmp_path: Path, database: Database) -> None:
    kept = {"stage": "ingest", "file_id": 0, "name": "damaged_rows", "severity": "data_loss", "occurrence_count": 2}
    put(database, "diagnostics", kept)
    write_rows(tmp_path, "pareto", [{"configuration": "a", "latency_score": 1.5, "is_on_front": True}])
    check_results(database, tmp_path)
    check_findings(database, tmp_path, [{"finding_id": 0, "finding_kind": "leak", "evidence": None}])
    rows = database.rows("SELECT stage, name, severity, occurrence_count FROM diagnostics ORDER BY name")
    assert rows == [
        ("ingest", "damaged_rows", "data_loss", 2),
        ("analyze", "evidence_without_rows_in_findings", "error", 1),
        ("analyze", "value_out_of_range_in_pareto", "error", 1),
    ]
    told = [row for row in loss_findings(database) if "value out of range in pareto" in row["title"]]
    assert "latency_score = 1.5" in told[0]["title"]
    assert "contradict" in told[0]["advice"]
