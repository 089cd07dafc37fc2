"""NVML CSV importer: samples against the csv module, one device sample a time, impossible counters."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest

from ingest.nvml_csv import IMPORTER
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, data_loss, read_text, rows_of

DATA = Path(__file__).parents[1] / "data" / "nvml_csv"
COLUMNS = ("metric", "ts_ns", "value", "unit", "process_id", "device_index")
HEADER = "timestamp_ns,device_index,used_bytes,free_bytes,total_bytes,gpu_util_pct,mem_util_pct,pid,pid_used_bytes\n"
T = 1796036470366371298


def expected_samples(path: Path) -> set[tuple[object, ...]]:
    """Every sample of the file as a set: what is repeated for each process collapses by itself."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found: set[tuple[object, ...]] = set()
    with io.StringIO(data.decode()) as stream:
        for r in csv.DictReader(stream):
            ts, device = int(r["timestamp_ns"]), int(r["device_index"])
            for name in ("used", "free", "total"):
                found.add((f"device_memory_{name}_bytes", ts, float(r[f"{name}_bytes"]), "bytes", None, device))
            found.add(("gpu_utilization_ratio", ts, int(r["gpu_util_pct"]) / 100, "ratio", None, device))
            found.add(("memory_utilization_ratio", ts, int(r["mem_util_pct"]) / 100, "ratio", None, device))
            if r["pid"]:
                value = float(r["pid_used_bytes"])
                found.add(("process_memory_used_bytes", ts, value, "bytes", int(r["pid"]), device))
    return found


@pytest.mark.parametrize("name", ["external.csv", "ddp2.csv"])
def test_real_file(name: str, tmp_path: Path) -> None:
    tables = check_importer(DATA / name, tmp_path, IMPORTER)
    rows = rows_of(tables, "metrics", COLUMNS)
    assert len(rows) == len(set(rows))
    assert set(rows) == expected_samples(DATA / name)
    assert counts_of(tables) == {}


def test_figures_read_by_eye(tmp_path: Path) -> None:
    rows = rows_of(ingest_file(DATA / "external.csv", tmp_path, IMPORTER), "metrics", COLUMNS)
    at = [row for row in rows if row[1] == 1796036474103095984]
    assert [row[4] for row in at if row[0] == "process_memory_used_bytes"] == [779, 837, 838]
    assert sum(row[0] == "device_memory_used_bytes" for row in at) == 1
    assert {row[2] for row in at if row[0] == "device_memory_total_bytes"} == {150754820096.0}


@pytest.mark.skipif(not SHARED.exists(), reason="the full captures are not beside the checkout")
def test_every_capture(tmp_path: Path) -> None:
    paths = sorted((SHARED / "captures").glob("**/nvml.csv*"))
    assert len(paths) >= 10
    for path in paths:
        rows = rows_of(ingest_file(path, tmp_path, IMPORTER), "metrics", COLUMNS)
        assert len(rows) == len(set(rows)), path
        assert set(rows) == expected_samples(path), path


@pytest.mark.parametrize("name", ["external.csv", "ddp2.csv"])
def test_damage(name: str, tmp_path: Path) -> None:
    check_encodings(DATA / name, tmp_path, IMPORTER)
    check_cuts(DATA / name, tmp_path, IMPORTER, "metrics", COLUMNS)
    check_flips(DATA / name, tmp_path, IMPORTER, "metrics", COLUMNS, rows_a_line=6)


def test_not_available_is_not_zero(tmp_path: Path) -> None:
    text = HEADER + (
        f"{T},0,100,N/A,200,[Not Supported],,7,18446744073709551615\n"  # NVML_VALUE_NOT_AVAILABLE
        f"{T + 1},0,100,100,200,50,25,[N/A],\n"
        f"{T + 2},0,100,100,200,50,25,7.0,90\n"  # a pid that went through a table of floats
    )
    tables = read_text(text, tmp_path, IMPORTER)
    rows = rows_of(tables, "metrics", COLUMNS)
    assert [row for row in rows if row[1] == T] == [
        ("device_memory_used_bytes", T, 100.0, "bytes", None, 0),
        ("device_memory_total_bytes", T, 200.0, "bytes", None, 0),
    ]
    assert [row for row in rows if row[0] == "process_memory_used_bytes"] == [
        ("process_memory_used_bytes", T + 2, 90.0, "bytes", 7, 0)
    ]
    assert ("gpu_utilization_ratio", T + 1, 0.5, "ratio", None, 0) in rows
    assert counts_of(tables) == {("missing_values", "info"): 4}


def test_impossible_numbers_are_counted(tmp_path: Path) -> None:
    text = HEADER + (
        f"{T},0,300,100,200,50,25,,\n"  # used above total: written, for the ledger to show
        f"{T + 1},0,-1,100,200,101,25,,\n"
        f"{T + 2},0,99999999999999999999,100,200,50,2x,,\n"
        f"{T + 3},99999999999,1,1,2,0,0,,\n"
        f"-5,0,1,1,2,0,0,,\n"
        f"{T + 5},0,1,1,2,0,0,7,1\n"
        f"{T + 5},0,2,1,2,0,0,8,1\n"  # another reading at the same time
        f"{T + 5},0,1,1,2,0,0,7,1\n"  # the same process again
        f"{T + 6},0,1495343449534343169,,,,,,\n"  # no float64 holds it exactly
    )
    tables = read_text(text, tmp_path, IMPORTER)
    rows = rows_of(tables, "metrics", COLUMNS)
    used = [(row[1], row[2]) for row in rows if row[0] == "device_memory_used_bytes"]
    assert used == [(T, 300.0), (T + 5, 1.0), (T + 6, 1495343449534343168.0)]
    assert [row[4] for row in rows if row[0] == "process_memory_used_bytes"] == [7, 8]
    assert data_loss(tables) == {
        "impossible_values": 3,
        "negative_values": 2,
        "numbers_beyond_64_bits": 1,
        "damaged_values": 1,
        "contradicting_samples": 1,
    }
    assert counts_of(tables)["repeated_processes", "info"] == 1
    assert counts_of(tables)["missing_values", "info"] == 4


def test_other_columns_become_series(tmp_path: Path) -> None:
    text = "name,power_watts,device_index,used_bytes,timestamp_ns,pid,pid_sm_pct\n" + (
        f"NVIDIA H200,126.5,0,100,{T},7,12\nNVIDIA H200,127,0,100,{T},8,13\nNVIDIA H200,?,0,100,{T + 1},,\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    rows = rows_of(tables, "metrics", COLUMNS)
    assert [row for row in rows if "memory" not in str(row[0])] == [
        ("power_watts", T, 126.5, "watts", None, 0),
        ("pid_sm_pct", T, 12.0, "percent", 7, 0),
        ("pid_sm_pct", T, 13.0, "percent", 8, 0),
    ]
    assert counts_of(tables)["text_columns", "info"] == 1
    assert data_loss(tables) == {"damaged_values": 1}


def test_header_alone_and_twice(tmp_path: Path) -> None:
    assert read_text(HEADER, tmp_path, IMPORTER) == {}
    tables = read_text(HEADER * 2 + f"{T},0,1,1,2,0,0,,\n", tmp_path, IMPORTER)
    assert tables["metrics"].height == 5
    assert counts_of(tables) == {("repeated_headers", "info"): 1}
