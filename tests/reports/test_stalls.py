"""The section on stalls and gaps: its data exactly, its bounds, and that nothing of it is markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reports.build import build_report
from reports.models.stalls import MAX_ROWS, Stalls, read_stalls
from reports.source import CaptureTables
from tests.reports.builders import START, write_tables

MS = 1_000_000
_DEVICE = {"process_id": 7, "device_index": 0, "start_ns": START, "end_ns": START + 100 * MS}


def _read(folder: Path, **tables: list[dict[str, Any]]) -> Stalls:
    with CaptureTables(write_tables(folder, tables)) as opened:
        return read_stalls(opened)


def test_a_device_is_shown_by_its_shares(tmp_path: Path) -> None:
    spent = {"busy_ns": 40 * MS, "idle_ns": 60 * MS, "sync_idle_ns": 10 * MS, "launch_idle_ns": 0}
    spent |= {"host_idle_ns": 45 * MS, "unknown_idle_ns": 5 * MS}
    found = _read(
        tmp_path,
        device_activity=[_DEVICE | spent | {"gap_count": 3}, {"activity_id": 1, "abstained_reason": "no operations"}],
    )
    known, unknown = found.devices
    assert known.parts == (
        ("busy", 0.0, 40.0, 0.4),
        ("sync", 40.0, 10.0, 0.1),
        ("host", 50.0, 45.0, 0.45),
        ("unknown", 95.0, 5.0, 0.05),
    )
    assert (known.who, known.idle_ns, known.gap_count, known.reason) == ("process 7, device 0", 60 * MS, 3, "")
    assert (unknown.length_ns, unknown.parts, unknown.reason) == (None, (), "no operations")


def test_costs_say_where_and_how_much_of_the_regular_work(tmp_path: Path) -> None:
    cost = {"process_id": 7, "stall_kind": "synchronize", "stall_count": 5, "union_ns": 20 * MS, "window_ns": 80 * MS}
    hot = {"hot_by": "request", "hot_count": 4, "hot_ns": 15 * MS, "hot_window_ns": 60 * MS}
    found = _read(
        tmp_path,
        stall_costs=[
            cost | hot | {"is_total": True, "pending_free_bytes": 512},
            cost | hot | {"cost_id": 1, "name": "cudaStreamSynchronize", "range_path": "decode", "call_path_id": 3},
            cost | {"cost_id": 2, "stall_kind": "graph", "is_total": True},
        ],
        call_paths=[{"call_path_id": 3, "frame_ids": [1, 2], "depth_count": 2}],
        frames=[
            {"frame_id": 1, "function": "main"},
            {"frame_id": 2, "function": "item", "file": "/srv/loop.py", "line": 9},
        ],
    )
    waits, graphs = found.kinds
    assert (waits.kind, waits.share, waits.hot_by, waits.hot_share) == ("waits for the device", 0.25, "requests", 0.25)
    assert waits.pending_bytes == 512
    assert (graphs.kind, graphs.hot_count, graphs.hot_share) == ("graphs instantiated", None, None)
    [place] = found.places
    assert (place.call, place.place) == ("cudaStreamSynchronize", "decode > item (/srv/loop.py:9)")


def test_the_longest_gaps_come_first_and_all_is_bounded(tmp_path: Path) -> None:
    gaps = [{"gap_id": n, "idle_ns": n, "idle_cause": "sync", "start_ns": START, "stall_id": n} for n in range(500)]
    waits = [{"stall_id": 499, "name": "cudaDeviceSynchronize", "stall_kind": "synchronize"}]
    costs = [{"cost_id": n, "is_total": n % 2 == 0, "stall_kind": f"kind {n}", "union_ns": n} for n in range(500)]
    pairs = [{"pair_id": n, "stream_id": n, "other_stream_id": n + 1, "is_lockstep": True} for n in range(40)]
    found = _read(tmp_path, idle_gaps=gaps, sync_stalls=waits, stall_costs=costs, stream_pairs=pairs)
    assert [gap.idle_ns for gap in found.gaps] == list(range(499, 499 - MAX_ROWS, -1))
    assert (found.gaps[0].call, found.gaps[0].cause, found.gaps[1].call) == ("cudaDeviceSynchronize", "host waited", "")
    assert len(found.kinds) == len(found.places) == len(found.lockstep) == MAX_ROWS
    assert (found.kinds_left_out, found.places_left_out, found.lockstep_left_out) == (250 - MAX_ROWS,) * 2 + (28,)


def test_names_of_a_capture_are_no_markup(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>"
    texts = {"name": bad, "range_path": bad, "stall_kind": bad, "hot_by": bad}
    tables = {
        "stall_costs": [texts | {"is_total": True}, texts | {"cost_id": 1}],
        "idle_gaps": [{"idle_ns": 1, "start_ns": START, "idle_cause": bad, "range_path": bad, "request_id": bad}],
        "sync_stalls": [{"stall_id": 0, "name": bad}],
        "device_activity": [_DEVICE | {"idle_ns": 1, "abstained_reason": bad}, {"abstained_reason": bad}],
        "frames": [{"frame_id": 0, "function": bad, "file": bad}],
    }
    page = build_report(write_tables(tmp_path, tables)).html.read_text(encoding="utf-8")
    assert "&lt;script&gt;" in page
    assert "<script" not in page
