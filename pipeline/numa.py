"""Memory by NUMA node: who grew where, and what lies on another node than the processor that uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.database import Database
from pipeline.leaks.trend import rise_p_value, theil_sen, thinned
from pipeline.wording import bytes_text, evidence_text, seconds_text
from schemas.config import Config
from schemas.host_settings import HostSettings

Row = dict[str, Any]
Publish = Callable[[str, str], None]
WriteRows = Callable[[str, list[Row]], None]
PAGE_BYTES = 4096
"""What numastat counts in; larger pages are counted as several."""
MAX_SERIES = 1000
_TRENDS = ("slab", "slab_unreclaimable", "process")
_SERIES = """
SELECT host, process_id, node_index, memory_part, clock_aligned, array_agg(ts_ns ORDER BY ts_ns NULLS FIRST),
    array_agg(bytes ORDER BY ts_ns NULLS FIRST)
FROM numa_samples GROUP BY ALL ORDER BY max(bytes) DESC, 1, 2, 3, 4, 5 LIMIT ?
"""


def _series_row(key: tuple[Any, ...], times: list[int | None], held: list[int]) -> Row:
    host, process, node, part, is_aligned = key
    seen = [ts for ts in times if ts is not None]
    row: Row = {
        "host": host or None,
        "process_id": process,
        "node_index": node,
        "memory_part": part,
        "clock_aligned": is_aligned,
        "sample_count": len(held),
        "start_ns": seen[0] if seen else None,
        "end_ns": seen[-1] if seen else None,
        "first_bytes": held[0],
        "last_bytes": held[-1],
        "highest_bytes": max(held),
    }
    if part in _TRENDS and len(seen) == len(held) > 2 and seen[-1] > seen[0]:
        values = thinned(np.array(held, dtype=np.float64))
        step_ns = (seen[-1] - seen[0]) / (len(values) - 1)
        row["growth_bytes_per_hour"] = theil_sen(values) * 3.6e12 / step_ns
        row["growth_p_value"] = min(1.0, rise_p_value(values))
    return row


def numa_memory(database: Database) -> list[Row]:
    """Rows of `numa_memory`: one a node and part of memory, from `numa_samples`."""
    rows = [_series_row(key, times, held) for *key, times, held in database.rows(_SERIES, [MAX_SERIES])]  # type: ignore[arg-type]
    totals: dict[tuple[Any, ...], int] = {}
    for row in rows:
        key = (row["host"], row["process_id"], row["memory_part"], row["clock_aligned"])
        totals[key] = totals.get(key, 0) + row["last_bytes"]
    for row in rows:
        total = totals[row["host"], row["process_id"], row["memory_part"], row["clock_aligned"]]
        row["node_share_ratio"] = row["last_bytes"] / total if total else None
    return rows


def _on(row: Row) -> str:
    return f"node {row['node_index']}" + (f" of {row['host']}" if row["host"] else "")


def _finding(severity: str, size: int, title: str, table: str, where: str, advice: str) -> Row:
    return {
        "finding_kind": "numa",
        "severity": severity,
        "bytes": size,
        "title": title,
        "evidence": evidence_text((table, where)),
        "advice": advice,
    }


def _slab_findings(rows: list[Row], settings: HostSettings) -> list[Row]:
    """Kernel memory that can't be given back and rises on a node."""
    found = []
    for row in rows:
        grown = row["last_bytes"] - row["first_bytes"]
        if (
            row["memory_part"] == "slab_unreclaimable"
            and grown >= settings.slab_min_growth_bytes
            and row.get("growth_p_value", 1.0) <= settings.max_p_value
        ):
            took = seconds_text((row["end_ns"] - row["start_ns"]) / 1e9)
            title = (
                f"Kernel slab that can't be reclaimed grew by {bytes_text(grown)} on NUMA {_on(row)} in {took}"
                f" ({bytes_text(row['growth_bytes_per_hour'])}/h)"
            )
            where = f"memory_part = 'slab_unreclaimable' AND node_index = {row['node_index']}"
            advice = "Trace kmem allocations (perf kmem, ftrace) or take slabtop twice to name the cache that grows."
            found.append(_finding("warning", grown, title, "numa_memory", where, advice))
    return found


def _process_findings(rows: list[Row], settings: HostSettings) -> list[Row]:
    """Processes whose pages lie on several nodes."""
    held: dict[tuple[str | None, int], list[Row]] = {}
    for row in rows:
        if row["memory_part"] == "process" and row["process_id"] is not None:
            held.setdefault((row["host"], row["process_id"]), []).append(row)
    found = []
    for (_, process), nodes in sorted(held.items(), key=lambda item: (item[0][0] or "", item[0][1])):
        total, most = sum(row["last_bytes"] for row in nodes), max(nodes, key=lambda row: row["last_bytes"])
        off = total - most["last_bytes"]
        if off >= settings.remote_min_bytes and off >= settings.remote_min_ratio * total:
            title = (
                f"Process {process} has {off / total:.0%} of its memory ({bytes_text(off)}) on other NUMA nodes than"
                f" {_on(most)}, where most of it is"
            )
            where = f"memory_part = 'process' AND process_id = {process}"
            advice = "Bind it and its memory to the node that its GPU hangs on (numactl --cpunodebind --membind)."
            found.append(_finding("info", off, title, "numa_memory", where, advice))
    return found


def _traffic_findings(database: Database, settings: HostSettings) -> list[Row]:
    """Nodes whose pages go to processors of other nodes, and nodes that stood in for a full one."""
    found = []
    columns = ("host", "node_index", "local_page_count", "remote_page_count", "miss_page_count", "remote_ratio")
    for values in database.rows(f"SELECT {', '.join(columns)} FROM numa_traffic_made ORDER BY 1, 2"):
        row = dict(zip(columns, values, strict=True))
        remote, missed = ((row[name] or 0) * PAGE_BYTES for name in ("remote_page_count", "miss_page_count"))
        ratio, where = row["remote_ratio"] or 0, f"node_index = {row['node_index']}"
        if missed >= settings.remote_min_bytes:
            title = f"NUMA {_on(row)} stood in for a node without free memory: {bytes_text(missed)}"
            advice = "The other node is full: move work or its page cache, or interleave large allocations."
            found.append(_finding("warning", missed, title, "numa_traffic", where, advice))
        elif remote >= settings.remote_min_bytes and ratio >= settings.remote_min_ratio:
            title = (
                f"{ratio:.0%} of the pages handed out on NUMA {_on(row)} ({bytes_text(remote)})"
                " went to processes that ran on another node"
            )
            advice = "Bind processes and their memory to one node (numactl --cpunodebind --membind)."
            found.append(_finding("info", remote, title, "numa_traffic", where, advice))
    return found


def publish_numa(database: Database, config: Config, publish: Publish, write: WriteRows) -> list[Row]:
    """Make and publish `numa_memory` and `numa_traffic`; returns their findings."""
    for relation in ("numa_samples", "numa_traffic_made"):
        database.run("host", relation)
    rows = numa_memory(database)
    write("numa_memory", rows)
    publish("numa_traffic", "(SELECT * REPLACE (nullif(host, '') AS host) FROM numa_traffic_made)")
    settings = config.host
    return [
        *_slab_findings(rows, settings),
        *_process_findings(rows, settings),
        *_traffic_findings(database, settings),
    ]
