"""The Pareto front over the captures of OUT: the view, and the table of the index page."""

from __future__ import annotations

from pathlib import Path

import duckdb

from pipeline.index import build_index
from tests.reports.builders import write_tables

# Scores of latency and throughput: b is beaten by a, twin is as good as a; d could not be judged.
SCORES = {"a": (0.8, 0.5), "twin": (0.8, 0.5), "b": (0.8, 0.4), "c": (0.1, 0.9), "d": (None, None), "e": (0.0, 0.1)}


def test_the_front_over_captures(tmp_path: Path) -> None:
    for name, (latency, throughput) in SCORES.items():
        row = {
            "latency_score": latency,
            "throughput_score": throughput,
            "requests_per_second": 2.0,
            "request_count": 30,
        }
        files = [{"file_id": 0, "path": "requests.jsonl"}]
        pareto = [row | {"configuration": "<b>&", "p99_ns": 10**9, "is_on_front": True}]
        write_tables(tmp_path / name, {"capture_files": files, "pareto": pareto})
    build_index(tmp_path)
    with duckdb.connect(str(tmp_path / "leakpath.duckdb"), read_only=True) as database:
        found = database.execute("SELECT capture, is_on_front FROM pareto_front ORDER BY capture").fetchall()
    assert found == [("a", True), ("b", False), ("c", True), ("e", False), ("twin", True)]
    page = (tmp_path / "index.html").read_text()
    assert page.count("on it") == 3 and page.count("beaten") == 2
    assert "<b>&" not in page and "&lt;b&gt;&amp;" in page


def test_one_capture_has_nothing_to_weigh(tmp_path: Path) -> None:
    files = [{"file_id": 0, "path": "requests.jsonl"}]
    write_tables(tmp_path / "one", {"capture_files": files})
    build_index(tmp_path)
    assert "Latency against throughput" not in (tmp_path / "index.html").read_text()
