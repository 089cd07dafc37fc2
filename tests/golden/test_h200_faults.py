"""Faults recorded on an H200 (tests/data/h200/faults.py): graph pools, frees held back, stalls; against the files."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ingest.torch_unpickle import load_plain
from tests.generate.judging import Verdicts, rows
from tests.golden.captures import judge

DATA = Path(__file__).resolve().parents[1] / "data" / "h200"


def truth(name: str) -> dict[str, Any]:
    return json.loads((DATA / f"{name}_truth.json").read_text())


def cause(found: Verdicts, name: str) -> dict[str, Any]:
    [row] = rows(found.out, f"SELECT * FROM {{root_causes}} WHERE root_cause = '{name}'")
    return row


@pytest.fixture(scope="module")
def stalls(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    return judge(DATA / "stalls", tmp_path_factory.mktemp("stalls") / "out")


def test_a_graph_a_shape_keeps_a_pool_a_shape(tmp_path: Path) -> None:
    found = judge(DATA / "graphs", tmp_path / "out")
    segments = load_plain(DATA / "graphs" / "snapshot.pickle.gz")["segments"]
    private = [segment for segment in segments if tuple(segment["segment_pool_id"]) != (0, 0)]
    shapes = len(truth("graphs")["graph_shapes"])
    assert len({tuple(segment["segment_pool_id"]) for segment in private}) == shapes
    evidence = " ".join(cause(found, "graph_pool")["evidence_for"])
    gb = sum(segment["total_size"] for segment in private) / 1e9
    assert f"{shapes} private pools hold {gb:.2f} GB in {len(private)} segments" in evidence
    assert f"{shapes} graphs were instantiated" in evidence
    [suspect] = found.growing  # what each capture leaves: its inputs, its outputs, a workspace of its side stream
    assert (suspect["epochs_count"], suspect["surviving_epochs_count"]) == (20, shapes)


def test_frees_wait_for_the_side_stream(tmp_path: Path) -> None:
    found = judge(DATA / "streams", tmp_path / "out")
    [trace] = load_plain(DATA / "streams" / "snapshot.pickle.gz")["device_traces"]
    waiting = most = 0
    planted = {address for address, _ in truth("streams")["delayed"]}
    held = set()
    for event, after in zip(trace, [*trace[1:], None], strict=True):
        if event["action"] in ("free_requested", "free_completed"):
            waiting += event["size"] * (1 if event["action"] == "free_requested" else -1)
            if after is None or after["time_us"] > event["time_us"]:  # an ordinary free ends in the same instant
                most = max(most, waiting)
            if event["action"] == "free_requested" and event["size"] >= 32 << 20:
                held.add(event["addr"])
    assert planted <= held
    assert f"{most / 1e6:.0f} MB" in " ".join(row["title"] for row in found.findings)
    assert cause(found, "delayed_free")["suspect_id"] is None
    assert not found.growing


def test_stalls_are_those_of_the_program(stalls: Verdicts) -> None:
    planted = truth("stalls")
    counts = {
        (row["stall_kind"], row["name"]): row["n"]
        for row in rows(stalls.out, "SELECT stall_kind, name, count(*) AS n FROM {sync_stalls} GROUP BY ALL")
    }
    assert counts["pageable_copy", "cudaMemcpyAsync"] == planted["pageable_h2d"]
    text = gzip.decompress((DATA / "stalls" / "trace.json.gz").read_bytes()).decode()
    for name in ("cudaStreamSynchronize", "cudaDeviceSynchronize"):
        assert counts["synchronize", name] == len(re.findall(rf'"cuda_runtime", "name": "{name}"', text))
    assert counts["synchronize", "cudaStreamSynchronize"] >= planted["items"] + planted["pageable_h2d"]


def test_sleeps_of_the_host_are_idle_time_of_the_device(stalls: Verdicts) -> None:
    [row] = rows(
        stalls.out, "SELECT sum(host_idle_ns)::BIGINT AS host, sum(sync_idle_ns)::BIGINT AS sync FROM {idle_gaps}"
    )
    slept = truth("stalls")["sleeps_ns"]
    assert slept < row["host"] < 1.25 * slept
    assert row["sync"] < slept / 20
