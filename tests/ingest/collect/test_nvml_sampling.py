"""`leakpath collect nvml` against a stand-in for nvidia-ml-py with two devices."""

from __future__ import annotations

import csv
import time
from pathlib import Path

from .harness import collect

HEADER = "timestamp_ns,device_index,used_bytes,free_bytes,total_bytes,gpu_util_pct,mem_util_pct,pid,pid_used_bytes"
DEVICE_0 = ["0", "1000", "9000", "10000", "37", "5"]
ONE_SAMPLE = [[*DEVICE_0, "11", "700"], [*DEVICE_0, "12", ""], ["1", "1001", "8999", "10000", "", "", "", ""]]


def test_rows_of_devices_and_processes_at_the_asked_period(tmp_path: Path) -> None:
    before = time.time_ns()
    result = collect(tmp_path, "nvml", "-o", "n.csv", "--period", "0.05", "--duration", "0.52")
    after = time.time_ns()
    assert result.returncode == 0
    header, *rows = (tmp_path / "n.csv").read_text().splitlines()
    assert header == HEADER
    table = [row.split(",") for row in rows]
    samples = len(table) // 3
    assert [row[1:] for row in table] == ONE_SAMPLE * samples
    assert 8 <= samples <= 11
    times = [int(row[0]) for row in table]
    assert times == sorted(times) and before <= times[0] and times[-1] <= after


def test_columns_are_those_of_the_shared_captures(tmp_path: Path) -> None:
    collect(tmp_path, "nvml", "-o", "n.csv", "--duration", "0.05")
    with (tmp_path / "n.csv").open(newline="") as file:
        assert next(csv.reader(file)) == HEADER.split(",")


def test_samples_while_a_command_runs_and_passes_its_code_on(tmp_path: Path) -> None:
    arguments = ("nvml", "-o", "n.csv", "--period", "0.02", "--", "PYTHON", "app.py")
    result = collect(tmp_path, *arguments, app="import time, sys; time.sleep(0.3); sys.exit(9)")
    assert result.returncode == 9
    assert len((tmp_path / "n.csv").read_text().splitlines()) > 10


def test_no_driver_no_device_and_a_contradiction(tmp_path: Path) -> None:
    no_driver = collect(tmp_path, "nvml", "-o", "n.csv", "--duration", "1", STAND_IN_NO_DRIVER="1")
    assert (no_driver.returncode, "Driver Not Loaded" in no_driver.stderr) == (3, True)
    no_device = collect(tmp_path, "nvml", "-o", "n.csv", "--duration", "1", STAND_IN_DEVICES="0")
    assert (no_device.returncode, "sees no GPU" in no_device.stderr) == (3, True)
    both = collect(tmp_path, "nvml", "-o", "n.csv", "--duration", "1", "--", "PYTHON", "app.py")
    assert both.returncode == 2
    assert not (tmp_path / "n.csv").exists()
