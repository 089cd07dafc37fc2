"""Real snapshots: read completely, and reconciled with their own dump, by a second reading of the same file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingest.torch_snapshot import IMPORTER
from pipeline.database import Database, open_capture
from pipeline.ingesting import ingest
from tests.ingest.support import check_importer, counts_of, ingest_file
from tests.ingest.torch_reading import (
    CAPTURES,
    CORPUS,
    DATA,
    actions,
    blocks_in_use,
    held,
    merged,
    name_of,
    plain,
    replayed,
    snapshots,
)

_OURS = {
    "alloc": ("tensor", "alloc"),
    "free_requested": ("tensor", "free_requested"),
    "free_completed": ("tensor", "free"),
    "segment_alloc": ("segment", "alloc"),
    "segment_free": ("segment", "free"),
    "segment_map": ("segment", "map"),
    "segment_unmap": ("segment", "unmap"),
    "oom": ("tensor", "oom"),
}

_all = pytest.mark.parametrize("path", snapshots(), ids=name_of)
_layouts = pytest.mark.parametrize("path", [p for p in snapshots() if CAPTURES not in p.parents], ids=name_of)


def _lifetimes(path: Path, tmp_path: Path) -> Database:
    ingest([path], path, tmp_path / "out")
    database = open_capture(tmp_path / "out", tmp_path / "duckdb")
    for relation in ("host_files", "tensor_lives", "segment_lives", "diagnostics_made"):
        database.run("lifetimes", relation)
    return database


@_all
def test_live_blocks_and_segments_are_those_of_the_dump(path: Path, tmp_path: Path) -> None:
    snapshot = plain(path)
    dumped = blocks_in_use(snapshot)
    with _lifetimes(path, tmp_path) as database:
        live = database.rows(
            "SELECT device_index, address, allocated_bytes, requested_bytes FROM tensor_lives WHERE free_ts_ns IS NULL"
            " AND NOT is_free_inferred"
        )
        segments = database.rows(
            "SELECT device_index, address, address + allocated_bytes FROM segment_lives"
            " WHERE free_ts_ns IS NULL AND NOT is_free_inferred"
        )
        counted = dict(database.rows("SELECT name, sum(occurrence_count)::BIGINT FROM diagnostics_made GROUP BY name"))
    timed = any("time_us" in event for trace in snapshot["device_traces"] for event in trace)
    if timed or not any(snapshot["device_traces"]):
        assert {(d, a): (size, asked) for d, a, size, asked in live} == dumped
        assert len(live) == len(dumped)
    else:  # without times a freed block has no end to show; the dump's blocks are all there
        assert {(d, a): (size, asked) for d, a, size, asked in live}.items() >= dumped.items()
        assert counted["events_without_time"] == sum(map(len, snapshot["device_traces"]))
    assert merged(segments) == held(snapshot)

    left = replayed(snapshot)
    if any(snapshot["device_traces"]):
        with_events = {device for device, trace in enumerate(snapshot["device_traces"]) if trace}
        known = {place for place in dumped if place[0] in with_events}
        assert counted.get("block_without_event", 0) == len(known - set(left))
    assert counted.get("live_event_without_block", 0) == len(set(left) - set(dumped))


@_layouts
def test_every_event_is_there_with_its_values(path: Path, tmp_path: Path) -> None:
    snapshot = plain(path)
    events = ingest_file(path, tmp_path, IMPORTER).get("memory_events")
    theirs = [(device, event) for device, trace in enumerate(snapshot["device_traces"]) for event in trace]
    if not theirs:
        assert events is None
        return
    assert events is not None
    ours = events.sort("event_index").select(
        "device_index", "level", "action", "ts_ns", "address", "size_bytes", "stream_id", "device_free_bytes"
    )
    assert ours.rows() == [
        (
            device,
            *_OURS[event["action"]],
            event["time_us"] * 1000 if "time_us" in event else None,
            event.get("addr"),
            event["size"],
            event["stream"],
            event.get("device_free"),
        )
        for device, event in theirs
    ]
    assert sum(actions(snapshot).values()) == events.height


@_layouts
def test_call_paths_run_from_root_to_leaf(path: Path, tmp_path: Path) -> None:
    """The bytes that each leaf and each root asks for, by both readings."""
    snapshot = plain(path)
    tables = ingest_file(path, tmp_path, IMPORTER)
    if "call_paths" not in tables:
        assert not any(e.get("frames") for trace in snapshot["device_traces"] for e in trace)
        return
    frames = {row[0]: row[1:] for row in tables["frames"].select("frame_id", "function", "file", "line").rows()}
    paths = dict(tables["call_paths"].select("call_path_id", "frame_ids").rows())
    ours: Counter[Any] = Counter()
    allocs = tables.get("memory_events", pl.DataFrame(schema={"action": pl.String})).filter(pl.col("action") == "alloc")
    allocs = allocs.filter(pl.col("level") == "tensor") if allocs.height else allocs
    for number, size in allocs.select("call_path_id", "size_bytes").rows() if allocs.height else ():
        stack = [frames[frame] for frame in paths[number]] if number is not None else [None]
        ours[stack[0], stack[-1], len(stack)] += size

    def frame(raw: dict[str, Any]) -> tuple[str, str | None, int | None]:
        return raw["name"] or "??", raw["filename"] if raw["filename"] not in ("", "??") else None, raw["line"] or None

    theirs: Counter[Any] = Counter()
    for trace in snapshot["device_traces"]:
        for event in trace:
            if event["action"] == "alloc":
                stack = event.get("frames") or []
                key = (frame(stack[-1]), frame(stack[0]), len(stack)) if stack else (None, None, 1)
                theirs[key] += event["size"]
    assert ours == theirs


@_layouts
def test_annotations_are_ranges(path: Path, tmp_path: Path) -> None:
    notes = plain(path).get("external_annotations") or []
    tables = ingest_file(path, tmp_path, IMPORTER)
    starts = [note for note in notes if note["stage"] == "START"]
    ranges = tables.get("ranges")
    if not starts:
        assert ranges is None
        return
    assert ranges is not None
    assert Counter(ranges.select("name", "start_ns", "device_index").rows()) == Counter(
        (n["name"], n["time_us"] * 1000, n["device"]) for n in starts
    )
    ends = Counter((n["name"], n["time_us"] * 1000) for n in notes if n["stage"] == "END")
    closed = ranges.filter(pl.col("end_ns").is_not_null())
    counts = counts_of(tables)
    assert Counter(closed.select("name", "end_ns").rows()) <= ends
    assert counts.get(("annotation_end_without_start", "info"), 0) == ends.total() - closed.height
    assert counts.get(("annotation_without_end", "info"), 0) == ranges.height - closed.height
    assert (closed["end_ns"] >= closed["start_ns"]).all()


@pytest.mark.parametrize("path", sorted(DATA.glob("*.pickle*")), ids=name_of)
def test_bundled_snapshots_pass_the_four_checks(path: Path, tmp_path: Path) -> None:
    tables = check_importer(path, tmp_path, IMPORTER)
    assert not [key for key in counts_of(tables) if key[1] != "info"]


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not checked out")
def test_the_out_of_memory_event_of_the_corpus(tmp_path: Path) -> None:
    events = ingest_file(next(CORPUS.glob("Constructor*/*.pickle")), tmp_path, IMPORTER)["memory_events"]
    oom = events.filter(pl.col("action") == "oom")
    assert oom.height == 1
    assert oom["address"][0] is None
    assert oom["device_free_bytes"][0] is not None
    assert oom["device_index"][0] == 1
