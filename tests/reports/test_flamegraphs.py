"""speedscope files: valid by the published schema, and their weights sum to the tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reports import callstacks
from reports.build import build_report
from reports.callstacks import GRAPHS
from tests.reports.builders import write_tables
from tests.reports.sample import leaking_capture

SCHEMA = json.loads((Path(__file__).parents[1] / "data/speedscope/file-format-schema.json").read_text("utf-8"))
MB = 1_000_000
STORE = ("main (app/serve.py:10)", "Store.remember (app/store.py:42)")
FORWARD = ("main (app/serve.py:10)", "forward (modules/module.py:7)")
NOWHERE = ("[no call path]",)


def graphs_of(capture: Path) -> dict[str, Any]:
    """All flame graphs, each checked against the schema."""
    loaded = {path.name.split(".")[0]: json.loads(path.read_bytes()) for path in build_report(capture).flamegraphs}
    for graph in loaded.values():
        jsonschema.validate(graph, SCHEMA)
    assert tuple(loaded)[: len(GRAPHS)] == GRAPHS
    assert set(tuple(loaded)[len(GRAPHS) :]) <= {"cpu_samples", "gpu_time"}
    return loaded


def stacks(graph: dict[str, Any], profile: int = 0) -> dict[tuple[str, ...], int]:
    """Weights by frame names of one profile."""
    names = [frame["name"] for frame in graph["shared"]["frames"]]
    shown = graph["profiles"][profile]
    assert shown["endValue"] == sum(shown["weights"])
    return {
        tuple(names[i] for i in sample): weight
        for sample, weight in zip(shown["samples"], shown["weights"], strict=True)
    }


def test_stacks_of_the_sample(leaking: Path) -> None:
    graphs = graphs_of(leaking)
    assert stacks(graphs["live_at_end"]) == {STORE: 4 * MB, FORWARD: 8 * MB, NOWHERE: 20 * MB}
    assert stacks(graphs["live_at_peak"]) == {STORE: 4 * MB, FORWARD: 14 * MB, NOWHERE: 20 * MB}
    assert stacks(graphs["suspects"]) == {STORE: 4 * MB}
    assert stacks(graphs["churn_bytes"]) == {STORE: 4 * MB, FORWARD: 8 * MB + 12 * 3 * MB}
    assert stacks(graphs["churn_count"]) == {STORE: 4, FORWARD: 13}
    assert graphs["live_at_end"]["profiles"][0]["name"] == "Bytes live at the end: tensors, process 7, device 0"
    assert [graph["profiles"][0]["unit"] for graph in graphs.values()] == ["bytes", "bytes", "bytes", "bytes", "none"]
    assert {"name": STORE[1], "file": "/srv/app/store.py", "line": 42} in graphs["suspects"]["shared"]["frames"]


def test_the_peak_is_that_of_a_replay(tmp_path: Path) -> None:
    """Many overlapping lives: the brute-force answer at every moment."""
    lives = [((i * 7919) % 101, (i * 7919) % 101 + (i * 104729) % 37, 1 + (i * 31) % 50) for i in range(400)]
    rows = [
        {
            "allocation_id": i,
            "process_id": 1,
            "device_index": 0,
            "level": "tensor",
            "alloc_ts_ns": start,
            "allocated_bytes": size,
            "free_ts_ns": end if i % 9 else None,
        }
        for i, (start, end, size) in enumerate(lives)
    ]
    peak = max(
        sum(
            r["allocated_bytes"]
            for r in rows
            if r["alloc_ts_ns"] <= t and (r["free_ts_ns"] is None or r["free_ts_ns"] > t)
        )
        for t in range(140)
    )
    graphs = graphs_of(write_tables(tmp_path, {"allocations": rows}))
    assert sum(stacks(graphs["live_at_peak"]).values()) == peak
    assert sum(stacks(graphs["live_at_end"]).values()) == sum(
        r["allocated_bytes"] for r in rows if r["free_ts_ns"] is None
    )


def test_levels_processes_and_devices_are_apart(tmp_path: Path) -> None:
    rows = [
        {
            "allocation_id": n,
            "level": level,
            "process_id": process,
            "device_index": device,
            "allocated_bytes": size,
            "alloc_ts_ns": n,
        }
        for n, (level, process, device, size) in enumerate(
            [
                ("driver", 1, 0, 5),
                ("tensor", 1, 0, 3),
                ("tensor", 2, 1, 4),
                ("driver", None, None, 7),
                ("tensor", 1, 0, None),
            ]
        )
    ]
    graphs = graphs_of(write_tables(tmp_path, {"allocations": rows}))
    shown = [(p["name"].split(": ")[1], p["endValue"]) for p in graphs["live_at_end"]["profiles"]]
    assert shown == [
        ("tensors, process 2, device 1", 4),
        ("tensors, process 1, device 0 (1 allocations of unknown size left out)", 3),
        ("driver allocations", 7),
        ("driver allocations, process 1, device 0", 5),
    ]


def test_depth_and_size_are_capped_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callstacks, "MAX_PATHS", 3)
    monkeypatch.setattr(callstacks, "MAX_DEPTH", 6)
    rows = [
        {
            "allocation_id": n,
            "level": "tensor",
            "process_id": 1,
            "device_index": 0,
            "allocated_bytes": 10 + n,
            "alloc_ts_ns": n,
            "alloc_call_path_id": n,
        }
        for n in range(8)
    ]
    tables = {
        "allocations": rows,
        "frames": [{"frame_id": n, "function": f"f{n}"} for n in range(20)],
        "call_paths": [
            {"call_path_id": n, "frame_ids": list(range(n, n + 9)) if n == 7 else [n], "depth_count": 1}
            for n in range(8)
        ],
    }
    graph = graphs_of(write_tables(tmp_path, tables))["live_at_end"]
    assert graph["profiles"][0]["name"].endswith("(3 largest of 8 call paths; 1 paths cut to 6 frames)")
    assert stacks(graph) == {
        ("f7", "f8", "f9", "[frames cut]", "f14", "f15"): 17,
        ("f6",): 16,
        ("f5",): 15,
        ("[other call paths]",): 10 + 11 + 12 + 13 + 14,
    }


def test_more_profiles_than_shown_are_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callstacks, "MAX_PROFILES", 2)
    rows = [
        {
            "allocation_id": n,
            "level": "tensor",
            "process_id": n,
            "device_index": 0,
            "allocated_bytes": 10 + n,
            "alloc_ts_ns": n,
        }
        for n in range(5)
    ]
    graph = graphs_of(write_tables(tmp_path, {"allocations": rows}))["live_at_end"]
    assert [profile["endValue"] for profile in graph["profiles"]] == [14, 13, 10 + 11 + 12]


def test_nothing_to_show_is_still_a_valid_file(tmp_path: Path) -> None:
    graphs = graphs_of(write_tables(tmp_path / "none", {}))
    assert graphs["suspects"]["profiles"][0]["name"] == "Bytes kept by suspects, none: nothing to show"
    assert graphs["suspects"]["profiles"][0]["samples"] == []


def test_a_lost_frame_keeps_its_place(tmp_path: Path) -> None:
    tables = leaking_capture()
    del tables["frames"][1]
    graphs = graphs_of(write_tables(tmp_path, tables))
    assert stacks(graphs["suspects"]) == {("main (app/serve.py:10)", "[frame 2]"): 4 * MB}


def test_samples_by_event_and_process(tmp_path: Path) -> None:
    """Counts, not periods; what a tool added up in bytes is no sample; a frame without a symbol shows its object."""
    rows = [
        {"event_index": n, "event": event, "process_id": 7, "sample_count": count, "unit": unit, "call_path_id": path}
        for n, (event, count, unit, path) in enumerate(
            [
                ("cycles", 1, "count", 0),
                ("cycles", 2, "count", 0),
                ("cycles", 1, "count", 1),
                ("faults", 1, None, None),
                ("outstanding", 5, "bytes", 0),
            ]
        )
    ]
    frames = [
        {"frame_id": 0, "function": "main"},
        {"frame_id": 1, "function": "[unknown]", "module": "/lib/libc.so", "address": 7},
    ]
    paths = [{"call_path_id": n, "frame_ids": [0, 1][: 2 - n], "depth_count": 2 - n} for n in range(2)]
    capture = write_tables(tmp_path, {"stack_samples": rows, "frames": frames, "call_paths": paths})
    graph = graphs_of(capture)["cpu_samples"]
    assert [(p["name"], p["unit"]) for p in graph["profiles"]] == [
        ("CPU samples: cycles, process 7", "none"),
        ("CPU samples: faults, process 7", "none"),
    ]
    assert stacks(graph) == {("main", "[libc.so]"): 3, ("main",): 1}
    assert stacks(graph, 1) == {NOWHERE: 1}
    assert 'href="flamegraphs/cpu_samples.speedscope.json"' in (capture / "report.html").read_text()


def test_device_time_lies_below_what_launched_it(tmp_path: Path) -> None:
    """Two kernels of one call path, one without; a file that another one holds more of counts once."""
    tables = {name: leaking_capture()[name] for name in ("frames", "call_paths")}
    ops = [("k1", 0, 50, 1), ("k2", 60, 100, 1), ("k1", 110, 111, None), ("k1", 0, 49, 1)]
    tables["gpu_ops"] = [
        {"op": "kernel", "name": name, "start_ns": start, "end_ns": end, "correlation_id": call, "event_index": n}
        | {"process_id": 7, "device_index": 0, "file_id": int(n == 3), "source": "cupti", "clock_aligned": True}
        for n, (name, start, end, call) in enumerate(ops)
    ]
    call = {"process_id": 7, "correlation_id": 1, "source": "cupti", "clock_aligned": True, "start_ns": 0, "end_ns": 5}
    tables["api_calls"] = [
        call | {"api": "driver", "start_ns": 1, "end_ns": 2, "call_path_id": 100, "event_index": 1},
        call | {"api": "runtime", "call_path_id": 101, "event_index": 0},
    ]
    graph = graphs_of(write_tables(tmp_path, tables))["gpu_time"]
    assert stacks(graph) == {(*FORWARD, "k1"): 50, (*FORWARD, "k2"): 40, (*NOWHERE, "k1"): 1}
    assert graph["profiles"][0]["unit"] == "nanoseconds"
    assert graph["profiles"][0]["name"] == "Device time by call path: device time, process 7, device 0"


def test_samples_that_two_files_hold_count_once(tmp_path: Path) -> None:
    tables = {name: leaking_capture()[name] for name in ("frames", "call_paths")}
    sample = {
        "event": "cycles",
        "source": "perf",
        "process_id": 7,
        "call_path_id": 100,
        "sample_count": 1,
        "unit": "cycles",
    }
    tables["stack_samples"] = [
        sample | {"file_id": file_id, "ts_ns": 100 + n, "event_index": n}
        for file_id, count in ((0, 2), (1, 5))
        for n in range(count)
    ]
    tables["stack_samples"].append(sample | {"file_id": 2, "ts_ns": 900, "process_id": None})
    graph = graphs_of(write_tables(tmp_path, tables))["cpu_samples"]
    assert stacks(graph, 0) == {STORE: 5}
    assert stacks(graph, 1) == {STORE: 1}
