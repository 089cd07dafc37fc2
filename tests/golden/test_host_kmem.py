"""Kernel slab traces: the open files that a program kept, and the caches that it only used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copy

import pytest

from tests.generate.judging import Verdicts, rows
from tests.golden.captures import ROOT, judge

DATA = Path(__file__).resolve().parents[1] / "data" / "slab_table"
CHURNED = ("names_cache", "ext4_allocation_context", "ext4_prealloc_space", "maple_node", "vm_area_struct")


def _check(found: Verdicts, kept: int) -> None:
    [suspect] = found.growing
    assert suspect["leak_path"].splitlines()[-1] == "filp (slab)"
    assert (suspect["level"], suspect["root_cause"], suspect["process_id"]) == ("host", "host_memory", 0)
    assert (suspect["retained_count"], suspect["retained_bytes"]) == (kept, 192 * kept)
    assert f"{kept} host allocations (filp)" in found.findings[0]["title"]
    for row in found.suspects:
        cache = row["leak_path"].splitlines()[-1].removesuffix(" (slab)")
        assert cache not in CHURNED or row["verdict"] == "bounded"
        if cache in ("dentry", "ext4_inode_cache", "lsm_inode_cache"):
            assert row["verdict"] == "inconclusive" and "memory pressure" in row["verdict_reason"]
        if cache == "lsm_file_cache":
            assert row["verdict"] == "inconclusive" and "rises with filp" in row["verdict_reason"]
    [cause] = rows(found.out, "SELECT * FROM {root_causes} WHERE root_cause = 'host_memory'")
    assert "open file" in cause["evidence_for"][0] and "/proc/PID/fd" in cause["advice"]


def _is_conserved(found: Verdicts) -> None:
    """Every event of the files that count is in an allocation, once."""
    [events] = rows(
        found.out, "SELECT count(*) FILTER (action = 'alloc') AS allocs, count(*) FILTER (action = 'free') AS frees"
        " FROM {memory_events} WHERE level = 'host' AND clock_aligned",
    )  # fmt: skip
    [lives] = rows(
        found.out, "SELECT count(alloc_ts_ns) AS allocs, count(free_ts_ns) FILTER (NOT is_free_inferred) AS frees"
        " FROM {allocations} WHERE level = 'host'",
    )  # fmt: skip
    assert lives == events and events["allocs"] > 0
    assert rows(found.out, "SELECT 1 FROM {memory_ledger} LIMIT 1") == []


def test_kept_files_with_the_programs_exit(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    copy(DATA / "file_leak.txt", tmp_path / "in")
    found = judge(tmp_path / "in", tmp_path / "out")
    _check(found, 60)
    _is_conserved(found)
    assert "beginning of the teardown" in found.growing[0]["verdict_reason"]


def test_kept_files_without_the_exit(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    copy(DATA / "kmem_bpftrace.txt", tmp_path / "in")
    # The window ends within an iteration: the last file is open, whether it is kept or not.
    text = (DATA / "kmem_bpftrace.txt").read_text()
    found = judge(tmp_path / "in", tmp_path / "out")
    _check(found, text.count(" filp ALLOC ") - text.count(" filp FREE "))
    assert "teardown" not in found.growing[0]["verdict_reason"]


def test_the_whole_recording(judged: Callable[[str], Verdicts]) -> None:
    found = judged("host_kmem")
    _check(found, 400)
    _is_conserved(found)


@pytest.mark.skipif(not ROOT.is_dir(), reason="the recorded captures are not beside the checkout")
@pytest.mark.parametrize(("name", "kept"), [("kmem_bpftrace.txt", 400), ("kmem_perf_script.txt.gz", None)])
def test_each_recording_alone(name: str, kept: int | None, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    copy(ROOT / "host_kmem" / name, tmp_path / "in")
    found = judge(tmp_path / "in", tmp_path / "out")
    _is_conserved(found)
    if kept is not None:
        _check(found, kept)
    else:  # a quarter of a second of the program's start: too short to call anything a leak
        assert found.growing == [] and found.suspects
