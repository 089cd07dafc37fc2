"""The section on the host's memory: what is drawn, what is said where something is not known, and hostile names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from reports.build import build_report
from reports.models.host import read_host
from reports.source import CaptureTables
from tests.reports.builders import write_tables

SECOND = 10**9
Row = dict[str, Any]


def _window(second: int, **facts: Any) -> Row:
    return {
        "host": None,
        "cgroup": "/pod",
        "clock_aligned": True,
        "start_ns": second * SECOND,
        "end_ns": (second + 1) * SECOND,
        "is_pressed": False,
        "memory_bytes": 500,
        "limit_bytes": 1000,
    } | facts


def _effect(**facts: Any) -> Row:
    counts = dict.fromkeys(
        ("pressed_window_count", "calm_window_count", "pressed_request_count", "calm_request_count"), 1
    )
    return {"host": None, "cgroup": "/pod", "clock_aligned": True, **counts} | facts


def _section(capture: Path) -> str:
    page = build_report(capture).html.read_text("utf-8")
    found = re.search(r'<section id="host".*?</section>', page, re.S)
    assert found
    return found[0]


def test_windows_become_strips_on_one_axis(tmp_path: Path) -> None:
    windows = [
        _window(0, some_stalled_ratio=0.0),
        _window(1, some_stalled_ratio=0.5, max_event_count=3, is_pressed=True, p95_ns=10**8, request_count=4),
        _window(2, memory_bytes=None, p95_ns=10**6, request_count=1),
    ]
    capture = write_tables(tmp_path / "a", {"host_pressure": windows, "pressure_effects": [_effect()]})
    with CaptureTables(capture) as tables:
        [chart] = read_host(tables).charts
    assert [bar.is_pressed for bar in chart.bars] == [False, True, False]
    assert [bar.x for bar in chart.bars] == [70.0, 328.7, 587.3]
    first, second, third = chart.bars
    assert (first.stall_y, second.stall_y, third.stall_y) == (158.0, 138.0, None)
    assert (first.latency_y, second.latency_y, third.latency_y) == (None, 182.0, 236.0)
    assert second.label == (
        "after 1 s, held 500 B, hit memory.max 3 times, waited for memory 50 % of it, 4 requests ended, P95 100 ms"
    )
    assert chart.memory_path.count("M") == 2, "no line where nothing is known"
    assert 'class="event"' in _section(capture)


def test_nothing_sampled_says_so(tmp_path: Path) -> None:
    capture = write_tables(tmp_path / "a", {"findings": []})
    for name in ("host_pressure", "pressure_effects"):
        write_tables(capture, {name: []})
    assert "The host's memory was not sampled" in _section(capture).replace("&#39;", "'")


def test_why_latency_was_not_compared_stands_in_the_table(tmp_path: Path) -> None:
    effect = _effect(abstained_reason="no requests were recorded meanwhile", max_event_count=0)
    text = _section(write_tables(tmp_path / "a", {"pressure_effects": [effect]}))
    assert "no requests were recorded meanwhile" in text
    assert "<svg" not in text


def test_names_of_the_capture_are_escaped_and_lists_bounded(tmp_path: Path) -> None:
    name = '/<script>alert(1)</script>"&'
    nodes = [
        {
            "host": name,
            "process_id": pid,
            "node_index": 0,
            "memory_part": name,
            "clock_aligned": True,
            "sample_count": 1,
        }
        for pid in range(200)
    ]
    traffic = [{"host": name, "node_index": node} for node in range(100)]
    capture = write_tables(
        tmp_path / "a",
        {
            "pressure_effects": [_effect(cgroup=f"{name}{number}", host=name) for number in range(60)],
            "host_pressure": [_window(second, cgroup=f"{name}0", host=name) for second in range(3)],
            "numa_memory": nodes,
            "numa_traffic": traffic,
        },
    )
    text = _section(capture)
    assert "<script" not in text
    assert text.count("<tr>") <= 3 + 12 + 32 + 32
    assert "48 more rows" in text
    assert "168 more rows" in text
