"""CUPTI records as Parquet and CSV: the tables of their NDJSON, whatever types the columns have."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections import defaultdict
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.cupti import IMPORTER as NDJSON
from ingest.cupti_enums import KIND_NAMES
from ingest.cupti_table import IMPORTER
from ingest.errors import BadInput, UnsafeInput
from tests.ingest.support import check_importer, counts_of, ingest_file
from tests.ingest.text_damage import data_loss, flipped, read_text, rows_of

DATA = Path(__file__).parents[1] / "data" / "cupti"
Record = dict[str, Any]


def records_of(name: str, limit: int = 100_000) -> list[Record]:
    """The records of a trimmed capture without its header."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as stream:
        records = [record for record in map(json.loads, stream) if not record["kind"].startswith("_")]
    return records[:limit]


def names_of(records: list[Record]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record))


def write_json(records: list[Record], path: Path) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def write_csv(records: list[Record], path: Path) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names_of(records))
        writer.writeheader()
        writer.writerows(records)
    return path


def write_parquet(records: list[Record], path: Path, **options: Any) -> Path:
    columns = {name: [record.get(name) for record in records] for name in names_of(records)}
    pq.write_table(pa.table(columns), path, **options)
    return path


def floats_as_pandas_has_them(records: list[Record], path: Path) -> Path:
    """Whole numbers below 2^53 with gaps become floats, as in a data frame of several kinds."""
    small = {
        name: float
        for name in names_of(records)
        if all(isinstance(record.get(name), int | None) and (record.get(name) or 0) < 1 << 53 for record in records)
    }
    as_floats = [{n: small.get(n, lambda v: v)(v) if v is not None else v for n, v in r.items()} for r in records]
    return write_parquet(as_floats, path, row_group_size=100)


def flattened(records: list[Record], path: Path) -> Path:
    """`object_id.process_id` as a column of its own, kinds as numbers, gzip around the file."""
    flat = []
    for record in records:
        row = {"kind": KIND_NAMES.index(record["kind"])}
        for name, value in record.items():
            if name != "kind":
                row |= {f"{name}.{key}": v for key, v in value.items()} if isinstance(value, dict) else {name: value}
        flat.append(row)
    plain = write_parquet(flat, path.with_suffix(".plain"), compression="zstd")
    path.write_bytes(gzip.compress(plain.read_bytes()))
    return path


WRITERS: list[Callable[[list[Record], Path], Path]] = [write_csv, write_parquet, floats_as_pandas_has_them, flattened]


def assert_same(found: dict[str, pl.DataFrame], expected: dict[str, pl.DataFrame]) -> None:
    assert found.keys() - {"diagnostics"} == expected.keys() - {"diagnostics"}
    for table in expected.keys() - {"diagnostics"}:
        frames = [tables[table] for tables in (found, expected)]
        if "event_index" in frames[0].columns:  # pairs of records come out when the second one was read
            frames = [frame.sort("event_index") for frame in frames]
        assert frames[0].equals(frames[1]), table


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("name", ["expandable", "frag"])
def test_all_kinds_in_one_table(name: str, write: Callable[[list[Record], Path], Path], tmp_path: Path) -> None:
    records = records_of(name)
    path = write(records, tmp_path / "x.bin")
    found = check_importer(path, tmp_path, IMPORTER)
    assert_same(found, ingest_file(write_json(records, tmp_path / "x.json"), tmp_path, NDJSON))
    assert counts_of(found) == {}


@pytest.mark.parametrize("has_kind", [True, False])
@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_one_kind_a_table(write: Callable[[list[Record], Path], Path], has_kind: bool, tmp_path: Path) -> None:
    kinds = defaultdict(list)
    for record in records_of("expandable"):
        kinds[record["kind"]].append(record)
    assert len(kinds) == 12
    for kind, records in kinds.items():
        told = records if has_kind else [{k: v for k, v in record.items() if k != "kind"} for record in records]
        found = ingest_file(write(told, tmp_path / f"{kind}.bin"), tmp_path, IMPORTER)
        assert_same(found, ingest_file(write_json(records, tmp_path / f"{kind}.json"), tmp_path, NDJSON))
        assert data_loss(found).total() == 0


def test_calls_of_a_table_without_kinds_are_told_by_their_names(tmp_path: Path) -> None:
    text = "start,end,cbid,name,process_id,thread_id,correlation_id\n"
    text += "1,2,5,cuMemAlloc_v2,7,8,1\n3,4,6,cudaMalloc_v3020,7,8,2\n5,6,7,,7,8,3\n"
    tables = read_text(text, tmp_path, IMPORTER)
    calls = [("driver", "cuMemAlloc_v2", 1), ("runtime", "cudaMalloc", 2)]
    assert rows_of(tables, "api_calls", ("api", "name", "correlation_id")) == calls
    assert counts_of(tables) == {("records_without_kind", "data_loss"): 1}


def test_the_same_bytes_as_ndjson(tmp_path: Path) -> None:
    from tests.ingest.support import read_into

    records = records_of("frag")
    paths = {"a": (write_json(records, tmp_path / "a"), NDJSON), "b": (write_csv(records, tmp_path / "b"), IMPORTER)}
    paths["c"] = (write_parquet(records, tmp_path / "c"), IMPORTER)
    parts = {}
    for name, (path, importer) in paths.items():
        folder = tmp_path / f"parts_{name}"
        folder.mkdir()
        read_into(path, folder, importer)
        parts[name] = {part.parent.name: part.read_bytes() for part in folder.glob("*/*.parquet")}
    assert parts["a"].keys() >= {"memory_events", "api_calls", "ranges"}
    assert parts["a"] == parts["b"] == parts["c"]


ROWS = "kind,start,end,correlation_id,process_id,thread_id,name,copy_kind,device_id,object_kind,flags_,shade\n"


def test_what_other_programs_write(tmp_path: Path) -> None:
    """Names of enumeration values and kinds, reals, gaps; digits that are lost are counted."""
    text = ROWS + (
        "CUPTI_ACTIVITY_KIND_RUNTIME,1796059869182409596,1796059869311148636,1,7,8,cudaMalloc_v3020,,,,,x\n"
        "5,1.796059869e+18,nan,2.0,7,8,,NaN,,,,\n"
        "ActivityKind.MEMCPY,10,20,3,,,,HTOD,0,,,\n"
        "1.0,30,40,18446744073709551616,,,,DTAPE,0,,,\n"
        "TAPE,1,2,3,,,,,,,,\n"
        ",1,2,3,,,,,,,,\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    calls = ("name", "start_ns", "end_ns", "correlation_id", "process_id")
    assert rows_of(tables, "api_calls", calls) == [
        ("cudaMalloc", 1796059869182409596, 1796059869311148636, 1, 7),
        (None, 1796059869000000000, None, 2, 7),
    ]
    assert rows_of(tables, "gpu_ops", ("copy_kind", "start_ns", "correlation_id", "process_id")) == [
        ("htod", 10, 3, 7),
        (None, 30, None, 7),
    ]
    assert counts_of(tables) == {
        ("unread_columns", "info"): 1,
        ("inexact_numbers", "data_loss"): 2,
        ("values_not_read", "data_loss"): 2,
        ("records_without_kind", "data_loss"): 1,
        ("unknown_kinds", "info"): 1,
    }


def test_columns_of_odd_types(tmp_path: Path) -> None:
    path = tmp_path / "x"
    columns = {
        "kind": pa.array(["RUNTIME", "RUNTIME"]).dictionary_encode(),
        "start": pa.array([1796059869182409596, None], pa.timestamp("ns")),
        "end": pa.array([1.796059869311e18, 5.5]),
        "correlation_id": pa.array([3, 1 << 63], pa.uint64()),
        "process_id": pa.array([[1], [2]]),
        "name": pa.array(["f" * 5_000_000, "g"], pa.large_string()),
    }
    pq.write_table(pa.table(columns), path)
    tables = ingest_file(path, tmp_path, IMPORTER)
    calls = tables["api_calls"].sort("event_index")
    assert calls["start_ns"].to_list() == [1796059869182409596, None]
    assert calls["end_ns"].to_list() == [1796059869311000064, None]
    assert calls["correlation_id"].to_list() == [3, None]
    assert calls["name"].str.len_chars().to_list() == [4096, 1]
    assert {name for name, _ in counts_of(tables)} == {"inexact_numbers", "values_not_read"}


ODD: dict[str, Any] = {
    "list": pa.array([[1], [2]]),
    "struct": pa.array([{"process_id": 1, "pt": {"x": [1]}}, None]),
    "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "decimal": pa.array([Decimal("5"), Decimal("6.5")], pa.decimal256(60, 3)),
    "date": pa.array([date(2020, 1, 1)] * 2),
    "duration": pa.array([1, 2], pa.duration("ns")),
    "zoned": pa.array([1, 2], pa.timestamp("us", "Europe/Berlin")),
    "binary": pa.array([b"\xff", b"1"]),
    "null": pa.nulls(2),
    "not finite": pa.array([float("inf"), float("nan")]),
    "number as category": pa.array([1, 2]).dictionary_encode(),
    "negative": pa.array([-1, -2]),
}


@pytest.mark.parametrize("name", ["kind", "start", "name", "object_id", "address"])
@pytest.mark.parametrize("odd", ODD)
def test_any_column_may_have_any_type(name: str, odd: str, tmp_path: Path) -> None:
    columns = {"kind": ["MEMORY2", "RUNTIME"], "start": [1, 2], "end": [3, 4], "correlation_id": [1, 2], "cbid": [1, 2]}
    pq.write_table(pa.table(columns | {name: ODD[odd]}), tmp_path / "x")
    tables = ingest_file(tmp_path / "x", tmp_path, IMPORTER)
    if name != "kind":
        assert tables["api_calls"]["correlation_id"].to_list() == [2]
        assert tables["memory_events"]["correlation_id"].to_list() == [1]


def test_other_tables_are_not_ours(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"kind": ["a"], "start": [1], "end": [2], "name": ["n"]}), other)
    assert not IMPORTER.sniff(other.read_bytes()[:65536], other)
    for text in ("kind,start,end,name\nclick,1,2,x\n", "id,name\n1,a\n", ROWS + "click,1,2,3,,,,,,,,\n"):
        path = tmp_path / "x.csv"
        path.write_text(text)
        assert not IMPORTER.sniff(text.encode(), path)
    packed = tmp_path / "other.gz"
    packed.write_bytes(gzip.compress(other.read_bytes()))
    with pytest.raises(BadInput, match="without CUPTI records"):
        ingest_file(packed, tmp_path, IMPORTER)


def test_damaged_parquet_is_one_line(tmp_path: Path) -> None:
    data = write_parquet(records_of("expandable"), tmp_path / "x", row_group_size=400).read_bytes()
    for end in (4, 100, len(data) // 2, len(data) - 9, len(data) - 1):
        with pytest.raises(BadInput, match="damaged Parquet") as caught:
            read_text(data[:end], tmp_path, IMPORTER)
        assert "\n" not in str(caught.value)
    whole = read_text(data, tmp_path, IMPORTER)["api_calls"]
    damaged = 0
    for seed in range(12):
        try:
            tables = read_text(flipped(data, seed, 3, 4), tmp_path, IMPORTER)
        except (BadInput, AssertionError):
            continue
        damaged += data_loss(tables)["damaged_row_groups"] > 0
        assert all(frame.height <= whole.height * 3 for frame in tables.values())
    assert damaged


def test_parquet_that_claims_the_impossible_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    rows = 1_000_000
    same = pa.array([7] * rows, pa.int64())
    table = pa.table({"kind": pa.array(["RUNTIME"] * rows), "start": same, "end": same, "correlation_id": same})
    pq.write_table(table, path, compression="zstd")
    with pytest.raises(UnsafeInput, match="1000000 rows"):
        ingest_file(path, tmp_path, IMPORTER)


def test_flipped_csv(tmp_path: Path) -> None:
    data = write_csv(records_of("frag", 120), tmp_path / "x.csv").read_bytes()
    chance = random.Random(5)
    for seed in range(15):
        tables = read_text(flipped(data, seed, chance.choice((1, 20)), data.index(b"\n")), tmp_path, IMPORTER)
        assert tables
