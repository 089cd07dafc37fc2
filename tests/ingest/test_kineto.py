"""Kineto importer: every count, sum and join against plain JSON, stacks against the profiler's parent ids."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from ingest import kineto_spans
from ingest.kineto import IMPORTER
from tests.ingest.kineto_reading import (
    API,
    CORPUS,
    GPU,
    OPERATORS,
    kernel_sums,
    launches,
    load,
    memory,
    memory_rows,
    ns,
    of,
    paths_of,
    python_name,
    python_stacks,
)
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file

DATA = Path(__file__).parents[1] / "data" / "kineto"
BASE = 1790857026000000000
OWN = [DATA / "cpu_stacks.json.gz", DATA / "ddp2_rank1.json.gz"]
SMALL_BYTES = 200_000


def shared_traces(*, small: bool) -> list[Path]:
    """Traces beside the checkout: those that are read in a moment, or the others."""
    found = [*CORPUS.rglob("*.gz"), *(SHARED / "captures").rglob("kineto.json.gz")]
    return sorted(path for path in found if (path.stat().st_size < SMALL_BYTES) == small)


def count_of(tables: dict[str, pl.DataFrame], table: str, column: str) -> Counter[str]:
    return Counter(tables[table][column].to_list()) if table in tables else Counter()


def check_against_json(path: Path, tables: dict[str, pl.DataFrame]) -> None:
    events, base = load(path)
    complete = [event for event in events if event.get("ph") == "X"]
    assert count_of(tables, "gpu_ops", "op") == Counter(GPU[e["cat"]] for e in complete if e["cat"] in GPU)
    assert count_of(tables, "api_calls", "api") == Counter(API[e["cat"]] for e in complete if e["cat"] in API)
    kinds = count_of(tables, "ranges", "range_kind")
    steps = sum(event["name"].startswith("ProfilerStep#") for event in of(events, *OPERATORS, "user_annotation"))
    assert kinds["step"] == steps
    assert kinds["operator"] + kinds["annotation"] + steps == len(of(events, *OPERATORS, "user_annotation"))
    assert kinds["gpu"] == len(of(events, "gpu_user_annotation"))
    starts = sorted(base + ns(event["ts"]) for event in of(events, *OPERATORS))
    is_operator = pl.col("range_kind").is_in(["operator", "step"])
    assert set(starts) <= set(tables["ranges"].filter(is_operator)["start_ns"].to_list())
    if "gpu_ops" in tables:
        kernels = tables["gpu_ops"].filter(pl.col("op") == "kernel")
        sums = kernels.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns"))
        assert dict(sums.rows()) == kernel_sums(events)
        calls = tables["api_calls"].select("correlation_id", call="name").unique("correlation_id")
        joined = kernels.join(calls, on="correlation_id", how="left").select("name", "call")
        assert Counter(joined.rows()) == launches(events)
        bytes_ = sum(event["args"]["bytes"] for event in of(events, "gpu_memcpy", "Memcpy"))
        assert tables["gpu_ops"].filter(pl.col("op") == "memcpy")["size_bytes"].sum() == bytes_
    expected = memory(events, base)
    assert (memory_rows(tables["memory_events"]) if "memory_events" in tables else Counter()) == expected
    assert not [name for name, severity in counts_of(tables) if severity != "info"]


def check_stacks(path: Path, tables: dict[str, pl.DataFrame]) -> int:
    """Compare the Python part of every memory event's path; how many stacks there were."""
    events, base = load(path)
    names = {python_name(event["name"]) for event in of(events, "python_function")}
    expected = {(thread, base + ns(ts)): stack for (thread, ts), stack in python_stacks(events).items()}
    paths = paths_of(tables)
    rows = tables["memory_events"].select("thread_id", "ts_ns", "call_path_id").rows()
    for thread, ts_ns, path_id in rows:
        found = [name for name in paths.get(path_id, []) if name in names]
        assert found == expected[thread, ts_ns], f"{path.name}: thread {thread} at {ts_ns}"
    return sum(map(bool, expected.values()))


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_own_traces(path: Path, tmp_path: Path) -> None:
    check_against_json(path, check_importer(path, tmp_path, IMPORTER))


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not beside the checkout")
@pytest.mark.parametrize("small", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_shared_traces(small: bool, tmp_path: Path) -> None:
    paths = shared_traces(small=small)
    assert len(paths) >= 7
    for path in paths:
        tables = ingest_file(path, tmp_path, IMPORTER)
        check_against_json(path, tables)
        if "h100" in str(path):
            check_stacks(path, tables)


def test_stacks_are_the_profilers_own(tmp_path: Path) -> None:
    path = DATA / "cpu_stacks.json.gz"
    assert check_stacks(path, ingest_file(path, tmp_path, IMPORTER)) > 80


def test_a_tensor_kept_on_the_host_and_who_kept_it(tmp_path: Path) -> None:
    tables = ingest_file(DATA / "cpu_stacks.json.gz", tmp_path, IMPORTER)
    paths = paths_of(tables)
    events = tables["memory_events"]
    freed = events.filter(pl.col("action") == "free").select("address", pl.col("ts_ns").alias("free_ns"))
    kept = events.filter(pl.col("action") == "alloc", pl.col("size_bytes") == 2 * 16 * 8 * 4)
    kept = kept.join(freed, on="address", how="left").filter(
        pl.col("free_ns").is_null() | (pl.col("free_ns") < pl.col("ts_ns"))
    )
    stacks = [paths[path] for path in kept["call_path_id"].unique()]
    assert any(stack[-2:] == ["<built-in method cat of type object>", "aten::cat"] for stack in stacks)
    assert any("update" in frame for stack in stacks for frame in stack)


def test_ranges_of_the_trace(tmp_path: Path) -> None:
    tables = ingest_file(DATA / "cpu_stacks.json.gz", tmp_path, IMPORTER)
    ranges = tables["ranges"]
    named = ranges.filter(pl.col("range_kind") == "annotation")["name"].to_list()
    assert [name for name in named if name.startswith("request")] == [f"request:{i}" for i in range(4)]
    events, base = load(DATA / "cpu_stacks.json.gz")
    first = next(event for event in events if event.get("name") == "request:0" and event["ph"] == "X")
    row = ranges.filter(pl.col("name") == "request:0").row(0, named=True)
    assert (row["start_ns"], row["end_ns"] - row["start_ns"]) == (base + ns(first["ts"]), ns(first["dur"]))
    cat = next(event for event in of(events, "cpu_op") if event["name"] == "aten::cat")
    texts = ranges.filter(pl.col("name") == "aten::cat")["attributes"].to_list()
    assert any(text.startswith(f'{{"External id":{cat["args"]["External id"]}') for text in texts)


def test_old_arrays_written_wrong(tmp_path: Path) -> None:
    """Bare quotes in a name, inf for a number, a comma behind the last event, threads as text."""
    tables = ingest_file(DATA / "old_array.json", tmp_path, IMPORTER)
    ops = tables["gpu_ops"].sort("start_ns").to_dicts()
    assert [op["name"] for op in ops] == ["Memcpy HtoD (Pageable -> Device)", 'say<char>("a")']
    copy, kernel = ops
    assert (copy["copy_kind"], copy["src_kind"], copy["dst_kind"], copy["size_bytes"]) == (
        "htod",
        "pageable",
        "device",
        512,
    )
    assert (kernel["grid"], kernel["block"], kernel["shared_bytes"]) == ("50,1,1", "256,1,1", 1024)
    assert kernel["end_ns"] - kernel["start_ns"] == 2000
    [call] = tables["api_calls"].to_dicts()
    assert (call["start_ns"], call["process_id"], call["thread_id"]) == (1623142623460200000, 25738, 25738)
    link = tables["external_correlations"].row(0, named=True)
    assert (link["correlation_id"], link["external_id"], link["process_id"]) == (34417, 2, 25738)
    [event] = tables["memory_events"].to_dicts()
    stack = ["train.py(90): <module>", "train.py(54): step", "model.py(12): forward", "aten::empty"]
    assert paths_of(tables)[event["call_path_id"]] == stack
    assert (event["address"], event["size_bytes"], event["level"]) == (None, 512, "tensor")
    kinds = dict(tables["ranges"].select("name", "range_kind").rows())
    assert kinds == {"aten::zeros": "operator", "aten::empty": "operator", "ProfilerStep#1": "step"}
    assert counts_of(tables)["repaired_events", "info"] == 1


def test_amd_synchronisations_and_counters(tmp_path: Path) -> None:
    tables = check_importer(DATA / "other_kinds.json", tmp_path, IMPORTER)
    kernel, copy, peer = tables["gpu_ops"].sort("start_ns").to_dicts()
    assert (kernel["start_ns"], kernel["device_index"], kernel["stream_id"]) == (BASE + 20053, 1, 3)
    assert (kernel["graph_id"], kernel["graph_node_id"]) == (2, 17)
    assert (copy["copy_kind"], copy["src_kind"], copy["dst_kind"]) == ("dtoh", "device", None)
    assert (peer["copy_kind"], peer["device_index"], peer["context_id"], peer["size_bytes"]) == ("ptop", 1, 2, 4096)
    syncs = tables["sync_events"].select("sync_kind", "stream_id", "context_id", "event_id", "correlation_id").rows()
    assert syncs == [("stream_wait", 3, 1, 6, 12), ("context", None, 1, None, 13)]
    rows = tables["memory_events"].select("level", "action", "ts_ns", "device_index", "size_bytes").rows()
    assert rows == [
        ("host", "alloc", BASE + 49750, None, 64),
        ("tensor", "alloc", BASE + 50250, 1, 1024),
        ("tensor", "free", BASE + 60125, 1, 1024),
        ("tensor", "oom", BASE + 61000, 1, 1073741824),
    ]
    assert tables["overheads"].select("overhead_kind", "start_ns").rows() == [("buffer_flush", BASE + 45000)]
    metric = tables["metrics"].select("metric", "labels", "ts_ns", "value").row(0)
    assert metric == ("smsp__cycles", '{"track":"GPU 1 Counters"}', BASE + 70000, 12.5)
    device = tables["devices"].row(0, named=True)
    assert (device["name"], device["compute_capability"], device["multiprocessor_count"]) == (
        "AMD Instinct MI300X",
        "9.4",
        304,
    )


def test_stacks_are_the_same_window_by_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ingest_file(DATA / "cpu_stacks.json.gz", tmp_path, IMPORTER)
    monkeypatch.setattr(kineto_spans, "WINDOW_SPANS", 100)
    monkeypatch.setattr(kineto_spans, "SAMPLED", 1)
    parts = ingest_file(DATA / "cpu_stacks.json.gz", tmp_path, IMPORTER)
    assert parts.keys() == whole.keys()
    assert all(parts[name].equals(whole[name]) for name in whole)
