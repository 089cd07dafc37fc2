"""Captures of profiler traces without what else was recorded: lifetimes from their tensors, ranks in one folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.generate.judging import Verdicts
from tests.golden.captures import ROOT, evidence, judge, planted, rows


def judged(tmp_path: Path, files: dict[str, str]) -> Verdicts:
    """Verdicts of a folder with these files, under other names."""
    if not (ROOT / "kv_leak_kineto").is_dir():
        pytest.skip("the recorded captures are not beside the checkout")
    (tmp_path / "in").mkdir()
    for name, source in files.items():
        shutil.copyfile(ROOT / source, tmp_path / "in" / name)
    return judge(tmp_path / "in", tmp_path / "out")


def test_a_trace_and_a_request_log_name_the_leak(tmp_path: Path) -> None:
    files = {"t.bin": "kv_leak_kineto/kineto.json.gz", "r.bin": "kv_leak_kineto/requests.jsonl"}
    found = judged(tmp_path, files)
    [suspect] = found.growing
    leak = planted("kv_leak_kineto", "kv_cache")
    held = evidence(found, suspect["suspect_id"])
    assert {address for address, _, _ in held} == leak.addresses
    assert (suspect["retained_count"], suspect["root_cause"], suspect["attribute"]) == (36, "kv_cache", "status=499")
    assert "update" in suspect["leak_path"]
    assert "aten::cat" in suspect["leak_path"]
    sources = rows(found.out, "SELECT DISTINCT source FROM {allocations}")
    assert [row["source"] for row in sources] == ["kineto"]


def test_a_trace_alone_does_not_call_what_is_live_at_its_end_a_leak(tmp_path: Path) -> None:
    """Three of ten requests keep tensors, and nothing tells these three apart."""
    found = judged(tmp_path, {"t.bin": "kv_leak_kineto/kineto.json.gz"})
    assert found.growing == []
    assert {"one_time", "inconclusive"} == {row["verdict"] for row in found.suspects}
    kinds = {row["epoch_kind"] for row in rows(found.out, "SELECT epoch_kind FROM {epochs}")}
    assert kinds == {"request"}


def test_ranks_in_one_folder_are_told_apart_by_their_tensors(tmp_path: Path) -> None:
    names = {"a.bin": "rank0/kineto.json.gz", "b.bin": "rank1/kineto.json.gz"}
    names |= {"c.bin": "rank0/snapshot.pickle", "d.bin": "rank1/snapshot.pickle.gz"}
    found = judged(tmp_path, {name: f"ddp2/{source}" for name, source in names.items()})
    [suspect] = found.growing
    assert (suspect["retained_count"], suspect["retained_requested_bytes"]) == (24, 37_748_784)
    assert {address for address, _, _ in evidence(found, suspect["suspect_id"])} == planted(
        "ddp2/rank1", "growing_list"
    ).addresses
    processes = rows(found.out, "SELECT path, process_id FROM {capture_files} ORDER BY path")
    assert [row["process_id"] for row in processes] == [1231, 1232, 1231, 1232]
    counted = rows(found.out, "SELECT source, count(*) AS n FROM {allocations} WHERE level = 'tensor' GROUP BY source")
    assert [row["source"] for row in counted] == ["torch"]
