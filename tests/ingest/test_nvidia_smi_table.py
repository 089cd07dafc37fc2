"""nvidia-smi's tables of drivers 375 to 580, with MIG, errors and processes, and the text of nvidia-smi -q."""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path

import pytest

from ingest.errors import BadInput
from ingest.nvidia_smi_table import IMPORTER
from tests.ingest.support import check_importer, counts_of, read_into
from tests.ingest.text_damage import (
    check_encodings,
    check_flips,
    check_junk,
    data_loss,
    read_text,
    rows_of,
    write,
)

DATA = Path(__file__).parents[1] / "data" / "nvidia_smi"
COLUMNS = ("metric", "ts_ns", "value", "process_id", "device_index", "labels")
MIB = 2**20

PASCAL = """\
Wed Jan 10 07:35:46 2018
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 375.20                 Driver Version: 375.20                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  TITAN X (Pascal)    Off  | 0000:4B:00.0     Off |                  N/A |
| 67%   86C    P2   249W / 250W |   5026MiB / 12221MiB |     82%      Default |
+-------------------------------+----------------------+----------------------+
|   1  Tesla P100-PCIE...  On   | 0000:4C:00.0      On |                    3 |
| N/A   29C    P0    25W / 250W |      0MiB / 16384MiB |      0%   E. Process |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID  Type  Process name                               Usage      |
|=============================================================================|
|    0     19218    C   python                                      4901MiB |
|    0            C   Not Supported                                           |
+-----------------------------------------------------------------------------+
"""

MIG = """\
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.104.05             Driver Version: 535.104.05   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  NVIDIA A30                     Off | 00000000:0B:00.0 Off |                   On |
| N/A   47C    P0              32W / 165W |     50MiB / 24576MiB |     N/A      Default |
|                                         |                      |              Enabled |
+-----------------------------------------+----------------------+----------------------+
|   1  ERR!                           On  | 00000000:91:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!              ERR! / ERR! |      0MiB / 81920MiB |    ERR!      Default |
|                                         |                      |                 ERR! |
+-----------------------------------------+----------------------+----------------------+

+---------------------------------------------------------------------------------------+
| MIG devices:                                                                          |
+------------------+--------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |
|      ID  ID  Dev |                     BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |
|                  |                                |        ECC|                       |
|==================+================================+===========+=======================|
|  0    2   0   0  |              25MiB / 11968MiB  | 28      0 |  2   0    2    0    0 |
|                  |               0MiB / 16383MiB  |           |                       |
+------------------+--------------------------------+-----------+-----------------------+

+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|        ID   ID                                                             Usage      |
|=======================================================================================|
|    0    2    0       1234      C   /usr/bin/python3 my app                      21MiB |
|    1   N/A  N/A      5678    C+G   C:\\Windows\\explorer.exe                    N/A      |
+---------------------------------------------------------------------------------------+
"""


def test_loop_of_a_real_machine(tmp_path: Path) -> None:
    path = DATA / "table_loop.txt.gz"
    tables = check_importer(path, tmp_path, IMPORTER, golden=DATA / "golden/table_loop.txt")
    rows = rows_of(tables, "metrics", COLUMNS)
    text = gzip.decompress(path.read_bytes()).decode()
    used = [int(mib) * MIB for mib in re.findall(r"(\d+)MiB / 143771MiB", text)]
    assert [row[2] for row in rows if row[0] == "device_memory_used_bytes"] == used
    assert [row[2] for row in rows if row[0] == "gpu_power_watts"] == [int(w) for w in re.findall(r"(\d+)W / ", text)]
    assert len(used) == 23 and max(used) > 0
    held = [(int(pid), int(mib) * MIB) for pid, mib in re.findall(r"N/A\s+(\d+)\s+C\s.*?(\d+)MiB \|", text)]
    assert [(row[3], row[2]) for row in rows if row[0] == "process_memory_used_bytes"] == held
    assert len(held) == 16
    assert data_loss(tables) == {}
    assert rows[0][1] == 1_796_059_775 * 10**9
    sink = read_into(path, tmp_path / "again", IMPORTER)
    assert (sink.clock, sink.format_version) == ("realtime", "580.159.04")  # `date` said that local time is UTC


def test_query_of_a_real_machine(tmp_path: Path) -> None:
    tables = check_importer(DATA / "q.txt.gz", tmp_path, IMPORTER, golden=DATA / "golden/q.txt")
    found = {row[0]: row[2] for row in rows_of(tables, "metrics", COLUMNS)}
    text = gzip.decompress((DATA / "q.txt.gz").read_bytes()).decode()
    units = re.findall(r" : -?[\d.]+ (?:MiB|%|C|W|MHz|KB/s|us)\s*$", text, re.MULTILINE)
    assert len(
        [
            row
            for row in found
            if row.endswith(("_bytes", "_ratio", "_celsius", "_watts", "_hertz", "_second", "_seconds"))
        ]
    ) == len(units)
    assert found["device_memory_total_bytes"] == 143771 * MIB
    assert found["device_memory_reserved_bytes"] == 616 * MIB
    assert found["gpu_power_watts"] == 126.82
    assert found["gpu_power_average_watts"] == 122.94
    assert found["pcie_sent_bytes_per_second"] == 1_676_000
    assert found["ecc_errors_aggregate_sram_uncorrectable_sec_ded"] == 0
    assert data_loss(tables) == {}


def test_old_layout(tmp_path: Path) -> None:
    tables = read_text(PASCAL * 2, tmp_path, IMPORTER)
    rows = rows_of(tables, "metrics", COLUMNS)
    first = rows[: len(rows) // 2]
    assert first == rows[len(rows) // 2 :]
    t = 1_515_569_746 * 10**9  # as if local time were UTC
    titan = '{"gpu_bus_id":"0000:4B:00.0","gpu_name":"TITAN X (Pascal)"}'
    assert first[:8] == [
        ("device_memory_used_bytes", t, 5026 * MIB, None, 0, titan),
        ("device_memory_total_bytes", t, 12221 * MIB, None, 0, titan),
        ("gpu_utilization_ratio", t, 0.82, None, 0, titan),
        ("gpu_power_watts", t, 249, None, 0, titan),
        ("gpu_power_limit_watts", t, 250, None, 0, titan),
        ("fan_speed_ratio", t, 0.67, None, 0, titan),
        ("gpu_temperature_celsius", t, 86, None, 0, titan),
        ("performance_state", t, 2, None, 0, titan),
    ]
    assert first[8][:3] == ("ecc_uncorrected_errors_total", t, 3)
    process = '{"process_name":"python","process_type":"C"}'
    assert first[-1] == ("process_memory_used_bytes", t, 4901 * MIB, 19218, 0, process)
    assert counts_of(tables)["missing_values", "info"] == 2 * 3


def test_mig_errors_and_instances(tmp_path: Path) -> None:
    tables = read_text(MIG, tmp_path, IMPORTER)
    rows = rows_of(tables, "metrics", COLUMNS)
    mig = '{"compute_instance_id":"0","gpu_instance_id":"2","mig_device":"0"}'
    assert [row for row in rows if str(row[0]).startswith("mig")] == [
        ("mig_memory_used_bytes", None, 25 * MIB, None, 0, mig),
        ("mig_memory_total_bytes", None, 11968 * MIB, None, 0, mig),
    ]
    assert [(row[0], row[2]) for row in rows if row[4] == 1] == [
        ("device_memory_used_bytes", 0),
        ("device_memory_total_bytes", 81920 * MIB),
    ]
    process = (
        '{"compute_instance_id":"0","gpu_instance_id":"2","process_name":"/usr/bin/python3 my app","process_type":"C"}'
    )
    assert rows[-1] == ("process_memory_used_bytes", None, 21 * MIB, 1234, 0, process)
    assert data_loss(tables) == {}


def test_watch_writes_escapes_and_a_title(tmp_path: Path) -> None:
    title = "\x1b[H\x1b[J\x1b[1mEvery 1.0s: nvidia-smi        gpu-1: Wed Jan 10 07:35:50 2018\x1b[0m\n"
    tables = read_text(title + PASCAL.split("\n", 1)[1], tmp_path, IMPORTER)
    assert {row[1] for row in rows_of(tables, "metrics", COLUMNS)} == {1_515_569_750 * 10**9}


def test_a_zone_given_by_date(tmp_path: Path) -> None:
    tables = read_text("Wed Jan 10 06:35:45 UTC 2018\n" + PASCAL, tmp_path, IMPORTER)
    assert {row[1] for row in rows_of(tables, "metrics", COLUMNS)} == {(1_515_569_746 - 3600) * 10**9}


def test_processes_and_devices_of_a_query(tmp_path: Path) -> None:
    log = """
==============NVSMI LOG==============

Timestamp                       : Mon Dec  5 22:05:49 2011
Attached GPUs                   : 2
GPU 0000:02:00.0
    Memory Usage
        Total                   : 5375 MB
        Used                    : 9 MB
    Clocks Throttle Reasons
        HW Slowdown             : Not Active
            HW Thermal Slowdown : Not Active
    Processes
        GPU instance ID         : N/A
        Compute instance ID     : N/A
        Process ID              : 42
            Type                : C
            Name                : python: a
            Used GPU Memory     : 8 MiB
        Process ID              : x
            Used GPU Memory     : 8 MiB
GPU 0000:84:00.0
    MIG Device
        Index                   : 1
        GPU Instance ID         : 3
        FB Memory Usage
            Used                : 7 MiB
    Utilization
        Gpu                     : 50 %
"""
    tables = read_text(log, tmp_path, IMPORTER)
    rows = [(row[0], *row[2:]) for row in rows_of(tables, "metrics", COLUMNS)]
    first, second = '{"gpu_bus_id":"0000:02:00.0"}', '{"gpu_bus_id":"0000:84:00.0"}'
    assert rows == [
        ("device_memory_total_bytes", 5375 * MIB, None, 0, first),
        ("device_memory_used_bytes", 9 * MIB, None, 0, first),
        (
            "process_memory_used_bytes",
            8 * MIB,
            42,
            0,
            '{"gpu_bus_id":"0000:02:00.0","process_name":"python: a","process_type":"C"}',
        ),
        (
            "mig_memory_used_bytes",
            7 * MIB,
            None,
            1,
            '{"gpu_bus_id":"0000:84:00.0","gpu_instance_id":"3","mig_device":"1"}',
        ),
        ("gpu_utilization_ratio", 0.5, None, 1, second),
    ]
    assert data_loss(tables) == {"damaged_rows": 1}
    of_one = read_text(log.replace(": 2\n", ": 8\n", 1), tmp_path, IMPORTER)  # nvidia-smi -q -i …
    assert {row[4] for row in rows_of(of_one, "metrics", COLUMNS)} == {None}


def test_xml_is_refused(tmp_path: Path) -> None:
    text = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
    with pytest.raises(BadInput, match="record nvidia-smi -q without -x"):
        read_text(text, tmp_path, IMPORTER)


def test_damage(tmp_path: Path) -> None:
    plain = write(tmp_path, gzip.decompress((DATA / "table_loop.txt.gz").read_bytes()))
    check_encodings(plain, tmp_path, IMPORTER)
    check_flips(plain, tmp_path, IMPORTER, "metrics", COLUMNS, rows_a_line=8)
    check_junk(MIG.encode(), tmp_path, IMPORTER, lambda chance: b"|  0 " + random.Random(chance.random()).randbytes(60))
    report = write(tmp_path, gzip.decompress((DATA / "q.txt.gz").read_bytes()))
    check_flips(report, tmp_path, IMPORTER, "metrics", COLUMNS, rows_a_line=80)
    for cut in range(10):
        data = plain.read_bytes()
        tables = read_text(data[: 1500 + cut * (len(data) - 1500) // 10], tmp_path, IMPORTER)
        assert len(rows_of(tables, "metrics", COLUMNS)) >= 8
