"""nvidia-smi dmon and pmon: sums by column against the text, layouts of old and new drivers, times without a zone."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ingest.nvidia_smi_dmon import IMPORTER
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file, read_into
from tests.ingest.text_damage import (
    Rows,
    check_cuts,
    check_encodings,
    check_flips,
    check_junk,
    data_loss,
    read_text,
    rows_of,
)

DATA = Path(__file__).parents[1] / "data" / "nvidia_smi"
COLUMNS = ("metric", "ts_ns", "value", "unit", "process_id", "device_index", "labels")
MIB = 2**20
METRICS = {
    "pwr": "gpu_power_watts",
    "sm": "gpu_utilization_ratio",
    "pclk": "processor_clock_hertz",
    "fb": "device_memory_used_bytes",
    "rxpci": "pcie_received_bytes_per_second",
}
OLD = (
    "# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk\n"
    "# Idx     W     C     C     %     %     %     %   MHz   MHz\n"
    "    0    43    35     -     0     0     0     0  2505  1075\n"
    "    1    42    31     -    97     9     0     0  2505  1075\n"
)


def values(rows: Rows, metric: str) -> list[object]:
    return [row[2] for row in rows if row[0] == metric]


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("dmon_all_DT", {"pwr": 3, "sm": 6, "pclk": 13, "fb": 16, "rxpci": 22}),
        ("dmon_pum", {"pwr": 1, "sm": 4, "fb": 10}),
        ("dmon_csv", {"sm": 5, "fb": 2}),
    ],
)
def test_real_file(name: str, columns: dict[str, int], tmp_path: Path) -> None:
    path = DATA / f"{name}.txt"
    tables = check_importer(path, tmp_path, IMPORTER, golden=DATA / "golden" / path.name)
    rows = rows_of(tables, "metrics", COLUMNS)
    text = [re.split(r"[ ,]+", line.strip()) for line in path.read_text().splitlines() if not line.startswith("#")]
    scales = {"pwr": 1, "sm": 0.01, "pclk": 1e6, "fb": MIB, "rxpci": 1e6}
    for column, place in columns.items():
        assert values(rows, METRICS[column]) == pytest.approx([int(line[place]) * scales[column] for line in text])
        assert len(set(values(rows, METRICS[column]))) > 1
    assert len({len(line) for line in text}) == 1
    assert len(rows) == len(text) * len([cell for cell in text[0] if cell.isdecimal() and len(cell) < 8]) - len(text)
    assert data_loss(tables) == {}


def test_real_times(tmp_path: Path) -> None:
    path = DATA / "dmon_all_DT.txt"
    rows = rows_of(ingest_file(path, tmp_path, IMPORTER), "metrics", COLUMNS)
    text = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
    times = [datetime.strptime(f"{a} {b}", "%Y%m%d %H:%M:%S").replace(tzinfo=UTC) for a, b, *_ in text]
    assert [row[1] for row in rows if row[0] == "gpu_power_watts"] == [int(t.timestamp()) * 10**9 for t in times]
    of_day = rows_of(ingest_file(DATA / "dmon_csv.txt", tmp_path, IMPORTER), "metrics", COLUMNS)
    assert of_day[0][1] == (17 * 3600 + 29 * 60 + 35) * 10**9


def test_local_times_leave_the_clock_open(tmp_path: Path) -> None:
    assert read_into(DATA / "dmon_all_DT.txt", tmp_path, IMPORTER).clock == "unknown"


def test_real_processes(tmp_path: Path) -> None:
    tables = check_importer(DATA / "pmon.txt", tmp_path, IMPORTER, golden=DATA / "golden/pmon.txt")
    text = [line.split() for line in (DATA / "pmon.txt").read_text().splitlines() if not line.startswith("#")]
    held = [(int(line[3]), int(line[11]) * MIB) for line in text if line[3] != "-"]
    rows = rows_of(tables, "metrics", COLUMNS)
    assert [(row[4], row[2]) for row in rows if row[0] == "process_memory_used_bytes"] == held
    assert counts_of(tables)["samples_without_process", "info"] == len(text) - len(held)


@pytest.mark.skipif(not SHARED.exists(), reason="the full captures are not beside the checkout")
def test_agrees_with_nvml_of_the_same_run(tmp_path: Path) -> None:
    """dmon's MiB are NVML's used bytes less the driver's reserve, within the second that dmon prints."""
    dmon = rows_of(ingest_file(SHARED / "captures/soak/dmon.log", tmp_path, IMPORTER), "metrics", COLUMNS)
    nvml: dict[int, set[int]] = {}
    for line in (SHARED / "captures/soak/nvml.csv").read_text().splitlines()[1:]:
        ts, _, used, *_ = line.split(",")
        nvml.setdefault(int(ts) // 10**9, set()).add(int(used))
    reserve = 614.9 * MIB
    seen = 0
    for metric, ts_ns, used, *_ in dmon:
        second = int(str(ts_ns)) // 10**9
        if metric == "device_memory_used_bytes" and second in nvml and second - 1 in nvml:
            near = nvml[second - 1] | nvml[second]
            assert min(near) - 2 * MIB <= float(str(used)) + reserve <= max(near) + 2 * MIB
            seen += 1
    assert seen > 30


@pytest.mark.skipif(not SHARED.exists(), reason="the corpus is not beside the checkout")
@pytest.mark.parametrize(
    ("name", "samples", "missing", "lost"),
    [
        ("dmon_new_12col__id70772490119", 10, 1, 0),
        ("dmon_old_10col_2gpu_K40__id48146600494", 16, 2, 0),
        ("dmon_old_10col__id42820173", 24, 3, 0),
        ("dmon_pclk_208_mclk_dash__id51873487364", 9, 2, 0),
        ("dmon_pucm_header_only_fb_bar1_ccpm__id54884958910", 0, 0, 1),  # its one row is commented out and cut
    ],
)
def test_corpus(name: str, samples: int, missing: int, lost: int, tmp_path: Path) -> None:
    path = SHARED / "corpus/snippets" / f"{name}.txt"
    tables = check_importer(path, tmp_path, IMPORTER)
    assert len(rows_of(tables, "metrics", COLUMNS)) == samples
    assert counts_of(tables).get(("missing_values", "info"), 0) == missing
    assert counts_of(tables).get(("samples_without_time", "info"), 0) == samples
    assert data_loss(tables).total() == lost


def test_no_time_is_null_and_the_order_stays(tmp_path: Path) -> None:
    tables = read_text("$ nvidia-smi dmon\n" + OLD + OLD, tmp_path, IMPORTER)
    rows = rows_of(tables, "metrics", COLUMNS)
    assert {row[1] for row in rows} == {None}
    assert values(rows, "gpu_power_watts") == [43, 42, 43, 42]
    assert [row[5] for row in rows if row[0] == "memory_clock_hertz"] == [0, 1, 0, 1]
    assert counts_of(tables)["lines_before_header", "info"] == 1


def test_all_column_sets(tmp_path: Path) -> None:
    names = "gpu pwr gtemp mtemp sm mem enc dec jpg ofa mclk pclk pviol tviol fb bar1 ccpm sbecc dbecc pci rxpci txpci"
    units = "Idx W C C % % % % % % MHz MHz % bool MB MB MB errs errs errs MB/s MB/s"
    row = "0 300 60 70 99 50 1 2 3 4 2619 1980 25 1 512 4 8 1 2 3 12 34"
    expected = [
        ("gpu_power_watts", 300, "watts"),
        ("gpu_temperature_celsius", 60, "celsius"),
        ("gpu_memory_temperature_celsius", 70, "celsius"),
        ("gpu_utilization_ratio", 0.99, "ratio"),
        ("memory_utilization_ratio", 0.5, "ratio"),
        ("encoder_utilization_ratio", 0.01, "ratio"),
        ("decoder_utilization_ratio", 0.02, "ratio"),
        ("jpeg_utilization_ratio", 0.03, "ratio"),
        ("optical_flow_utilization_ratio", 0.04, "ratio"),
        ("memory_clock_hertz", 2_619_000_000, "hertz"),
        ("processor_clock_hertz", 1_980_000_000, "hertz"),
        ("power_violation_ratio", 0.25, "ratio"),
        ("is_thermal_violation", 1, None),
        ("device_memory_used_bytes", 536_870_912, "bytes"),
        ("bar1_memory_used_bytes", 4_194_304, "bytes"),
        ("protected_memory_used_bytes", 8_388_608, "bytes"),
        ("ecc_single_bit_errors_total", 1, "count"),
        ("ecc_double_bit_errors_total", 2, "count"),
        ("pcie_replay_errors_total", 3, "count"),
        ("pcie_received_bytes_per_second", 12_000_000, "bytes_per_second"),
        ("pcie_sent_bytes_per_second", 34_000_000, "bytes_per_second"),
    ]
    spaces = f"# {names}\n# {units}\n  {row}\n"
    commas = f"#{names}\n#{units}\n {row}\n".replace(" ", ", ").replace("\n, ", "\n ")
    no_units = f"#{names}\n {row}\n".replace(" ", ", ").replace("\n, ", "\n ")
    for text in (spaces, commas, no_units):
        rows = rows_of(read_text(text, tmp_path, IMPORTER), "metrics", ("metric", "value", "unit"))
        assert rows == expected


def test_other_columns_and_performance_counters(tmp_path: Path) -> None:
    text = (
        "# gpu   mig    pwr  smutil    pcitx  xyz\n# Idx    Id      W   GPM:%  GPM:MiB/s  %\n"
        "    0     3    100      42         2    7\n    0     -    101       -         3    8\n"
    )
    rows = rows_of(read_text(text, tmp_path, IMPORTER), "metrics", ("metric", "value", "unit", "labels"))
    assert rows == [
        ("gpu_power_watts", 100, "watts", '{"mig":"3"}'),
        ("gpm_smutil_ratio", 0.42, "ratio", '{"mig":"3"}'),
        ("gpm_pcitx_bytes_per_second", 2 * MIB, "bytes_per_second", '{"mig":"3"}'),
        ("dmon_xyz_ratio", 0.07, "ratio", '{"mig":"3"}'),
        ("gpu_power_watts", 101, "watts", None),
        ("gpm_pcitx_bytes_per_second", 3 * MIB, "bytes_per_second", None),
        ("dmon_xyz_ratio", 0.08, "ratio", None),
    ]


def test_pmon(tmp_path: Path) -> None:
    text = (
        "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command \n"
        "# Idx           #    C/G      %      %      %      %      %      %     MB     MB    name \n"
        "    0       1234     C     55     20      -      -      -      -    512      0    python3 serve.py\n"
        "    1          -     -      -      -      -      -      -      -      -      -    -              \n"
        "    1       5678   C+G      7      1      -      -      -      -      -      0    Xorg           \n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    python, xorg = (
        '{"process_name":"python3 serve.py","process_type":"C"}',
        '{"process_name":"Xorg","process_type":"C+G"}',
    )
    assert rows_of(tables, "metrics", ("metric", "value", "process_id", "device_index", "labels")) == [
        ("process_gpu_utilization_ratio", 0.55, 1234, 0, python),
        ("process_memory_utilization_ratio", 0.2, 1234, 0, python),
        ("process_memory_used_bytes", 512 * MIB, 1234, 0, python),
        ("process_protected_memory_used_bytes", 0, 1234, 0, python),
        ("process_gpu_utilization_ratio", 0.07, 5678, 1, xorg),
        ("process_memory_utilization_ratio", 0.01, 5678, 1, xorg),
        ("process_protected_memory_used_bytes", 0, 5678, 1, xorg),
    ]
    assert counts_of(tables)["samples_without_process", "info"] == 1


def test_time_of_day_runs_past_midnight(tmp_path: Path) -> None:
    text = "#Time        gpu    pwr\n#HH:MM:SS    Idx      W\n" + (
        " 23:59:59      0     10\n 00:00:00      0     11\n 00:00:01      0     12\n xx:00:02      0     13\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    midnight = 86_400 * 10**9
    assert [row[1] for row in rows_of(tables, "metrics", COLUMNS)] == [midnight - 10**9, midnight, midnight + 10**9]
    assert counts_of(tables)["times_without_date", "info"] == 3
    assert data_loss(tables) == {"damaged_values": 1}


def test_a_date_alone_places_nothing(tmp_path: Path) -> None:
    text = "#Date        gpu    pwr\n#YYYYMMDD    Idx      W\n 20261130      0     10\n"
    tables = read_text(text, tmp_path, IMPORTER)
    assert [row[:3] for row in rows_of(tables, "metrics", COLUMNS)] == [("gpu_power_watts", None, 10)]
    assert counts_of(tables)["samples_without_time", "info"] == 1


def test_columns_may_change_within_a_file(tmp_path: Path) -> None:
    text = OLD + "# gpu    sm   pwr\n# Idx     %     W\n    0    50   200\n" + OLD
    tables = read_text(text, tmp_path, IMPORTER)
    rows = rows_of(tables, "metrics", COLUMNS)
    assert values(rows, "gpu_power_watts") == [43, 42, 200, 43, 42]
    assert counts_of(tables)["other_columns", "info"] == 2


@pytest.mark.parametrize("name", ["dmon_all_DT.txt", "dmon_csv.txt", "pmon.txt"])
def test_damage(name: str, tmp_path: Path) -> None:
    path = DATA / name
    check_encodings(path, tmp_path, IMPORTER)
    check_cuts(path, tmp_path, IMPORTER, "metrics", COLUMNS[:6])
    check_flips(path, tmp_path, IMPORTER, "metrics", COLUMNS, rows_a_line=21)


def test_junk(tmp_path: Path) -> None:
    check_junk(OLD.encode(), tmp_path, IMPORTER, lambda chance: random.Random(chance.random()).randbytes(60))


def test_impossible_values_are_counted(tmp_path: Path) -> None:
    head = "".join(OLD.splitlines(keepends=True)[:2])
    rows = (
        "    0    43    35     -   101     0     0     0  2505  1075\n"
        "    0   -43    35     -     0     0     0     0  2505  1075\n"
        "99999999999 43  35    -     0     0     0     0  2505  1075\n"
        "    0 99999999999999999999999999999999999999999 35 - 0 0 0 0 2505 1075\n"
        "    0    43    35\n"
    )
    tables = read_text(head + rows, tmp_path, IMPORTER)
    assert data_loss(tables) == {"impossible_values": 10, "damaged_values": 1, "damaged_rows": 1}
