"""Damaged sizes and times, at and beyond 64 bits: counted and left out, and the rest of the capture is judged."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from ingest.bounds import bounded
from ingest.errors import BadInput
from pipeline.clock import Alignment
from pipeline.inputs import capture_files
from pipeline.query import open_tables
from pipeline.steps import analyze, ingest
from pipeline.unifying import _moved
from schemas.config import Config
from schemas.tables import TABLES
from tests.ingest.torch_shapes import START_US, whole, write

EDGES = (2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64)
ROW = "{time} 41 41 cuMemAlloc {address:#x} {size} 0\n\t7f00 leaf+1 (/lib/a.so)\n"
OFFSET_NS = START_US * 1000


def _bpftrace(folder: Path, rows: list[tuple[int, int]]) -> None:
    """eBPF text on the monotonic clock of (time, size), one allocation a page."""
    lines = [ROW.format(time=time, address=(1 << 47) + i * 4096, size=size) for i, (time, size) in enumerate(rows)]
    (folder / "bpftrace.txt").write_text("# bpftrace cuda_mem clock=monotonic\n" + "".join(lines))


def _cupti(folder: Path, sizes: list[int]) -> None:
    """CUPTI records with the header pairs that put eBPF's clock on realtime, and an allocation a size."""
    clock = {"realtime": OFFSET_NS + 10, "monotonic": 10, "boottime": 10, "monotonic_raw": 10, "width_ns": 1}
    lines: list[dict[str, object]] = [{"kind": "_HEADER", "clock": clock, "cupti_timestamp": OFFSET_NS + 10, "pid": 41}]
    alloc = {"kind": "MEMORY2", "memory_operation_type": 1, "memory_kind": 3, "process_id": 41, "device_id": 0}
    for i, size in enumerate(sizes):
        place = {"address": (1 << 46) + i * 4096, "bytes": size, "context_id": 1}
        lines.append(alloc | place | {"timestamp": OFFSET_NS + 1000 * i, "correlation_id": i})
    (folder / "cupti.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _tables(folder: Path, out: Path) -> dict[str, pl.DataFrame]:
    ingest(capture_files(folder), folder, out)
    analyze(out, Config())
    return {path.stem: pl.read_parquet(path) for path in (out / "tables").glob("*.parquet")}


def _counted(tables: dict[str, pl.DataFrame]) -> int:
    return int(tables["diagnostics"].filter(pl.col("severity") == "data_loss")["occurrence_count"].sum())


@pytest.mark.parametrize("edge", EDGES)
def test_sizes(tmp_path: Path, edge: int) -> None:
    capture = tmp_path / "capture"
    capture.mkdir()
    write(capture, whole())
    _bpftrace(capture, [(1000 * i, edge if i % 2 else 4096) for i in range(40)])
    _cupti(capture, [edge if i % 2 else 4096 for i in range(40)])
    tables = _tables(capture, tmp_path / "out")
    driver = tables["allocations"].filter(pl.col("level") == "driver")
    assert driver.filter(pl.col("allocated_bytes").is_not_null())["allocated_bytes"].to_list() == [4096] * 40
    assert _counted(tables) >= 40
    assert tables["live_bytes"].filter(pl.col("level") == "driver")["live_bytes"].max() in (20 * 4096, 40 * 4096)


@pytest.mark.parametrize("edge", EDGES)
def test_times(tmp_path: Path, edge: int) -> None:
    capture = tmp_path / "capture"
    capture.mkdir()
    write(capture, whole())
    _cupti(capture, [4096] * 10)
    _bpftrace(capture, [(edge if i % 2 else 1000 * i, 8192) for i in range(40)])
    tables = _tables(capture, tmp_path / "out")
    times = tables["memory_events"].filter(pl.col("source") == "ebpf")["ts_ns"].drop_nulls()
    assert sorted(times) == [OFFSET_NS + 1000 * i for i in range(0, 40, 2)]
    assert _counted(tables) >= 20


def test_a_time_that_only_the_offset_makes_impossible(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    capture.mkdir()
    write(capture, whole())
    _cupti(capture, [4096] * 10)
    _bpftrace(capture, [(1000, 8192), (2**62 - 5, 8192)])
    tables = _tables(capture, tmp_path / "out")
    assert tables["memory_events"].filter(pl.col("source") == "ebpf")["ts_ns"].to_list() == [OFFSET_NS + 1000, None]
    counted = tables["diagnostics"].filter(pl.col("name") == "times_beyond_the_clock")
    assert counted["occurrence_count"].to_list() == [1]
    assert counted["file_id"].to_list() == [0]


def test_a_row_goes_where_its_contract_has_no_null() -> None:
    table = TABLES["clock_pairs"]
    columns = {
        "file_id": [0, 0],
        "clock_position": ["start", "end"],
        "realtime_ns": [-1, 5],
        "monotonic_ns": [1, 2**63 - 1],
    }
    rows = pa.table({name: pa.array(columns.get(name, [None, None]), table.arrow_schema().field(name).type)
                     for name in table.columns}, schema=table.arrow_schema())  # fmt: skip
    kept, lost = bounded(table, rows)
    assert kept.to_pylist() == [rows.to_pylist()[1] | {"monotonic_ns": None}]
    assert lost == {"realtime_ns": 1, "monotonic_ns": 1}


def test_a_drifting_clock_with_a_time_a_year_away() -> None:
    year_ns = 365 * 86_400 * 10**9
    aligned = Alignment(0, "monotonic", "shared_allocations", 5, drift_ratio=1e-6, origin_ns=0, clock_aligned=True)
    assert _moved(pa.array([0, 10**9, year_ns + 1]), aligned).to_pylist() == [
        5,
        10**9 + 1005,
        year_ns + 6 + year_ns // 10**6,
    ]


@pytest.mark.parametrize("damage", [b"", b"PAR1 and no more", bytes(range(256)) * 20])
def test_a_damaged_table_is_named(tmp_path: Path, damage: bytes) -> None:
    capture = tmp_path / "capture"
    capture.mkdir()
    write(capture, whole())
    ingest(capture_files(capture), capture, tmp_path / "out")
    (tmp_path / "out" / "tables" / "memory_events.parquet").write_bytes(damage)
    with pytest.raises(BadInput, match=r"memory_events\.parquet: a damaged table; remove"):
        analyze(tmp_path / "out", Config())


def test_a_damaged_table_is_named_by_a_query(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    capture.mkdir()
    write(capture, whole())
    ingest(capture_files(capture), capture, tmp_path / "out" / "x")
    (tmp_path / "out" / "x" / "tables" / "memory_events.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(BadInput, match="memory_events: a damaged table"), open_tables(tmp_path / "out"):
        pass


def test_a_key_that_calls_and_allocations_share_does_not_multiply(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    capture.mkdir()
    _cupti(capture, [4096] * 50)
    lines = [json.loads(line) | {"correlation_id": 7} for line in (capture / "cupti.jsonl").read_text().splitlines()]
    call = {"kind": "RUNTIME", "cbid": 20, "correlation_id": 7, "process_id": 41, "thread_id": 1, "return_value": 0}
    lines += [call | {"start": OFFSET_NS + 10 * i, "end": OFFSET_NS + 10 * i + 5} for i in range(40)]
    (capture / "cupti.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    links = _tables(capture, tmp_path / "out")["allocation_links"].filter(pl.col("link") == "api_call")
    assert sorted(links["time_difference_ns"]) == [1000 * i - 390 for i in range(50)]
