"""Measurements as CSV: wide and long forms by hand against the csv module, what is left to other formats, damage."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from ingest.metrics_csv import IMPORTER
from tests.ingest.support import counts_of, read_into
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, data_loss, read_text, rows_of, write

COLUMNS = ("metric", "labels", "ts_ns", "value", "unit", "process_id", "device_index")
T = 1796036400 * 10**9  # 2026-11-30T11:00:00Z
WIDE = "timestamp_ns,host,used_bytes,kv_cache_usage_ratio\n" + "".join(
    f"{T + i * 10**9},node{i % 2},{i * 4096},{i / 100}\n" for i in range(40)
)


def test_wide(tmp_path: Path) -> None:
    tables = read_text(WIDE, tmp_path, IMPORTER)
    expected = []
    for row in csv.DictReader(io.StringIO(WIDE)):
        labels, ts = json.dumps({"host": row["host"]}, separators=(",", ":")), int(row["timestamp_ns"])
        expected.append(("used_bytes", labels, ts, float(row["used_bytes"]), "bytes", None, None))
        expected.append(("kv_cache_usage_ratio", labels, ts, float(row["kv_cache_usage_ratio"]), "ratio", None, None))
    assert rows_of(tables, "metrics", COLUMNS) == expected
    assert counts_of(tables) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (  # long form, with a process and a device
            "ts;metric;value;pod;pid;gpu\n1796036400;used_bytes;5;p1;77;1\n1796036400.5;x_seconds;6;p1;77;0\n",
            [
                ("used_bytes", '{"pod":"p1"}', T, 5.0, "bytes", 77, 1),
                ("x_seconds", '{"pod":"p1"}', T + 5 * 10**8, 6.0, "seconds", 77, 0),
            ],
        ),
        (  # Grafana
            '"Time","vllm:num_requests_running{model=""a"", pod=""b""}"\n2026-11-30T11:00:00Z,3\n1796036401,\n',
            [("vllm:num_requests_running", '{"model":"a","pod":"b"}', T, 3.0, None, None, None)],
        ),
        ("time_ms,a\n1796036400000,1\n", [("a", "{}", T, 1.0, None, None, None)]),
        (  # a column named as a secret is not copied into labels
            "date_time,api_key,a\n2026-11-30 11:00:00 +0100,sk-1,1\n",
            [("a", "{}", T - 3600 * 10**9, 1.0, None, None, None)],
        ),
    ],
)
def test_forms(text: str, expected: list[tuple[object, ...]], tmp_path: Path) -> None:
    assert rows_of(read_text(text, tmp_path, IMPORTER), "metrics", COLUMNS) == expected


def test_missing_and_damaged_cells(tmp_path: Path) -> None:
    text = "ts,a,b\n1796036400,1,x\n1796036401,NaN,2\n1796036402,one,3\nsoon,4,4\n1796036403,5,5\n"
    tables = read_text(text, tmp_path, IMPORTER)
    assert tables["metrics"].height == 5
    assert counts_of(tables) == {
        ("missing_values", "info"): 1,
        ("damaged_values", "data_loss"): 2,
        ("damaged_rows", "data_loss"): 1,
    }


def test_local_times_leave_the_clock_open(tmp_path: Path) -> None:
    path = write(tmp_path, "time,a\n2026-11-30 11:00:00,1\n")
    assert read_into(path, tmp_path / "parts", IMPORTER).clock == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "Time (%),Total Time (ns),Num Calls,Name\n97.1,2654183925,2434,cuStreamSynchronize\n",  # nsys stats
        "timestamp, index, name, memory.used [MiB]\n2026/11/30 11:08:25.030, 0, NVIDIA H200, 0 MiB\n",
        "timestamp, power.draw\n2026/11/30 11:08:25.030, 70\n",
        "timestamp_ns,device_index,used_bytes\n1,0,5\n",
        "timestamp_ns,request_id,token_index,rss_bytes\n1,0,5,6\n",
        '"ID","Kernel Name","timestamp"\n"0","k","1"\n',
        "timestamp,note\n1796036400,hello\n",
        "1796036400,5\n1796036401,6\n",
        "timestamp\n1796036400\n",
        "",
    ],
)
def test_files_of_others(text: str) -> None:
    assert not IMPORTER.sniff(text.encode(), Path("x.bin"))


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(WIDE)
    check_encodings(path, tmp_path, IMPORTER)
    check_cuts(path, tmp_path, IMPORTER, "metrics", COLUMNS)
    check_flips(path, tmp_path, IMPORTER, "metrics", COLUMNS, rows_a_line=2, seeds=range(12))
    huge = read_text(f"ts,a\n1796036400,{'9' * 400}\n{'9' * 40},1\n1796036400,1e308\n", tmp_path, IMPORTER)
    assert huge["metrics"]["value"].to_list() == [1e308]
    assert data_loss(huge).total() == 2
