"""Recorded captures against what was planted in them: the results that the project promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.generate.judging import Verdicts, rows
from tests.golden.captures import ROOT, evidence, planted, snapshot, truth

Judged = Callable[[str], Verdicts]
MIB = 1024 * 1024


def _only(found: Verdicts) -> dict[str, Any]:
    assert [row["root_cause"] for row in found.growing] == [found.growing[0]["root_cause"]], "one suspect"
    return found.growing[0]


def _workspaces(found: Verdicts) -> list[str]:
    return [
        row["verdict"] for row in found.suspects if row["retained_bytes"] == 32 * MIB and row["retained_count"] == 1
    ]


@pytest.mark.parametrize(
    ("name", "count", "epochs"),
    [
        ("kv_leak", 72, 18),
        ("kv_leak_kineto", 36, 10),
        ("expandable", 36, 10),
        pytest.param("soak", 1596, 400, marks=pytest.mark.slow),
    ],
)
def test_caches_of_cancelled_requests(judged: Judged, name: str, count: int, epochs: int) -> None:
    found, leak = judged(name), planted(name, "kv_cache")
    suspect = _only(found)
    assert suspect["root_cause"] == "kv_cache"
    held = evidence(found, suspect["suspect_id"])
    assert {address for address, _, _ in held} == leak.addresses
    assert (len(held), suspect["retained_count"]) == (count, count)
    # state rounding: blocks are multiples of 512 B
    assert suspect["retained_requested_bytes"] == leak.bytes
    assert leak.bytes <= suspect["retained_bytes"] <= leak.bytes + 512 * count
    assert suspect["retained_bytes"] == sum(allocated for _, _, allocated in held)
    requests = rows(
        found.out,
        f"SELECT DISTINCT request_id FROM {{leak_evidence}} WHERE suspect_id = {suspect['suspect_id']}",
    )
    assert {row["request_id"] for row in requests} == set(leak.requests)
    assert (suspect["attribute"], suspect["epoch_kind"], suspect["epochs_count"]) == ("status=499", "request", epochs)
    assert suspect["surviving_epochs_count"] == len(leak.requests)
    assert "SessionStore" in suspect["leak_path"] or "update" in suspect["leak_path"]


@pytest.mark.parametrize("name", ["kv_leak", "kv_leak_kineto", "expandable", "clean", "autograd"])
def test_the_first_requests_workspace_is_let_go(judged: Judged, name: str) -> None:
    assert "one_time" in _workspaces(judged(name))
    assert "growing" not in _workspaces(judged(name))


@pytest.mark.parametrize("name", ["kv_leak", "clean", "autograd", "expandable", "frag", "external"])
def test_live_tensors_are_the_snapshots_own(judged: Judged, name: str) -> None:
    found = judged(name)
    dump = snapshot(name)
    blocks = {
        (block["address"], block["size"])
        for segment in dump["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }
    live = rows(
        found.out, "SELECT address, allocated_bytes FROM {allocations} WHERE level = 'tensor' AND free_ts_ns IS NULL"
    )
    assert {(row["address"], row["allocated_bytes"]) for row in live} == blocks
    assert sum(row["allocated_bytes"] for row in live) == truth(name)["memory_allocated"]
    segments = rows(
        found.out,
        "SELECT sum(allocated_bytes) AS held FROM {allocations} WHERE level = 'segment' AND free_ts_ns IS NULL",
    )
    assert segments[0]["held"] == truth(name)["memory_reserved"]


def test_kv_leak_keeps_132_tensors_and_its_20_segments_are_cuda_mallocs(judged: Judged) -> None:
    out = judged("kv_leak").out
    [live] = rows(out, "SELECT count(*) AS n FROM {allocations} WHERE level = 'tensor' AND free_ts_ns IS NULL")
    assert live["n"] == 132
    linked = rows(
        out,
        "SELECT s.address, s.allocated_bytes, d.alloc_call_path_id IS NOT NULL AS has_stack FROM {allocations} AS s"
        " JOIN {allocations} AS d ON d.allocation_id = s.parent_allocation_id AND d.level = 'driver'"
        " JOIN {api_calls} AS c ON c.process_id = s.process_id AND c.correlation_id = s.alloc_correlation_id"
        " WHERE s.level = 'segment' AND c.name LIKE 'cudaMalloc%'",
    )
    own = {(s["address"], s["total_size"]) for s in snapshot("kv_leak")["segments"]}
    assert {(row["address"], row["allocated_bytes"]) for row in linked} == own
    assert len(linked) == 20
    traced = (ROOT / "kv_leak" / "bpftrace.txt").read_text()
    seen = {address for address, size in own if f"cuMemAlloc 0x{address:x} {size} 0\n\t" in traced}
    assert seen
    assert {row["address"] for row in linked if row["has_stack"]} == seen


def test_clean_has_no_suspect_and_its_last_four_sessions_are_bounded(judged: Judged) -> None:
    found = judged("clean")
    assert found.growing == []
    assert found.findings[0]["finding_kind"] == "no_leak"
    caches = rows(
        found.out,
        "SELECT s.verdict, e.request_id, count(*) AS n FROM {leak_evidence} AS e"
        " JOIN {leak_suspects} AS s USING (suspect_id)"
        " WHERE s.leak_path LIKE '%cache_utils%' AND e.request_id IN ('14', '15', '16', '17') GROUP BY ALL ORDER BY 2",
    )
    assert {row["verdict"] for row in caches} == {"bounded"}
    assert {row["request_id"] for row in caches} == {"14", "15", "16", "17"}
    assert sum(row["n"] for row in caches) == 4 * 6 * 2  # sessions, layers, keys and values


def test_autograd_is_one_graph_without_the_workspace(judged: Judged) -> None:
    found = judged("autograd")
    suspect = _only(found)
    assert suspect["root_cause"] == "autograd_graph"
    workspace = 32 * MIB
    assert suspect["retained_requested_bytes"] == pytest.approx(914_248_720, rel=0.01)
    assert suspect["retained_bytes"] == pytest.approx(planted("autograd", "autograd_graph").bytes - workspace, rel=0.01)
    assert (suspect["retained_count"], suspect["surviving_epochs_count"]) == (1250, 10)
    assert "evaluate_batch" in suspect["leak_path"]
    assert all(allocated != workspace for _, _, allocated in evidence(found, suspect["suspect_id"]))
    causes = {row["root_cause"] for row in rows(found.out, "SELECT root_cause FROM {root_causes}")}
    assert causes == {"autograd_graph"}


def test_external_memory_and_idle_contexts(judged: Judged) -> None:
    found, leak = judged("external"), planted("external", "outside_caching_allocator")
    suspect = _only(found)
    assert suspect["root_cause"] == "outside_allocator"
    assert suspect["level"] == "driver"
    held = evidence(found, suspect["suspect_id"])
    assert {(address, allocated) for address, _, allocated in held} == leak.storages
    assert suspect["retained_bytes"] == leak.bytes == 134_217_728
    [contexts] = [fault for fault in truth("external")["planted"] if fault["kind"] == "cuda_context"]
    named = rows(found.out, "SELECT process_id FROM {root_causes} WHERE root_cause = 'cuda_context'")
    assert {row["process_id"] for row in named} == set(contexts["pids"])
    titles = " ".join(row["title"] for row in found.findings)
    assert all(str(pid) in titles for pid in contexts["pids"])
    statics = rows(
        found.out,
        "SELECT count(*) AS n FROM {leak_evidence} AS e JOIN {allocations} AS a USING (allocation_id)"
        " WHERE a.memory_kind = 'static'",
    )
    assert statics[0]["n"] == 0


def test_fragmentation_is_no_leak(judged: Judged) -> None:
    found = judged("frag")
    assert found.growing == []
    assert truth("frag")["memory_reserved"] > 10 * truth("frag")["memory_allocated"]
    first = found.findings[0]
    assert first["finding_kind"] == "fragmentation"
    assert "1.29 GB reserved for 126 MB allocated" in first["title"]
    assert "the largest 944 MB" in first["title"]


@pytest.mark.parametrize("name", ["kv_leak", "clean", "autograd", "expandable", "external", "kv_leak_kineto", "ddp2"])
def test_a_cache_in_use_is_not_called_fragmented(judged: Judged, name: str) -> None:
    assert "fragmentation" not in {row["finding_kind"] for row in judged(name).findings}


def test_one_rank_of_two_leaks(judged: Judged) -> None:
    found = judged("ddp2")
    suspect = _only(found)
    leak = planted("ddp2/rank1", "growing_list")
    held = evidence(found, suspect["suspect_id"])
    assert {address for address, _, _ in held} == leak.addresses
    assert (suspect["rank"], suspect["retained_count"]) == (1, 24)
    assert suspect["retained_requested_bytes"] == leak.bytes == 37_748_784
    assert {row["rank"] for row in found.suspects} == {0, 1}
    assert truth("ddp2/rank0")["planted"] == []


@pytest.mark.parametrize("name", ["kv_leak", "clean", "autograd", "frag", "external"])
def test_the_allocators_state_at_the_end_is_the_dumps(judged: Judged, name: str) -> None:
    dump = snapshot(name)["segments"]
    free = [(b["size"], len(s["blocks"])) for s in dump for b in s["blocks"] if b["state"] == "inactive"]
    found = rows(judged(name).out, "SELECT * FROM {fragmentation} WHERE moment = 'end'")
    assert [row["inactive_bytes"] for row in found] == [sum(size for size, _ in free)]
    assert found[0]["free_block_count"] == len(free)
    assert found[0]["largest_free_bytes"] == max(size for size, _ in free)
    assert found[0]["inactive_split_bytes"] == sum(size for size, blocks in free if blocks > 1)
    assert found[0]["reserved_bytes"] == truth(name)["memory_reserved"]
    assert found[0]["allocated_bytes"] == truth(name)["memory_allocated"]


@pytest.mark.parametrize("name", ["kv_leak", "clean", "autograd", "expandable", "frag", "external", "kv_leak_kineto"])
def test_what_the_allocator_reserves_is_in_use_waiting_or_free(judged: Judged, name: str) -> None:
    [counted] = rows(
        judged(name).out,
        "SELECT count(*) AS moments, count(*) FILTER (reserved_bytes <> active_bytes + inactive_bytes"
        " OR active_bytes <> allocated_bytes + pending_free_bytes OR inactive_split_bytes > inactive_bytes"
        " OR largest_free_bytes > inactive_bytes OR external_fragmentation_ratio NOT BETWEEN 0 AND 1"
        " OR internal_fragmentation_ratio NOT BETWEEN 0 AND 1) AS broken FROM {fragmentation}",
    )
    assert counted["moments"] > 5
    assert counted["broken"] == 0


def test_kv_blocks_that_lost_their_way_are_named(judged: Judged) -> None:
    found = judged("kvblocks")
    faults = {(f["fault"], f["block_id"], str(f["request_id"])) for f in truth("kvblocks")["planted_faults"]}
    anomalies = rows(found.out, "SELECT anomaly, block_id, request_id FROM {kv_anomalies}")
    assert len(anomalies) == len(faults) == 5
    assert {(row["anomaly"], row["block_id"], row["request_id"]) for row in anomalies} == faults
    assert [row["title"] for row in found.findings if row["finding_kind"] == "kv_blocks"] == [
        "KV blocks: 4 × dangling, 131 kB kept, first block 3 of request 1",
        "KV blocks: 1 × underflow, first block 28 of request 9",
    ]
