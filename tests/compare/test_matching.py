"""Which call paths of two captures are one: names in SQL, and one frame's difference against brute force."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pipeline.compare_paths import PathKey, nearly_equal
from tests.sql.support import run, tables


def _key(*frames: str, level: str = "tensor") -> PathKey:
    return PathKey(level, "device", None, frames)


def _near(a: PathKey, b: PathKey) -> bool:
    """One frame renamed, added, taken out, or moved elsewhere: what is left without one frame is equal."""
    if a[:3] != b[:3]:
        return False
    forms = [{k.frames, *(k.frames[:i] + k.frames[i + 1 :] for i in range(len(k.frames)))} for k in (a, b)]
    return bool(forms[0] & forms[1])


@pytest.mark.parametrize("seed", range(8))
def test_one_frame_of_difference(seed: int) -> None:
    """Random paths: what is matched is near, and near to nothing else."""
    rng = random.Random(seed)
    before = {_key(*rng.choices("abcd", k=rng.randint(2, 6))) for _ in range(25)}
    after = {_key(*rng.choices("abcd", k=rng.randint(2, 6))) for _ in range(25)} - before
    expected = {}
    for key in after:
        near = [old for old in before if _near(old, key)]
        is_only = len(near) == 1 and sum(_near(near[0], other) for other in after) == 1
        if is_only and min(len(key.frames), len(near[0].frames)) > 3:
            expected[key] = near[0]
    assert nearly_equal(before, after) == expected


def test_what_is_near_to_two_or_elsewhere_stays_apart() -> None:
    old, new = _key("main", "old", "serve", "store"), _key("main", "new", "serve", "store")
    assert nearly_equal([old], [new]) == {new: old}
    assert nearly_equal([old], [_key("main", "wrapper", "old", "serve", "store")])
    assert nearly_equal([old], [new, _key("main", "other", "serve", "store")]) == {}
    assert nearly_equal([old], [_key("main", "new", "serve", "store", level="segment")]) == {}
    assert nearly_equal([_key("main", "old", "store")], [_key("main", "new", "store")]) == {}


def test_names_without_lines_processes_addresses_and_folders(tmp_path: Path) -> None:
    frames = [
        ("forward", "/srv/a/venv/lib/python3.11/site-packages/torch/nn/module.py", 7, None),
        ("forward", "/opt/other/lib/python3.12/site-packages/torch/nn/module.py", 9, None),
        ("step", "/home/me/build-17/app/serve.py", 1, None),
        ("step", "/home/you/build-18/app/serve.py", 2, None),
        ("cell", "/tmp/ipykernel_4242/1.py", 1, None),
        ("cell", "/tmp/ipykernel_77/1.py", 1, None),
        ("0x7f00dead", None, None, None),
        ("0x7f00beef", None, None, None),
        ("[unknown]", None, None, "/usr/lib/libcuda.so.1"),
        ("", None, None, "/opt/lib/libcuda.so.1"),
        ("gemm_64x128", None, None, None),
        ("gemm_128x64", None, None, None),
    ]
    database = tables(
        tmp_path,
        frames=[
            {"frame_id": i, "function": function, "file": file, "line": line, "module": module}
            for i, (function, file, line, module) in enumerate(frames)
        ],
        call_paths=[{"call_path_id": i, "frame_ids": [i], "depth_count": 1} for i in range(len(frames))],
        allocations=[
            {"allocation_id": i, "alloc_call_path_id": i, "generation": 0, "allocated_bytes": 512}
            | dict.fromkeys(("is_alloc_before_window", "is_free_inferred", "is_size_estimated"), False)
            for i in range(len(frames))
        ],
    )
    database.connection.execute("SET VARIABLE compare_depth = 120")
    run(database, "compare", "compare_path_names")
    names = [row[0] for row in database.rows("SELECT frames[1] FROM compare_path_names ORDER BY call_path_id")]
    assert names == [
        *["forward (nn/module.py)"] * 2,
        *["step (app/serve.py)"] * 2,
        *["cell (ipykernel_#/#.py)"] * 2,
        *["0x#"] * 2,
        *["[libcuda.so.1]"] * 2,
        "gemm_64x128",
        "gemm_128x64",
    ]
    keys = [row[0] for row in database.rows("SELECT path_key FROM compare_path_names ORDER BY call_path_id")]
    assert len(set(keys)) == 7


def test_a_deep_path_keeps_its_ends_and_its_own_key(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        frames=[{"frame_id": i, "function": f"f{i}"} for i in range(12)],
        call_paths=[
            {"call_path_id": 1, "frame_ids": list(range(12)), "depth_count": 12},
            {"call_path_id": 2, "frame_ids": [*range(5), 4, *range(6, 12)], "depth_count": 12},
        ],
        allocations=[
            {"allocation_id": i, "alloc_call_path_id": i, "generation": 0, "allocated_bytes": 512}
            | dict.fromkeys(("is_alloc_before_window", "is_free_inferred", "is_size_estimated"), False)
            for i in (1, 2)
        ],
    )
    database.connection.execute("SET VARIABLE compare_depth = 6")
    run(database, "compare", "compare_path_names")
    rows = database.rows("SELECT frames, path_key FROM compare_path_names ORDER BY call_path_id")
    assert rows[0][0] == ["f0", "f1", "f2", "[frames cut]", "f10", "f11"]
    assert rows[0][1] != rows[1][1]
