"""Snapshots with anything anywhere: one clear error, or rows and counts; never another exception, never much memory."""

from __future__ import annotations

import copy
import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingest.errors import BadInput
from ingest.torch_snapshot import IMPORTER
from pipeline.steps import analyze, ingest
from schemas.config import Config
from tests.ingest.peak_memory import peak_bytes, reset_peak
from tests.ingest.support import counts_of, ingest_file
from tests.ingest.torch_shapes import MIB, SEGMENT, block, event, segment, whole, write

DEEP = {"@deep list@": b"]" * 60_000 + b"a" * 59_999, "@deep tuple@": b")" + b"\x85" * 60_000}
"""Texts that stand for nesting too deep for Python to pickle."""


def _write(folder: Path, snapshot: object, name: str = "snapshot.pickle") -> Path:
    data = pickle.dumps(snapshot, 2)
    for text, opcodes in DEEP.items():
        data = data.replace(b"X" + struct.pack("<I", len(text)) + text.encode(), opcodes)
    path = folder / name
    path.write_bytes(data)
    return path


def _doubling(times: int) -> list[Any]:
    """A list of 2 ** times leaves that takes a few hundred bytes."""
    value: list[Any] = ["leaf"]
    for _ in range(times):
        value = [value, value]
    return value


WRONG: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, 2**64, 2**70, -(2**63), -(2**70), 10**5000, 1.5, float("nan"),
    float("inf"), "", "text", "12", "\ud800 lone surrogate", "x" * 100_000, "a\x00b\nc", b"", b"bytes", [], [[]],
    [None], {}, {"a": 1}, {1: 2}, (), (1, 2), {3}, *DEEP, _doubling(40),
    [{"name": 5, "filename": [], "line": "x"}], [{}], [{"name": "\udfff", "filename": "\udfff", "line": 2**40}],
]  # fmt: skip


def _places(value: Any) -> list[tuple[Any, Any]]:
    """(owner, key) of everything inside, each owner once."""
    found, todo, seen = [], [value], set[int]()
    while todo:
        owner = todo.pop()
        if id(owner) not in seen and isinstance(owner, dict | list):
            seen.add(id(owner))
            found += [(owner, key) for key in (owner if isinstance(owner, dict) else range(len(owner)))]
            todo += owner.values() if isinstance(owner, dict) else owner
    return found


def _rich() -> dict[str, Any]:
    """A snapshot with every kind of field."""
    snapshot = whole()
    snapshot["device_traces"][0] += [event("oom", None, 5, 40, device_free=7), event("segment_map", 2**46, MIB, 41)]
    snapshot["device_traces"].append([event("alloc", 512, 8, 1)])
    old = block(None, 512, history=[{"addr": 1, "real_size": 3, "frames": []}])
    snapshot["segments"] += [segment(2**46, MIB, old, is_expandable=True), segment(0, 4096, block(512, 512), device=1)]
    return snapshot


def _spoiled(source: random.Random, times: int) -> Any:
    snapshot = copy.deepcopy(_rich())
    for _ in range(times):
        owner, key = source.choice(_places(snapshot))
        if source.random() < 0.1:
            del owner[key]
        else:
            owner[key] = source.choice(WRONG)
    return snapshot


def _ok(read: Callable[[], object]) -> bool:
    try:
        read()
    except BadInput as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 1000
        return False
    return True


@pytest.mark.parametrize("seed", range(8))
def test_wrong_types_anywhere(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    read = 0
    for number in range(30):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = _write(folder, _spoiled(source, source.choice((1, 1, 2, 5))))
        read += _ok(lambda: ingest_file(path, folder, IMPORTER))  # noqa: B023
    assert read > 20, "most of a spoiled snapshot is still read"


@pytest.mark.parametrize("field", ["segments", "device_traces", "external_annotations", "allocator_settings"])
def test_every_wrong_type_for_every_top_level_field(field: str, tmp_path: Path) -> None:
    for number, wrong in enumerate(WRONG):
        folder = tmp_path / str(number)
        folder.mkdir()
        for value in (wrong, [wrong]):
            path = _write(folder, _rich() | {field: value})
            _ok(lambda: ingest_file(path, folder, IMPORTER))  # noqa: B023


@pytest.mark.parametrize("seed", range(6))
def test_wrong_types_through_the_whole_analysis(seed: int, tmp_path: Path) -> None:
    source = random.Random(100 + seed)
    for number in range(3):
        path = _write(tmp_path, _spoiled(source, 3), f"{number}.pickle")
        out = tmp_path / f"out{number}"
        if _ok(lambda: ingest([path], path, out)):  # noqa: B023
            analyze(out, Config())


def test_extreme_numbers_through_the_whole_analysis(tmp_path: Path) -> None:
    """Every number as large, as small or as negative as the format can hold."""
    extremes = [0, -1, 2**46, 2**46 + 1, 2**53, 2**62 // 1000, 2**62 // 1000 + 1, 2**62, 2**63 - 1, 2**64 - 1, 2**70]
    snapshot = whole()
    for value in extremes:
        for field in ("addr", "size", "time_us", "stream"):
            snapshot["device_traces"][0] += [
                event(action, 512, 64, 50) | {field: value} for action in ("alloc", "segment_map", "oom")
            ]
        snapshot["segments"].append(segment(SEGMENT * 2 + value, value, block(value, value)))
        snapshot["external_annotations"] += [
            {"stage": s, "name": "n", "device": value, "time_us": value} for s in ("START", "END")
        ]
    path = write(tmp_path, snapshot)
    ingest([path], path, tmp_path / "out")
    analyze(tmp_path / "out", Config())
    assert pl.read_parquet(tmp_path / "out/tables/allocations.parquet").height > 10


def test_what_is_wrong_is_counted_and_the_rest_is_kept(tmp_path: Path) -> None:
    snapshot = whole()
    trace = snapshot["device_traces"][0]
    trace += [
        5,
        event("alloc", "0x7f", 8, 50),  # type: ignore[arg-type]
        event("alloc", 2**70, 8, 51),
        event("alloc", 512, -8, 52),
        event("alloc", 512, 1.5, 53),  # type: ignore[arg-type]
        event("alloc", 512, 8, 54, frames="main.py"),
        event("alloc", 512, 8, 55, frames=[3, {"name": "f", "filename": "f.py", "line": 1}]),
        event("levitate", 512, 8, 56),
        {"action": ["alloc"]},
    ]
    snapshot["segments"] += [None, segment(512, 512) | {"blocks": [None]}, segment(8192, 512) | {"blocks": None}]
    snapshot["segments"].append(segment(16384, 512) | {"blocks": {"a": 1}})
    snapshot["segments"].append(segment(32768, 512, block(32768, 512, "asleep")))
    tables = ingest_file(write(tmp_path, snapshot), tmp_path, IMPORTER)
    assert tables["memory_events"].height == 5 + 8
    assert counts_of(tables) == {
        ("event_not_a_dict", "data_loss"): 1,
        ("value_not_an_integer", "data_loss"): 2,
        ("value_out_of_range", "data_loss"): 2,
        ("frames_not_a_list", "data_loss"): 1,
        ("frame_not_a_dict", "data_loss"): 1,
        ("unknown_action", "info"): 2,
        ("segment_not_a_dict", "data_loss"): 1,
        ("block_not_a_dict", "data_loss"): 1,
        ("blocks_not_a_list", "data_loss"): 1,
        ("unknown_block_state", "data_loss"): 1,
    }
    assert tables["segments"].height == 5


@pytest.mark.parametrize("shared", ["segments", "blocks", "traces"])
def test_objects_listed_a_thousand_times_over_stay_small(shared: str, tmp_path: Path) -> None:
    """A pickle names an object again in two bytes: 3,000 × 3,000 rows must not come out of 12 kB."""
    snapshot = whole()
    if shared == "traces":
        snapshot["device_traces"] = [[event("alloc", 512, 8)] * 3000] * 3000
    else:
        one = segment(SEGMENT, 4096, *([block(SEGMENT, 512)] * 3000))
        snapshot["segments"] = [one] * 3000 if shared == "segments" else [dict(one) for _ in range(3000)]
    path = write(tmp_path, snapshot)
    before = reset_peak()
    tables = ingest_file(path, tmp_path, IMPORTER)
    assert peak_bytes() - before < 200 << 20
    name = {"segments": "segment_repeated", "blocks": "segment_repeated", "traces": "trace_repeated"}[shared]
    assert counts_of(tables)[name, "data_loss"] == 2999
    assert tables["memory_events" if shared == "traces" else "blocks"].height == 3000


def test_long_frame_lists_are_cut_at_the_root(tmp_path: Path) -> None:
    frames = [{"name": f"f{i}", "filename": "deep.py", "line": i + 1} for i in range(20_000)]
    events = [event("alloc", 512 * i, 8, frames=[*frames]) for i in range(1, 200)]
    tables = ingest_file(write(tmp_path, {"device_traces": [events], "segments": []}), tmp_path, IMPORTER)
    path = tables["call_paths"]["frame_ids"][0].to_list()
    names = dict(tables["frames"].select("frame_id", "function").rows())
    assert tables["call_paths"].height == 1
    assert names[path[-1]] == "f0"
    assert len(path) == 4096
    assert counts_of(tables)["call_path_cut", "info"] == 199


def test_frame_lists_that_only_look_alike_take_bounded_time(tmp_path: Path) -> None:
    """Equal at the five places that are looked at first, different elsewhere, thousands of them."""
    same = [{"name": str(i), "filename": "a.py", "line": 1} for i in range(12)]
    lists = [[*same[:1], {"name": f"x{i}", "filename": "a.py", "line": 2}, *same[2:]] for i in range(6000)]
    events = [event("alloc", 512 * i, 8, frames=frames) for i, frames in enumerate(lists, 1)]
    tables = ingest_file(write(tmp_path, {"device_traces": [events], "segments": []}), tmp_path, IMPORTER)
    assert tables["memory_events"]["call_path_id"].n_unique() == 6000


def test_a_hundred_thousand_unknown_actions_take_bounded_time(tmp_path: Path) -> None:
    events = [event(f"action {i}", 512, 8, i) for i in range(100_000)]
    tables = ingest_file(write(tmp_path, {"device_traces": [events], "segments": []}), tmp_path, IMPORTER)
    assert counts_of(tables)["unknown_action", "info"] == 100_000
    assert tables["memory_events"]["action"].unique().to_list() == ["other"]
