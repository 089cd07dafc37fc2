"""Memory by NUMA node: growth of slab, pages on other nodes, and who handed them out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pipeline.database import Database
from pipeline.numa import numa_memory, publish_numa
from schemas.config import Config
from tests.host.rows import SECOND, Row, sample
from tests.sql.support import tables

MIB = 2**20


def _judge(folder: Path, metrics: Iterable[Row]) -> tuple[Database, list[dict[str, Any]], list[dict[str, Any]]]:
    """The database with `numa_traffic_made`, rows of `numa_memory`, and the findings."""
    database = tables(folder, metrics=list(metrics))
    written: dict[str, list[dict[str, Any]]] = {}
    found = publish_numa(database, Config(), lambda name, made: None, written.__setitem__)
    return database, written["numa_memory"], found


def _slab(second: int, node: int, size: int, part: str = "s_unreclaim") -> Row:
    return sample(second * SECOND, f"host_numa_{part}_bytes", size, node=str(node))


def test_a_nodes_slab_that_grows_is_told_with_its_rate(tmp_path: Path) -> None:
    metrics = [
        *(_slab(s, 0, 500 * MIB + s % 3 * 1024) for s in range(61)),
        *(_slab(s, 1, 100 * MIB + s * MIB) for s in range(61)),
    ]
    _, rows, [found] = _judge(tmp_path, metrics)
    grown = {row["node_index"]: row for row in rows}
    assert grown[1]["growth_bytes_per_hour"] == pytest.approx(3600 * MIB)
    assert grown[1]["growth_p_value"] < 1e-9
    assert grown[0]["growth_p_value"] > 0.01
    assert [grown[node]["node_share_ratio"] for node in (0, 1)] == pytest.approx([500 / 660, 160 / 660], abs=1e-4)
    assert found["title"] == ("Kernel slab that can't be reclaimed grew by 62.9 MB on NUMA node 1 in 60 s (3.77 GB/h)")
    assert (found["severity"], found["bytes"]) == ("warning", 60 * MIB)


def test_slab_that_the_kernel_takes_back_is_no_finding(tmp_path: Path) -> None:
    _, rows, found = _judge(tmp_path, [_slab(s, 0, s * MIB, "slab") for s in range(90)])
    assert rows[0]["growth_p_value"] < 1e-9
    assert found == []


def _pages(pid: int, node: int, size: int, kind: str = "private", second: int = 1) -> Row:
    return sample(second * SECOND, "process_numa_bytes", size, node=str(node), kind=kind, pid=str(pid))


def test_a_process_on_two_nodes(tmp_path: Path) -> None:
    metrics = [
        *(_pages(7, 0, 200 * MIB), _pages(7, 0, 100 * MIB, "heap"), _pages(7, 1, 100 * MIB)),  # a quarter elsewhere
        *(_pages(8, 0, 900 * MIB), _pages(8, 1, 70 * MIB)),  # 7 %
        *(_pages(9, 0, 3 * MIB), _pages(9, 1, 3 * MIB)),  # too little to tell
    ]
    _, rows, [found] = _judge(tmp_path, metrics)
    assert {(r["process_id"], r["node_index"]): r["last_bytes"] for r in rows}[7, 0] == 300 * MIB
    assert found["title"] == (
        "Process 7 has 25% of its memory (105 MB) on other NUMA nodes than node 0, where most of it is"
    )
    part = json.loads(found["evidence"])[0]
    assert (part["table"], part["where"]) == ("numa_memory", "memory_part = 'process' AND process_id = 7")


def test_pages_without_a_time_still_have_a_place(tmp_path: Path) -> None:
    rows = [dict(_pages(7, node, size)) | {"ts_ns": None} for node, size in ((0, 300 * MIB), (1, 100 * MIB))]
    _, made, [found] = _judge(tmp_path, rows)
    assert {row["start_ns"] for row in made} == {None}
    assert "growth_p_value" not in made[0]
    assert "25%" in found["title"]


def _counters(second: int, node: int, **pages: int) -> list[Row]:
    return [sample(second * SECOND, f"host_numastat_{name}", value, node=str(node)) for name, value in pages.items()]


def test_pages_handed_out_between_samples(tmp_path: Path) -> None:
    metrics = [
        *_counters(0, 0, local_node=1_000_000, other_node=500, numa_miss=9, numa_foreign=7),
        *_counters(5, 0, local_node=1_050_000, other_node=50_500, numa_miss=9, numa_foreign=40_007),
        *_counters(0, 1, local_node=10, other_node=0, numa_miss=0, numa_foreign=0),
        *_counters(5, 1, local_node=100_010, other_node=0, numa_miss=40_000, numa_foreign=0),
    ]
    database, _, found = _judge(tmp_path, metrics)
    columns = "node_index, local_page_count, remote_page_count, miss_page_count, foreign_page_count, remote_ratio"
    assert database.rows(f"SELECT {columns} FROM numa_traffic_made ORDER BY 1") == [
        (0, 50_000, 50_000, 0, 40_000, 0.5),
        (1, 100_000, 0, 40_000, 0, 0.0),
    ]
    assert [(row["severity"], row["title"]) for row in found] == [
        ("info", "50% of the pages handed out on NUMA node 0 (205 MB) went to processes that ran on another node"),
        ("warning", "NUMA node 1 stood in for a node without free memory: 164 MB"),
    ]


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ([], []),
        (_counters(0, 0, local_node=5, other_node=10**9), []),
        (
            [*_counters(0, 0, local_node=5, other_node=10**9), *_counters(1, 0, local_node=9, other_node=3)],
            [(4, None, None)],
        ),
        ([*_counters(0, 0, local_node=0), *_counters(1, 0, local_node=10**9)], [(10**9, None, None)]),
        ([*_counters(0, 0, other_node=0, local_node=1), *_counters(1, 0, other_node=0, local_node=1)], [(0, 0, None)]),
    ],
    ids=["nothing", "one sample", "restarted", "one counter", "idle"],
)
def test_what_is_not_known_is_null_and_no_finding(metrics: list[Row], expected: list[Any], tmp_path: Path) -> None:
    database, _, found = _judge(tmp_path, metrics)
    assert found == []
    columns = "local_page_count, remote_page_count, remote_ratio"
    assert database.rows(f"SELECT {columns} FROM numa_traffic_made") == expected


def test_no_more_series_than_the_bound(tmp_path: Path) -> None:
    database = tables(tmp_path, metrics=[_pages(pid, 0, pid) for pid in range(1, 1101)])
    database.run("host", "numa_samples")
    rows = numa_memory(database)
    assert len(rows) == 1000
    assert min(row["last_bytes"] for row in rows) == 101, "the smallest are left out"
