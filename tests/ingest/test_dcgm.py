"""DCGM: sums by field against the text, entities, long and wide CSV, numbers that mean "none"."""

from __future__ import annotations

import csv
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from ingest.dcgm import IMPORTER
from tests.ingest.support import check_importer, counts_of, ingest_file, read_into
from tests.ingest.text_damage import (
    check_cuts,
    check_encodings,
    check_flips,
    check_junk,
    data_loss,
    flipped,
    read_text,
    rows_of,
    write,
)

DATA = Path(__file__).parents[1] / "data" / "dcgm"
COLUMNS = ("metric", "ts_ns", "value", "unit", "device_index", "labels")
MIB = 2**20


def test_dmon(tmp_path: Path) -> None:
    tables = check_importer(DATA / "dmon.txt", tmp_path, IMPORTER, golden=DATA / "golden/dmon.txt")
    rows = rows_of(tables, "metrics", COLUMNS)
    text = [line.split() for line in (DATA / "dmon.txt").read_text().splitlines() if line.startswith("GPU")]
    assert len(text) == 120
    for metric, place, scale in (
        ("gpu_utilization_ratio", 2, 0.01),
        ("device_memory_used_bytes", 3, MIB),
        ("gpu_power_watts", 4, 1),
        ("gpu_temperature_celsius", 5, 1),
        ("sm_active_ratio", 6, 1),
        ("dram_active_ratio", 7, 1),
    ):
        expected = [(int(line[1]), float(line[place]) * scale) for line in text if line[place] != "N/A"]
        found = [(row[4], row[2]) for row in rows if row[0] == metric]
        assert [device for device, _ in found] == [device for device, _ in expected]
        assert [value for _, value in found] == pytest.approx([value for _, value in expected])
    assert {row[1] for row in rows} == {None}
    assert counts_of(tables)["missing_values", "info"] == 4
    assert data_loss(tables) == {}


def test_long_csv(tmp_path: Path) -> None:
    tables = check_importer(DATA / "long.csv", tmp_path, IMPORTER, golden=DATA / "golden/long.txt")
    assert read_into(DATA / "long.csv", tmp_path / "again", IMPORTER).clock == "realtime"  # the column says UTC
    sums: dict[str, float] = defaultdict(float)
    with (DATA / "long.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            sums[line["metric"]] += float(line["value"])
    found: dict[str, float] = defaultdict(float)
    for row in rows_of(tables, "metrics", COLUMNS):
        found[str(row[0])] += float(str(row[2]))
    assert found == pytest.approx(
        {
            "device_memory_used_bytes": sums["DCGM_FI_DEV_FB_USED"] * MIB,
            "device_memory_free_bytes": sums["DCGM_FI_DEV_FB_FREE"] * MIB,
            "gpu_utilization_ratio": sums["DCGM_FI_DEV_GPU_UTIL"] / 100,
            "gpu_power_watts": sums["DCGM_FI_DEV_POWER_USAGE"],
            "gpu_energy_joules": sums["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] / 1000,
            "dcgm_fi_dev_xid_errors": 0,
        }
    )
    first = rows_of(tables, "metrics", COLUMNS)[0]
    assert first[1:5] == (1_739_059_200 * 10**9, 20000 * MIB, "bytes", 0)
    assert first[5] == '{"gpu_uuid":"GPU-0aaa","host":"node_a"}'
    assert counts_of(tables) == {("columns_left_out", "info"): 3}


def test_entities_and_a_time_before_each_line(tmp_path: Path) -> None:
    text = (
        "2024-05-01T12:00:00+0000 # Entity  GRACT  XYZ\n2024-05-01T12:00:00+0000       Id\n"
        "2024-05-01T12:00:01+0000     GPU 0  0.457  7\n2024-05-01T12:00:01+0000   GPU-I 1  0.534  N/A\n"
        "2024-05-01T12:00:02+0000     GPU 0  0.457\nhe said     GPU 0  0.457 8\n"
    )
    path = write(tmp_path, text)
    tables = ingest_file(path, tmp_path, IMPORTER)
    t = 1_714_564_801 * 10**9
    assert rows_of(tables, "metrics", COLUMNS) == [
        ("graphics_engine_active_ratio", t, 0.457, "ratio", 0, None),
        ("dcgm_xyz", t, 7, None, 0, None),
        ("graphics_engine_active_ratio", t, 0.534, "ratio", None, '{"entity":"GPU-I 1"}'),
    ]
    assert read_into(path, tmp_path / "again", IMPORTER).clock == "realtime"
    assert data_loss(tables) == {"damaged_rows": 1, "damaged_times": 1}


def test_wide_csv(tmp_path: Path) -> None:
    text = (
        "timestamp;gpu;Hostname;DCGM_FI_DEV_FB_USED;DCGM_FI_PROF_SM_ACTIVE;note\n"
        "1714564800;nvidia1;a;100;0,5;x\n1714564801;GPU 1;a;9223372036854775794;140737488355328.0;x\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    t = 1_714_564_800 * 10**9
    assert rows_of(tables, "metrics", COLUMNS) == [
        ("device_memory_used_bytes", t, 100 * MIB, "bytes", 1, '{"host":"a"}'),
        ("sm_active_ratio", t, 0.5, "ratio", 1, '{"host":"a"}'),
    ]
    assert counts_of(tables)["missing_values", "info"] == 2


def test_fields_by_number(tmp_path: Path) -> None:
    text = "timestamp_us,entity,entity_id,field_id,value\n1714564800000001,GPU,0,252,7\n1714564800000002,GPU,0,9999,7\n"
    rows = rows_of(read_text(text, tmp_path, IMPORTER), "metrics", COLUMNS)
    assert [row[:3] for row in rows] == [
        ("device_memory_used_bytes", 1_714_564_800_000_001_000, 7 * MIB),
        ("dcgm_field_9999", 1_714_564_800_000_002_000, 7),
    ]
    assert [row[4] for row in rows] == [0, 0]


def test_flipped_bytes_of_dmon(tmp_path: Path) -> None:
    lines = (DATA / "dmon.txt").read_bytes().splitlines(keepends=True)
    data = b"".join(
        lines[:2] + [line for line in lines[2:] if line[:1] not in b"#I"]
    )  # a damaged header costs its page
    whole = Counter(rows_of(read_text(data, tmp_path, IMPORTER), "metrics", COLUMNS))
    for seed in range(40):
        damaged = flipped(data, seed, 3, start=len(lines[0] + lines[1]))
        kept = whole & Counter(rows_of(read_text(damaged, tmp_path, IMPORTER), "metrics", COLUMNS))
        assert whole.total() - kept.total() <= 3 * 2 * 6, f"seed {seed}"


@pytest.mark.parametrize("name", ["dmon.txt", "long.csv"])
def test_damage(name: str, tmp_path: Path) -> None:
    path = DATA / name
    check_encodings(path, tmp_path, IMPORTER)
    check_cuts(path, tmp_path, IMPORTER, "metrics", COLUMNS)
    if name == "long.csv":
        check_flips(path, tmp_path, IMPORTER, "metrics", COLUMNS, rows_a_line=1)
    head = b"".join(path.read_bytes().splitlines(keepends=True)[:3])
    check_junk(head, tmp_path, IMPORTER, lambda chance: b"GPU 0 " + random.Random(chance.random()).randbytes(60))
