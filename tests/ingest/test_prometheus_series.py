"""Prometheus text in series, OpenMetrics, and answers of the HTTP API."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families

from ingest.errors import BadInput
from ingest.prometheus_scrape import IMPORTER
from ingest.prometheus_text import mark_of
from tests.ingest.support import check_importer, counts_of, ingest_file, read_into
from tests.ingest.text_damage import check_cuts, check_flips, data_loss, read_text, rows_of, write

DATA = Path(__file__).parents[1] / "data" / "server" / "openmetrics.txt"
COLUMNS = ("metric", "labels", "ts_ns", "value", "unit")
T = 1796036400 * 10**9  # 2026-11-30T11:00:00Z


def labels(**values: str) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def test_openmetrics_against_its_own_parser(tmp_path: Path) -> None:
    """prometheus_client's OpenMetrics parser, which ours does not use, finds the same samples and exemplars."""
    tables = check_importer(DATA, tmp_path, IMPORTER)
    samples = [sample for family in openmetrics_families(DATA.read_text()) for sample in family.samples]
    expected = Counter((sample.name, labels(**sample.labels), sample.value) for sample in samples)
    assert Counter(rows_of(tables, "metrics", ("metric", "labels", "value"))) == expected
    assert len(samples) == 19
    assert counts_of(tables) == {
        ("exemplars_left_out", "info"): sum(sample.exemplar is not None for sample in samples),
        ("samples_without_time", "info"): 18,
    }
    timed = [row for row in rows_of(tables, "metrics", COLUMNS) if row[2] is not None]
    assert timed == [("kv_cache_usage_ratio", labels(model="tiny"), T + 125_000_000, 0.5, "ratio")]
    units = dict(rows_of(tables, "metrics", ("metric", "unit")))
    assert (units["rail_volts"], units["device_memory_used_bytes"], units["build_info"]) == ("volts", "bytes", None)


@pytest.mark.parametrize(
    ("mark", "ns"),
    [
        (f"# scrape {T}", T),
        ("# scrape 1796036400", T),
        ("# scrape 1796036400.5", T + 5 * 10**8),
        ("# scrape 1796036400250", T + 25 * 10**7),
        ("# scrape 2026-11-30T11:00:00Z", T),
        ("# timestamp: 1796036400", T),
        ("# scraped at 2026-11-30T12:00:00.5+01:00", T + 5 * 10**8),
        ("Mon Nov 30 11:00:00 UTC 2026", T),
        ("Mon Nov 30 11:00:00 AM UTC 2026", T),
        ("Mon, 30 Nov 2026 12:00:00 +0100", T),
        ("1796036400.250000000", T + 25 * 10**7),
        ("=== 2026-11-30T11:00:00Z ===", T),
        ("--- 1796036400 ---", T),
        ("# 2026-11-30 11:00:00 UTC", T),
    ],
)
def test_marks_of_time(mark: str, ns: int, tmp_path: Path) -> None:
    text = f'{mark}\n# TYPE a gauge\na{{x="1"}} 1\n{mark}\na{{x="1"}} 2\n'
    tables = read_text(text, tmp_path, IMPORTER)
    assert tables["metrics"]["ts_ns"].to_list() == [ns, ns]
    assert tables["metrics"]["value"].to_list() == [1.0, 2.0]
    assert counts_of(tables) == {}


@pytest.mark.parametrize(
    "line", ["# HELP a 2026-11-30T11:00:00Z", "# EOF", "a 1", "time 5", "# a comment of 2026", "#"]
)
def test_other_lines_are_no_marks(line: str) -> None:
    assert mark_of(line) is None


def test_marks_without_a_zone_leave_the_clock_open(tmp_path: Path) -> None:
    path = write(tmp_path, '# 2026-11-30 11:00:00\n# TYPE a gauge\na{x="1"} 1\n')
    sink = read_into(path, tmp_path / "parts", IMPORTER)
    assert sink.clock == "unknown"
    assert sink.counts["local_times", "info"][0] == 1


def test_what_curl_prints_with_headers(tmp_path: Path) -> None:
    head = "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 11:00:00 GMT\r\ncontent-type: text/plain; version=0.0.4\r\n\r\n"
    tables = read_text(f"{head}# TYPE a gauge\na 1\n{head.replace('11:00:00', '11:00:10')}a 2\n", tmp_path, IMPORTER)
    assert rows_of(tables, "metrics", ("ts_ns", "value")) == [(T, 1.0), (T + 10 * 10**9, 2.0)]
    assert counts_of(tables) == {}


def test_scrapes_joined_without_marks(tmp_path: Path) -> None:
    """Which scrape a sample is of can't be told: no time, and it is said."""
    tables = read_text('# TYPE a gauge\na{x="1"} 1\n# EOF\n# TYPE a gauge\na{x="1"} 2\n# EOF\n', tmp_path, IMPORTER)
    assert tables["metrics"]["ts_ns"].to_list() == [None, None]
    assert data_loss(tables) == {"scrape_lines_missing": 1}


@pytest.mark.parametrize(
    "line",
    [
        'vllm:num_requests_running{engine="0",model_name="m"} 3.0',
        'vllm:gpu_cache_usage_perc{model_name="m"} 0.25',
        'sglang:token_usage{model_name="m"} 0.28',
        "tgi_queue_size 4",
        'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",pci_bus_id="00000000:0A:00.0",device="nvidia0"} 48',
        'node_memory_MemAvailable_bytes{instance="a:9100"} 4.8e+09',
        'container_memory_working_set_bytes{container="vllm",pod="p",image="r/v@sha256:1"} 1.2e+10 1796036400000',
    ],
)
def test_names_of_servers_and_exporters_are_kept(line: str, tmp_path: Path) -> None:
    name, value = line.partition("{")[0].split()[0], float(line.partition("} ")[2].split()[0] if "}" in line else 4)
    tables = read_text(f"# scrape {T}\n# TYPE {name} gauge\n{line}\n", tmp_path, IMPORTER)
    row = tables["metrics"].row(0, named=True)
    assert (row["metric"], row["value"], row["ts_ns"]) == (name, value, T)
    assert row["unit"] == ("bytes" if name.endswith("_bytes") else None)
    assert all(f'{key}="{text}"' in line for key, text in json.loads(row["labels"]).items())


def test_names_in_quotes(tmp_path: Path) -> None:
    tables = read_text(f'# scrape {T}\n# TYPE "my.dotted" gauge\n{{"my.dotted", label="x"}} 3\n', tmp_path, IMPORTER)
    assert rows_of(tables, "metrics", COLUMNS) == [("my.dotted", labels(label="x"), T, 3.0, None)]


def test_a_dump_of_the_database(tmp_path: Path) -> None:
    """`promtool tsdb dump` writes the name among the labels, with times in ms."""
    text = '{__name__="up", job="vllm"} 1 1796036400000\n{__name__="x_bytes"} 2.5 1796036400250\n'
    rows = rows_of(read_text(text, tmp_path, IMPORTER), "metrics", COLUMNS)
    assert rows == [("up", labels(job="vllm"), T, 1.0, None), ("x_bytes", "{}", T + 25 * 10**7, 2.5, "bytes")]


def test_times_in_seconds_and_in_ms(tmp_path: Path) -> None:
    text = "# TYPE a gauge\na 1 1796036400.5\na 2 1796036400500\na 3 1796036400\na 4 1e99999999\na 5 -1\n"
    tables = read_text(text, tmp_path, IMPORTER)
    assert tables["metrics"]["ts_ns"].to_list() == [T + 5 * 10**8, T + 5 * 10**8, T, None, None]
    assert data_loss(tables) == {"damaged_times": 2}


MATRIX = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [
            {
                "metric": {"__name__": "vllm:num_requests_running", "job": "vllm"},
                "values": [[1796036400.781, "1"], [1796036415.781, "+Inf"], [1796036430, "NaN"]],
            },
            {"metric": {"instance": "a"}, "values": [[1796036400, "0.5"]]},
        ],
    },
}
VECTOR = {
    "status": "success",
    "data": {
        "resultType": "vector",
        "result": [{"metric": {"__name__": "x_bytes"}, "value": [1796036400, "7"]}],
    },
}


def test_answers_of_the_api(tmp_path: Path) -> None:
    """Lines of answers as a loop of curl makes them; the same when pretty-printed, and of `promtool -o json`."""
    rows = rows_of(read_text(f"{json.dumps(MATRIX)}\n{json.dumps(VECTOR)}\n", tmp_path, IMPORTER), "metrics", COLUMNS)
    assert [row[:3] for row in rows] == [
        ("vllm:num_requests_running", labels(job="vllm"), T + 781_000_000),
        ("vllm:num_requests_running", labels(job="vllm"), T + 15_781_000_000),
        ("vllm:num_requests_running", labels(job="vllm"), T + 30 * 10**9),
        ("query_result", labels(instance="a"), T),
        ("x_bytes", "{}", T),
    ]
    values = [row[3] for row in rows]
    assert values[:2] == [1.0, math.inf]
    assert math.isnan(values[2])
    assert values[3:] == [0.5, 7.0]
    assert rows[-1][4] == "bytes"
    for text in (
        json.dumps(MATRIX, indent=1),
        json.dumps(MATRIX["data"]["result"]),
        json.dumps(MATRIX, sort_keys=True),
    ):  # type: ignore[index]
        assert len(rows_of(read_text(text, tmp_path, IMPORTER), "metrics", COLUMNS)) == 4


def test_a_scalar_and_a_native_histogram(tmp_path: Path) -> None:
    scalar = {"status": "success", "data": {"resultType": "scalar", "result": [1796036400, "2"]}}
    tables = read_text(json.dumps(scalar), tmp_path, IMPORTER)
    assert rows_of(tables, "metrics", COLUMNS) == [("query_result", "{}", T, 2.0, None)]
    found: dict[str, Any] = json.loads(json.dumps(VECTOR))
    buckets = {"count": "60", "sum": "33.5", "buckets": [[0, "-0.5", "0.5", "60"]]}
    found["data"]["result"] = [{"metric": {"__name__": "h"}, "histogram": [1796036400, buckets]}]
    tables = read_text(json.dumps(found), tmp_path, IMPORTER)
    assert [row[::3] for row in rows_of(tables, "metrics", COLUMNS)] == [("h_count", 60.0), ("h_sum", 33.5)]
    assert counts_of(tables) == {("histogram_buckets_left_out", "info"): 1}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": "error", "errorType": "bad_data", "error": "parse error"}, "bad_data: parse error"),
        ({"status": "success", "data": {"resultType": "string", "result": [1, "x"]}}, "type string"),
    ],
)
def test_answers_without_numbers_are_refused(answer: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=said):
        read_into(write(tmp_path, json.dumps(answer)), tmp_path / "parts", IMPORTER)


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    chance = random.Random(3)
    words = [f"{chance.randrange(16**12):012x}" for _ in range(40)]
    path.write_text("".join(json.dumps(MATRIX).replace('"vllm"', f'"{word}"') + "\n" for word in words))
    check_flips(path, tmp_path, IMPORTER, "metrics", ("metric", "labels", "ts_ns"), rows_a_line=4, seeds=range(12))
    check_cuts(path, tmp_path, IMPORTER, "metrics", ("metric", "labels", "ts_ns"))
    values = '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"a"},"values":[%s]}]}}'
    points = (
        '[1,"1"],[1e400,"1"],[1],7,null,[-5,"1"],["x","1"],[1796036400,"one"],[1796036400,1],[' + "9" * 30 + ',"1"]'
    )
    tables = read_text(values % points, tmp_path, IMPORTER)
    assert tables["metrics"].height == 2
    assert data_loss(tables) == {"damaged_rows": 8}
    deep = '{"status":"success","data":{"resultType":"matrix","result":[{"metric":' + "[" * 100_000
    assert data_loss(read_text(f"{json.dumps(VECTOR)}\n{deep}\n", tmp_path, IMPORTER))["cut_document"] == 1


def test_a_large_answer_is_read_in_pieces(tmp_path: Path) -> None:
    """An answer is one line of any length: here 5 MB, 100 series of 2,000 points."""
    points = ",".join(f'[{1796036400 + i},"{i}.125"]' for i in range(2000))
    series = ",".join(f'{{"metric":{{"__name__":"a","i":"{i}"}},"values":[{points}]}}' for i in range(100))
    path = write(tmp_path, f'{{"status":"success","data":{{"resultType":"matrix","result":[{series}]}}}}')
    tables = ingest_file(path, tmp_path, IMPORTER)
    assert tables["metrics"].height == 200_000
    assert tables["metrics"]["value"].sum() == 100 * (sum(range(2000)) + 2000 * 0.125)
