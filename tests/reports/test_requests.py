"""The section on requests and tokens: its data exactly, its bounds, and that nothing of it is markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reports.build import build_report
from reports.models.requests import MAX_ROWS, SLICES, Requests, read_requests
from reports.source import CaptureTables
from tests.reports.builders import SECOND, START, write_tables

MS = 1_000_000


def _served(**more: Any) -> dict[str, Any]:
    return {"source": "request_log", "metric": "requests", "measure": "latency", "start_ns": START, **more}


def _read(folder: Path, **tables: list[dict[str, Any]]) -> Requests:
    with CaptureTables(write_tables(folder, tables)) as opened:
        return read_requests(opened, [])


def test_groups_put_their_measures_side_by_side(tmp_path: Path) -> None:
    prom = {"source": "prometheus", "measured_count": 9, "p95_ns": 7 * MS}
    found = _read(
        tmp_path,
        request_latency=[
            _served(request_count=9, p50_ns=5 * MS, p95_ns=6 * MS, max_ns=8 * MS, error_ratio=0.5),
            _served(request_count=9, measure="queue", p95_ns=MS),
            _served(request_count=4, model="m", status="", p50_ns=4 * MS),
            _served(request_count=9, model="m", p50_ns=5 * MS),  # the model over all statuses: not shown again
            _served(**prom | {"metric": "vllm:e2e_request_latency_seconds", "request_count": 9}),
            _served(
                **prom | {"metric": "vllm:time_to_first_token_seconds", "measure": "first_token", "request_count": 8}
            ),
        ],
    )
    assert [
        (g.who, g.status, g.request_count, g.p95_ns, g.queue_p95_ns, g.first_token_p95_ns) for g in found.groups
    ] == [
        ("request log", "all", 9, 6 * MS, MS, None),
        ("request log, m", "none logged", 4, None, None, None),
        ("vllm histograms, between scrapes", "–", 9, 7 * MS, None, 7 * MS),
    ]
    assert (found.groups[0].error_ratio, found.groups[0].truncation_ratio) == (0.5, None)
    assert (found.chart, found.objectives, found.tokens) == (None, (), ())


def test_objectives_count_their_windows(tmp_path: Path) -> None:
    window = {
        "source": "request_log",
        "metric": "requests",
        "objective": "latency_p99",
        "target": 1.8,
        "unit": "seconds",
    }
    rows = [
        window | {"window_kind": "time", "start_ns": START + n, "value": n / 2, "slo_verdict": verdict}
        for n, verdict in enumerate(("met", "met", "missed", "abstained"))
    ]
    rows[-1]["abstained_reason"] = "too few"
    rows.append(
        window | {"window_kind": "during", "period": "drill", "start_ns": START, "value": 2.5, "slo_verdict": "missed"}
    )
    sliding, drill = _read(tmp_path, slo=rows).objectives
    assert (sliding.when, sliding.target, sliding.worst) == ("sliding windows", "1.8 s", "1.5 s")
    assert (sliding.met, sliding.missed, sliding.abstained, sliding.reason) == (2, 1, 1, "too few")
    assert (drill.when, drill.worst, drill.missed) == ("during drill", "2.5 s", 1)


def test_the_chart_counts_every_request_once(tmp_path: Path) -> None:
    rows = [
        {"request_id": str(n), "start_ns": START + n * SECOND, "latency_ns": (n % 7 + 1) * 10 * MS, "status": status}
        for n, status in enumerate(["200", "200", "499", "503", "404"] * 100)
    ]
    proxy = {
        "request_id": "access.log#1",
        "start_ns": START,
        "latency_ns": 900 * SECOND,
        "is_request_id_inferred": True,
    }
    chart = _read(tmp_path, request_spans=[*rows, proxy]).chart
    assert chart is not None
    assert chart.summary == "500 requests over 8.3 min; highest latency 70 ms; 200 failed or cut"
    assert len(chart.marks) == SLICES
    assert [label for _, label in chart.ticks] == ["10 ms", "100 ms"]
    assert all(24 <= mark.y_highest <= mark.y_median <= 150 for mark in chart.marks)


def test_everything_is_bounded_and_escaped(tmp_path: Path) -> None:
    evil = "</td><script>window.pwned = 1</script>" + "A" * 3_000
    capture = write_tables(
        tmp_path,
        {
            "request_latency": [_served(model=f"{evil}{n}", status=evil, request_count=n) for n in range(300)],
            "slo": [
                {"source": evil, "metric": evil, "objective": evil, "period": f"{n}{evil}", "target": 1.0,
                 "window_kind": "during", "slo_verdict": "abstained", "abstained_reason": evil}
                for n in range(300)
            ],
            "token_memory": [
                {"model": f"{evil}{n}", "memory_side": evil, "interval_trend": evil, "abstained_reason": evil}
                for n in range(300)
            ],
            "request_spans": [
                {"request_id": str(n), "start_ns": START + n, "latency_ns": n, "status": evil} for n in range(3000)
            ],
            "findings": [
                {"finding_id": 0, "finding_kind": "symptom", "severity": "warning", "title": evil, "advice": evil}
            ],
        },
    )  # fmt: skip
    with CaptureTables(capture) as tables:
        found = read_requests(tables, [])
    for shown, left in (
        (found.groups, found.groups_left_out),
        (found.objectives, found.objectives_left_out),
        (found.tokens, found.tokens_left_out),
    ):
        assert (len(shown), left) == (MAX_ROWS, 300 - MAX_ROWS)
    page = build_report(capture).html.read_text()
    assert "<script" not in page
    assert len(page) < 200_000
