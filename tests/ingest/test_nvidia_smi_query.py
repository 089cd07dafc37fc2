"""nvidia-smi CSV queries: sums by column against the csv module, units, locale forms, times with and without zone."""

from __future__ import annotations

import csv
import random
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from ingest.errors import BadInput
from ingest.nvidia_smi_query import IMPORTER
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file, read_into
from tests.ingest.text_damage import (
    check_cuts,
    check_encodings,
    check_flips,
    check_junk,
    data_loss,
    read_text,
    rows_of,
    write,
)

DATA = Path(__file__).parents[1] / "data" / "nvidia_smi"
COLUMNS = ("metric", "ts_ns", "value", "unit", "process_id", "device_index", "labels")
VALUES = ("metric", "value", "process_id", "device_index", "labels")
MIB = 2**20
SCALES = {
    "memory.used [MiB]": ("device_memory_used_bytes", MIB),
    "memory.free [MiB]": ("device_memory_free_bytes", MIB),
    "memory.total [MiB]": ("device_memory_total_bytes", MIB),
    "memory.reserved [MiB]": ("device_memory_reserved_bytes", MIB),
    "utilization.gpu [%]": ("gpu_utilization_ratio", 0.01),
    "utilization.memory [%]": ("memory_utilization_ratio", 0.01),
    "temperature.gpu": ("gpu_temperature_celsius", 1),
    "power.draw [W]": ("gpu_power_watts", 1),
    "clocks.current.sm [MHz]": ("sm_clock_hertz", 1e6),
    "used_gpu_memory [MiB]": ("process_memory_used_bytes", MIB),
}


def check_columns(path: Path, tmp_path: Path) -> None:
    """Each column's values, in order, and the times, against the csv module."""
    with path.open(newline="") as file:
        text = list(csv.DictReader(file, skipinitialspace=True))
    rows = rows_of(ingest_file(path, tmp_path, IMPORTER), "metrics", COLUMNS)
    known = [column for column in text[0] if column in SCALES]
    assert known
    for column in known:
        metric, scale = SCALES[column]
        found = [row for row in rows if row[0] == metric]
        assert [row[2] for row in found] == pytest.approx([float(line[column].split()[0]) * scale for line in text])
        times = [datetime.strptime(line["timestamp"], "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC) for line in text]
        assert [row[1] for row in found] == [round(t.timestamp() * 1000) * 10**6 for t in times]
        if "index" in text[0]:
            assert [row[5] for row in found] == [int(line["index"]) for line in text]
        if "pid" in text[0]:
            assert [row[4] for row in found] == [int(line["pid"]) for line in text]


@pytest.mark.parametrize("name", ["query.csv", "apps.csv"])
def test_real_file(name: str, tmp_path: Path) -> None:
    golden = DATA / "golden" / name.replace("csv", "txt")
    tables = check_importer(DATA / name, tmp_path, IMPORTER, golden=golden)
    check_columns(DATA / name, tmp_path)
    assert counts_of(tables) == {("local_times", "info"): 1}
    assert read_into(DATA / name, tmp_path / "again", IMPORTER).clock == "unknown"


@pytest.mark.skipif(not SHARED.exists(), reason="the corpus is not beside the checkout")
@pytest.mark.parametrize(
    "name",
    [
        "corpus/nvidia_smi/eobo0530+vlm_optimization/gpu_log.csv",
        "corpus/nvidia_smi/tkjunsei+OpenAD/gpu_usage.csv",
        "captures/soak/query_gpu.csv",
    ],
)
def test_corpus(name: str, tmp_path: Path) -> None:
    tables = check_importer(SHARED / name, tmp_path, IMPORTER)
    assert counts_of(tables) == {("local_times", "info"): 1}
    check_columns(SHARED / name, tmp_path)


@pytest.mark.skipif(not SHARED.exists(), reason="the full captures are not beside the checkout")
def test_agrees_with_nvml_of_the_same_run(tmp_path: Path) -> None:
    """Between two NVML samples with equal used bytes, nvidia-smi says the same less the driver's reserve."""
    with (SHARED / "captures/soak/nvml.csv").open(newline="") as file:
        nvml = [(int(line["timestamp_ns"]), int(line["used_bytes"])) for line in csv.DictReader(file)]
    rows = rows_of(ingest_file(SHARED / "captures/soak/query_gpu.csv", tmp_path, IMPORTER), "metrics", COLUMNS)
    reserves = []
    for metric, ts_ns, used, *_ in rows:
        around = [(a, b) for a, b in pairwise(nvml) if a[0] <= int(str(ts_ns)) < b[0] and a[1] == b[1]]
        if metric == "device_memory_used_bytes" and around:
            reserves.append(around[0][0][1] - float(str(used)))
    assert len(reserves) > 150
    assert sorted(reserves)[len(reserves) // 20] == sorted(reserves)[-len(reserves) // 20]  # one value for 90 % of them
    assert abs(sorted(reserves)[len(reserves) // 2] / MIB - 615) < 1


HEADER = "timestamp, index, memory.used [MiB], power.draw [W], utilization.gpu [%]\n"
ROW = "2024/05/01 12:00:00.123, 1, 1234 MiB, 70.12 W, 12 %\n"
T = 1_714_564_800_123_000_000
EXPECTED = [
    ("device_memory_used_bytes", T, 1234 * MIB, "bytes", None, 1, None),
    ("gpu_power_watts", T, 70.12, "watts", None, 1, None),
    ("gpu_utilization_ratio", T, 0.12, "ratio", None, 1, None),
]


@pytest.mark.parametrize(
    "text",
    [
        HEADER + ROW,
        HEADER + ROW.replace(" MiB", "").replace(" W", "").replace(" %", ""),  # nounits
        HEADER + ROW.replace("70.12", "70,12"),  # a locale with decimal commas
        HEADER + ROW.replace("70.12 W", "70,12"),
        (HEADER + ROW.replace(".12 W", "*12 W")).replace(", ", ";").replace("*", ","),  # saved by a spreadsheet
        (HEADER + ROW).replace(", ", ",").replace("70.12 W", '"70,12 W"'),
        (HEADER + ROW).replace(", ", "\t"),
        HEADER + HEADER + ROW,
        "nohup: ignoring input\n" + HEADER + ROW,
        (HEADER + ROW).replace(" [MiB]", "").replace(" [W]", "").replace(" [%]", ""),  # a header of one's own
        (HEADER + ROW).replace("timestamp", "time"),
    ],
)
def test_forms(text: str, tmp_path: Path) -> None:
    tables = read_text(text, tmp_path, IMPORTER)
    assert rows_of(tables, "metrics", COLUMNS) == EXPECTED
    assert data_loss(tables) == {}


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("2024-05-01T12:00:00,123456789+02:00", 1_714_557_600.123456789),  # date --iso-8601=ns
        ("2024-05-01T12:00:00Z", 1_714_564_800),
        ("Wed May  1 12:00:00 UTC 2024", 1_714_564_800),
        ("1714564800", 1_714_564_800),
        ("1714564800.5", 1_714_564_800.5),
        ("1714564800123", 1_714_564_800.123),
        ("1714564800123456789", 1_714_564_800.123456789),
    ],
)
def test_times_with_a_zone_are_realtime(time: str, seconds: float, tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + ROW.replace("2024/05/01 12:00:00.123", time))
    sink = read_into(path, tmp_path / "parts", IMPORTER)
    assert sink.clock == "realtime"
    rows = rows_of(ingest_file(path, tmp_path, IMPORTER), "metrics", COLUMNS)
    assert float(str(rows[0][1])) / 1e9 == pytest.approx(seconds, abs=1e-6)


def test_one_time_of_another_sort_does_not_decide(tmp_path: Path) -> None:
    zoned = ROW.replace(".123", ".12Z")
    tables = read_text(HEADER + zoned + ROW * 3 + zoned, tmp_path, IMPORTER)
    assert [row[1] for row in rows_of(tables, "metrics", COLUMNS)][3:] == [T] * 9
    assert data_loss(tables) == {"damaged_times": 2}
    assert counts_of(tables)["local_times", "info"] == 1


def test_missing_is_not_zero(tmp_path: Path) -> None:
    text = HEADER + "".join(
        f"2024/05/01 12:00:00.123, 1, {cell}, {cell}, 12 %\n"
        for cell in ("[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]", "N/A", "")
    )
    tables = read_text(text, tmp_path, IMPORTER)
    assert rows_of(tables, "metrics", COLUMNS) == [EXPECTED[2]] * 6
    assert counts_of(tables)["missing_values", "info"] == 12


def test_processes(tmp_path: Path) -> None:
    apps = (
        "pid, process_name, gpu_uuid, used_gpu_memory [MiB]\n"
        "42, /usr/bin/python3, GPU-1, 1344 MiB\n43, [Not Found], GPU-1, [N/A]\n"
    )
    label = '{"gpu_uuid":"GPU-1","process_name":"/usr/bin/python3"}'
    tables = read_text(apps, tmp_path, IMPORTER)
    assert rows_of(tables, "metrics", VALUES) == [("process_memory_used_bytes", 1344 * MIB, 42, None, label)]
    assert counts_of(tables)["samples_without_time", "info"] == 1
    accounted = (
        "gpu_bus_id, pid, gpu_utilization [%], mem_utilization [%], max_memory_usage [MiB], time [ms]\n"
        "00000000:01:00.0, 42, 55 %, 7 %, 900 MiB, 1500 ms\n"
    )
    label = '{"gpu_bus_id":"00000000:01:00.0"}'
    assert rows_of(read_text(accounted, tmp_path, IMPORTER), "metrics", VALUES) == [
        ("process_gpu_utilization_ratio", 0.55, 42, None, label),
        ("process_memory_utilization_ratio", 0.07, 42, None, label),
        ("process_memory_max_bytes", 900 * MIB, 42, None, label),
        ("process_gpu_time_seconds", 1.5, 42, None, label),
    ]


def test_other_fields(tmp_path: Path) -> None:
    text = (
        "name, driver_version, pstate, clocks.max.sm [MHz], temperature.gpu, ecc.errors.corrected.volatile.total, "
        "clocks_throttle_reasons.active, clocks_throttle_reasons.gpu_idle, compute_mode\n"
        "NVIDIA A100, 535.104.05, P8, 1410 MHz, 33, 2, 0x0000000000000001, Active, Default\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    label = '{"gpu_name":"NVIDIA A100"}'
    assert rows_of(tables, "metrics", ("metric", "value", "unit", "labels")) == [
        ("performance_state", 8, None, label),
        ("clocks_max_sm_hertz", 1_410_000_000, "hertz", label),
        ("gpu_temperature_celsius", 33, "celsius", label),
        ("ecc_errors_corrected_volatile_total", 2, "count", label),
        ("clocks_throttle_reasons_active", 1, None, label),
        ("clocks_throttle_reasons_gpu_idle", 1, None, label),
    ]
    assert counts_of(tables)["text_columns", "info"] == 2


@pytest.mark.parametrize("row", [ROW, "2024/05/01 12:00:00.123, 1, 1234, 70.12, 12\n", "0, 1234 MiB, 12 %\n"])
def test_rows_without_header_are_refused(row: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="without noheader"):
        read_text(row * 3, tmp_path, IMPORTER)


def test_a_clock_set_back_is_counted(tmp_path: Path) -> None:
    earlier = ROW.replace("12:00:00", "11:00:00")
    tables = read_text(HEADER + ROW + earlier + ROW, tmp_path, IMPORTER)
    assert [row[1] for row in rows_of(tables, "metrics", COLUMNS)][::3] == [T, T - 3600 * 10**9, T]
    assert counts_of(tables)["times_go_back", "info"] == 1


def test_columns_may_change_within_a_file(tmp_path: Path) -> None:
    text = HEADER + ROW + "index, power.draw [W]\n0, 5.00 W\n" + HEADER + ROW
    tables = read_text(text, tmp_path, IMPORTER)
    rows = rows_of(tables, "metrics", COLUMNS)
    assert rows[:3] == rows[4:] == EXPECTED
    assert rows[3] == ("gpu_power_watts", None, 5.0, "watts", None, 0, None)


def test_impossible_values_are_counted(tmp_path: Path) -> None:
    text = HEADER + (
        ROW.replace("12 %", "101 %")
        + ROW.replace("1234", "-1")
        + ROW.replace("1234", "9" * 39)
        + ROW.replace("1234", "9" * 60)
        + ROW.replace(" 1,", " 99999999999,")
        + ROW.replace("1234 MiB", "1234 M")
        + ROW.replace("2024", "20x4")
        + "No devices were found\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    assert data_loss(tables) == {"impossible_values": 6, "damaged_values": 2, "damaged_times": 1, "damaged_rows": 1}
    assert len(rows_of(tables, "metrics", COLUMNS)) == 5 * 2


@pytest.mark.parametrize("name", ["query.csv", "apps.csv"])
def test_damage(name: str, tmp_path: Path) -> None:
    path = DATA / name
    check_encodings(path, tmp_path, IMPORTER)
    if name == "query.csv":
        check_cuts(path, tmp_path, IMPORTER, "metrics", COLUMNS)
    check_flips(path, tmp_path, IMPORTER, "metrics", COLUMNS, rows_a_line=12)
    check_junk(HEADER.encode(), tmp_path, IMPORTER, lambda chance: random.Random(chance.random()).randbytes(60))
