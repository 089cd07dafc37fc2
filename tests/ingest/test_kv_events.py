"""KV block events: the capture's file against the json module, other servers' names, damage."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingest.kv_events import IMPORTER
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, data_loss, read_text, rows_of

DATA = Path(__file__).parents[1] / "data" / "server" / "kv_events.jsonl"
COLUMNS = (
    "kv_event", "ts_ns", "sequence_number", "thread_id", "block_id", "request_id", "reference_count", "size_bytes",
    "address", "process_id", "attributes",
)  # fmt: skip
NAMES = {"incref": "ref", "decref": "unref"}
KEYS = ("event", "timestamp_ns", "seq", "thread", "block_id", "request_id", "refcount", "bytes")
T = 1796036400 * 10**9


def expected_rows(path: Path) -> list[tuple[object, ...]]:
    rows = []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        record["event"] = NAMES.get(record["event"], record["event"])
        record["request_id"] = str(record["request_id"])
        rows.append((*(record.get(key) for key in KEYS), None, None, None))
    return rows


def test_real_file(tmp_path: Path) -> None:
    tables = check_importer(DATA, tmp_path, IMPORTER)
    assert rows_of(tables, "kv_block_events", COLUMNS) == expected_rows(DATA)
    counts = Counter(tables["kv_block_events"]["kv_event"].to_list())
    # grep -o '"event": "[a-z_]*"' kv_events.jsonl | sort | uniq -c
    assert counts == {"alloc": 60, "free": 56, "unref": 61, "ref": 4, "request_start": 20, "request_end": 20}
    assert tables["kv_block_events"].filter(pl.col("reference_count") < 0)["block_id"].to_list() == [28]
    assert counts_of(tables) == {}


@pytest.mark.skipif(not SHARED.exists(), reason="the full captures are not beside the checkout")
def test_every_capture(tmp_path: Path) -> None:
    paths = sorted((SHARED / "captures").glob("**/kv_events.jsonl"))
    assert paths
    for path in paths:
        tables = ingest_file(path, tmp_path, IMPORTER)
        assert rows_of(tables, "kv_block_events", COLUMNS) == expected_rows(path)


def test_other_names_and_unknown_keys(tmp_path: Path) -> None:
    lines = [
        {"ts": 1796036400.5, "action": "allocate", "block": "7", "rid": "r", "ref_cnt": 1, "tid": "engine", "x": [1]},
        {"ts": 1796036401, "action": "swap_out", "block": 7, "addr": "0x7f0000000000", "nbytes": 4096, "pid": 9},
        {"time": "2026-11-30T11:00:02Z", "action": "request_aborted", "rid": "r"},
    ]
    tables = read_text("".join(json.dumps(line) + "\n" for line in lines), tmp_path, IMPORTER)
    rows = tables["kv_block_events"].sort("event_index").to_dicts()
    assert [row["kv_event"] for row in rows] == ["alloc", "other", "request_end"]
    assert [row["ts_ns"] for row in rows] == [T + 5 * 10**8, T + 10**9, T + 2 * 10**9]
    assert [row["block_id"] for row in rows] == [7, 7, None]
    assert (rows[1]["address"], rows[1]["size_bytes"], rows[1]["process_id"]) == (0x7F0000000000, 4096, 9)
    assert json.loads(rows[0]["attributes"]) == {"thread": "engine", "x": [1]}
    assert [json.loads(row["attributes"])["event"] for row in rows[1:]] == ["swap_out", "request_aborted"]


@pytest.mark.parametrize("is_array", [False, True])
def test_vllm_batches(is_array: bool, tmp_path: Path) -> None:
    """One row a block hash; a hash that no 63 bits hold is numbered, the same one each time. No token ids."""
    batch: Any = {
        "ts": 1796036400.0,
        "events": [
            {"type": "BlockStored", "block_hashes": [5, 2**64 - 1], "token_ids": [101, 7592], "block_size": 16},
            {"type": "BlockRemoved", "block_hashes": [2**64 - 1], "medium": "GPU"},
            {"type": "AllBlocksCleared"},
        ],
        "data_parallel_rank": 0,
    }
    if is_array:  # what msgspec makes of them
        stored = ["BlockStored", [5, 2**64 - 1], None, [101, 7592], 16, None]
        batch = [1796036400.0, [stored, ["BlockRemoved", [2**64 - 1], "GPU"], ["AllBlocksCleared"]], 0]
    tables = read_text(json.dumps(batch) + "\n", tmp_path, IMPORTER)
    rows = tables["kv_block_events"].sort("event_index").to_dicts()
    assert [row["kv_event"] for row in rows] == ["alloc", "alloc", "free", "other"]
    assert rows[0]["block_id"] == 5
    assert rows[1]["block_id"] == rows[2]["block_id"] > 0
    assert json.loads(rows[2]["attributes"])["block_hash"] == str(2**64 - 1)
    assert all(row["ts_ns"] == T for row in rows)
    assert "7592" not in str(rows)
    assert counts_of(tables) == {("contents_left_out", "info"): 1}


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "blocks.jsonl"
    path.write_text("".join(DATA.read_text().splitlines(keepends=True)[1:]))
    check_encodings(path, tmp_path, IMPORTER)
    check_cuts(path, tmp_path, IMPORTER, "kv_block_events", COLUMNS)
    check_flips(path, tmp_path, IMPORTER, "kv_block_events", COLUMNS, rows_a_line=1, seeds=range(10))


def test_each_kind_of_damage_has_its_count(tmp_path: Path) -> None:
    good = json.dumps({"timestamp_ns": T, "event": "alloc", "block_id": 1, "refcount": 1})
    lines = [
        good, good[:30], "[1]", "{}", "[" * 100_000,
        good.replace("1796036400000000000", '"soon"'), good.replace('"block_id": 1', f'"block_id": {2**70}'),
        good.replace('"refcount": 1', '"refcount": "many"'), good.replace('"refcount": 1', f'"refcount": {2**80}'),
        good.replace('"refcount": 1', '"refcount": [[1]]'), '{"event": "free", "block_id": 1}',
        good.replace('"block_id": 1', '"block_id": [[["x"]]]'),
    ]  # fmt: skip
    tables = read_text("\n".join(lines) + "\n", tmp_path, IMPORTER)
    assert tables["kv_block_events"].height == 8
    assert data_loss(tables) == {
        "damaged_rows": 2,
        "lines_without_event": 2,
        "damaged_times": 1,
        "damaged_values": 3,
        "numbers_beyond_64_bits": 1,
        "events_without_time": 1,
    }


def test_true_and_false_are_no_numbers(tmp_path: Path) -> None:
    lines = [
        json.dumps({"timestamp_ns": T + n, "event": "alloc", "block_id": block})
        for n, block in enumerate((1, True, False))
    ]
    tables = read_text("\n".join(lines) + "\n", tmp_path, IMPORTER)
    assert tables["kv_block_events"]["block_id"].to_list() == [1, None, None]
    assert data_loss(tables) == {"damaged_values": 2}
