"""Prometheus importer: samples against a second reading and the format's own example, times, damage."""

from __future__ import annotations

import gzip
import json
import math
import re
from pathlib import Path

import polars as pl
import pytest

from ingest.prometheus_scrape import IMPORTER
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
    write,
)  # fmt: skip

DATA = Path(__file__).parents[1] / "data" / "prometheus_scrape"
COLUMNS = ("metric", "labels", "ts_ns", "value")
T = 1796036322094338655


def expected_samples(text: str) -> Rows:
    """A second reading of prometheus_client's plain output: no escapes, no times of their own."""
    rows: Rows = []
    ts: int | None = None
    for line in text.splitlines():
        if line.startswith("# scrape "):
            ts = int(line.removeprefix("# scrape "))
        elif line and not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            name, _, inside = series.partition("{")
            labels = dict(re.findall(r'(\w+)="([^"]*)"', inside))
            rows.append((name, json.dumps(labels, sort_keys=True, separators=(",", ":")), ts, float(value)))
    return rows


def test_real_file(tmp_path: Path) -> None:
    tables = check_importer(DATA / "kv_leak.prom", tmp_path, IMPORTER)
    expected = expected_samples((DATA / "kv_leak.prom").read_text())
    assert rows_of(tables, "metrics", COLUMNS) == expected
    assert len({ts for _, _, ts, _ in expected}) == 2
    assert counts_of(tables) == {}
    assert tables["metrics"]["source"].unique().to_list() == ["prometheus"]


@pytest.mark.skipif(not SHARED.exists(), reason="the full captures are not beside the checkout")
def test_every_capture_and_vllm(tmp_path: Path) -> None:
    paths = sorted((SHARED / "captures").glob("**/metrics.prom*"))
    assert len(paths) >= 9
    vllm = sorted((SHARED / "corpus" / "prom_vllm").glob("**/*.prom"))
    vllm += (SHARED / "corpus" / "prom_vllm").glob("**/vllm_metrics.txt")
    assert vllm
    for path in paths + vllm:
        text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
        tables = ingest_file(path, tmp_path, IMPORTER)
        assert rows_of(tables, "metrics", COLUMNS) == expected_samples(text), path
        assert data_loss(tables) == {}, path


def test_the_example_of_the_format(tmp_path: Path) -> None:
    """https://prometheus.io/docs/instrumenting/exposition_formats/, Text format example."""
    text = r"""# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""} 1.458255915e9

# Minimalistic line:
metric_without_timestamp_and_labels 12.47

# A weird metric from before the epoch:
something_weird{problem="division by zero"} +Inf -3982045
"""
    path = write(tmp_path, text)
    tables = ingest_file(path, tmp_path, IMPORTER)
    rows = rows_of(tables, "metrics", (*COLUMNS, "unit"))
    assert rows == [
        ("http_requests_total", '{"code":"200","method":"post"}', 1395066363000 * 10**6, 1027.0, "count"),
        ("http_requests_total", '{"code":"400","method":"post"}', 1395066363000 * 10**6, 3.0, "count"),
        (
            "msdos_file_access_time_seconds",
            json.dumps({"error": 'Cannot find file:\n"FILE.TXT"', "path": "C:\\DIR\\FILE.TXT"}, separators=(",", ":")),
            None,
            1458255915.0,
            "seconds",
        ),
        ("metric_without_timestamp_and_labels", "{}", None, 12.47, None),
        ("something_weird", '{"problem":"division by zero"}', None, math.inf, None),
    ]
    assert counts_of(tables) == {("samples_without_time", "info"): 3, ("damaged_times", "data_loss"): 1}
    assert read_into(path, tmp_path / "again", IMPORTER).clock == "realtime"


def test_without_any_time_the_clock_is_unknown(tmp_path: Path) -> None:
    path = write(tmp_path, "# TYPE a gauge\na 1\n")
    sink = read_into(path, tmp_path / "parts", IMPORTER)
    assert sink.clock == "unknown"
    assert sink.counts[("samples_without_time", "info")][0] == 1


def test_names_are_those_of_the_file(tmp_path: Path) -> None:
    text = f"# scrape {T}\n# TYPE requests counter\nrequests 5\n# TYPE x_total counter\nx_total 6\n# EOF\n"
    tables = read_text(text, tmp_path, IMPORTER)
    assert tables["metrics"]["metric"].to_list() == ["requests", "x_total"]


def test_a_damaged_line_costs_itself_alone(tmp_path: Path) -> None:
    text = (
        f"# scrape {T}\n# TYPE a gauge\n"
        'a{x="1"} 1\na{x="2} 2\na{x="3"} three\n}}{ 4\na{x="5"} 5\n'
        'a{x="6"} ' + "9" * 400 + '\na{x="7"} NaN\n# scrape soon\na{x="1"} 7\n'
    )
    tables = read_text(text, tmp_path, IMPORTER)
    labels = [json.loads(text)["x"] for text in tables["metrics"]["labels"]]
    assert labels == ["1", "5", "6", "7", "1"]
    assert tables["metrics"]["value"].to_list()[:3] == [1.0, 5.0, math.inf]
    assert tables["metrics"]["ts_ns"].to_list() == [T, T, T, T, None]
    assert data_loss(tables) == {"damaged_rows": 3, "damaged_values": 1}
    detail = tables["diagnostics"].filter(pl.col("name") == "damaged_rows")["detail"][0]
    assert "line 4" in detail


def test_a_lost_scrape_line_is_noticed(tmp_path: Path) -> None:
    """The second scrape's samples must not be dated to the first."""
    text = f"# scrape {T}\n# TYPE a gauge\na 1\nb 2\n# scrxpe {T + 5}\na 3\nb 4\n# scrape {T + 9}\na 5\n"
    tables = read_text(text, tmp_path, IMPORTER)
    assert tables["metrics"]["ts_ns"].to_list() == [T, T, None, None, T + 9]
    assert data_loss(tables) == {"scrape_lines_missing": 1}


def test_exemplars_are_no_times(tmp_path: Path) -> None:
    text = (
        f"# scrape {T}\n# TYPE a histogram\n"
        'a_bucket{le="0.1"} 8 # {} 0.054\na_bucket{le="1"} 11 # {trace_id="K # {O}"} 0.67 1520879607.7\n'
        'b{text="x # {y} z"} 1\n'
    )
    tables = read_text(text, tmp_path, IMPORTER)
    assert tables["metrics"]["value"].to_list() == [8.0, 11.0, 1.0]
    assert tables["metrics"]["ts_ns"].to_list() == [T] * 3
    assert json.loads(tables["metrics"]["labels"][2]) == {"text": "x # {y} z"}
    assert counts_of(tables) == {("exemplars_left_out", "info"): 2}


def test_latin_1_labels(tmp_path: Path) -> None:
    tables = read_text(f'# scrape {T}\na{{city="Zürich"}} 1\n'.encode("latin-1"), tmp_path, IMPORTER)
    assert json.loads(tables["metrics"]["labels"][0]) == {"city": "Zürich"}
    assert counts_of(tables) == {("not_utf8_lines", "info"): 1}


def test_more_samples_than_are_held_at_once(tmp_path: Path) -> None:
    body = "".join(f'a{{i="{i}"}} {i}\n' for i in range(10_000))
    tables = read_text(f"# scrape {T}\n{body}a{{i=}} x\n", tmp_path, IMPORTER)
    assert tables["metrics"].sort("event_index")["value"].to_list() == list(map(float, range(10_000)))
    assert data_loss(tables) == {"damaged_rows": 1}


def test_damage(tmp_path: Path) -> None:
    path = DATA / "kv_leak.prom"
    check_encodings(path, tmp_path, IMPORTER)
    check_cuts(path, tmp_path, IMPORTER, "metrics", COLUMNS)
    # A flip in a scrape's line costs the times of that scrape, not its samples.
    check_flips(path, tmp_path, IMPORTER, "metrics", ("metric", "labels", "value"), rows_a_line=1)


def test_comments_alone(tmp_path: Path) -> None:
    assert read_text(f"# scrape {T}\n# HELP a b\n# TYPE a gauge\n", tmp_path, IMPORTER) == {}


def test_junk(tmp_path: Path) -> None:
    head = f"# scrape {T}\n# TYPE a gauge\na 1\n".encode()
    alphabet = b'ab_{}=,"\\# \t10.eE+-NaInf\xff\0'
    check_junk(head, tmp_path, IMPORTER, lambda chance: bytes(chance.choices(alphabet, k=chance.randrange(1, 40))))
