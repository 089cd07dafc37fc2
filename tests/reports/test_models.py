"""View models of the sample capture, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reports.models.allocator import PoolState, read_allocator
from reports.models.attributes import AttributeRow, read_attributes
from reports.models.causes import Cause
from reports.models.ledger import LedgerRow, read_ledgers
from reports.models.quality import Count, read_quality
from reports.models.report import Report, read_report
from reports.models.suspects import Holder, LetGo, PathFrame
from reports.source import CaptureTables
from tests.reports.builders import SECOND, START, write_tables
from tests.reports.sample import leaking_capture
from tests.reports.sample_judged import judged_tables

MB = 1_000_000


@pytest.fixture
def tables(leaking: Path) -> Iterator[CaptureTables]:
    with CaptureTables(leaking) as opened:
        yield opened


@pytest.fixture
def report(tables: CaptureTables) -> Report:
    return read_report(tables)


def test_verdict_says_what_by_whom_and_how_fast(report: Report) -> None:
    assert report.verdict.tone == "leak"
    assert report.verdict.headline == (
        "KV cache leak: 4 tensors, 4 MB kept by 2 of 6 requests, all with status=499; grows 2.4 GB/h."
    )
    assert report.verdict.detail == "Allocated in Store.remember (/srv/app/store.py:42), confidence 97 %."


def test_facts(report: Report) -> None:
    # 2 at the start, 6 requests with 2 each, 2 leaking requests with 2 more each
    assert report.facts == ("2023-11-14 22:13:20 UTC", "6 s", "2 files", "1 process", "6 requests", "18 allocations")


def test_suspect(report: Report) -> None:
    (suspect,) = report.suspects
    assert (suspect.suspect_rank, suspect.cause, suspect.noun, suspect.epoch_noun) == (
        1,
        "KV cache leak",
        "tensor",
        "request",
    )
    assert (suspect.retained_count, suspect.retained_bytes, suspect.requested_bytes) == (4, 4 * MB, 4 * MB - 400)
    assert suspect.place == "process 7, device 0"
    assert suspect.frames == (
        PathFrame("main (/srv/app/serve.py:10)", False),
        PathFrame("Store.remember (/srv/app/store.py:42)", False),
        PathFrame("empty (/x/site-packages/torch/functional.py:3)", True),
    )
    assert suspect.own_frame == "Store.remember (/srv/app/store.py:42)"
    assert suspect.holders == (Holder("request 1", 2, 2 * MB), Holder("request 4", 2, 2 * MB))
    assert report.suspects_rest is None


def test_causes_of_the_suspect_and_of_no_suspect(report: Report) -> None:
    (cause,) = report.suspects[0].causes
    assert cause == Cause(
        "KV cache leak",
        "process 7, device 0",
        0.9,
        4 * MB,
        ("2 equal tensors a request",),
        ("no cache class on the path",),
        "Drop the session when its request is cancelled.",
        "Record with frames of the cache class.",
    )
    assert [(other.label, other.place) for other in report.other_causes] == [
        ("Memory held by a CUDA context", "process 99, device 0")
    ]


def test_attributes_count_every_request_once(report: Report) -> None:
    attributes = report.suspects[0].attributes
    assert attributes is not None
    assert (attributes.leaking_total, attributes.other_total) == (2, 4)
    assert attributes.rows[:2] == (
        AttributeRow("status", "499", 2, 0, True),
        AttributeRow("status", "200", 0, 4, False),
    )
    assert set(attributes.rows[2:]) == {
        AttributeRow("model", "small", 2, 4, False),
        AttributeRow("prompt_tokens", "64–127", 2, 4, False),
        AttributeRow("output_tokens", "4–7", 2, 4, False),
        AttributeRow("tier", "free", 2, 4, False),
    }


def test_a_suspect_without_requests_has_no_attributes(tables: CaptureTables) -> None:
    assert read_attributes(tables, 1, 7, None) is None


def test_let_go(report: Report) -> None:
    assert report.let_go == (
        LetGo("one-time", "all of the first request", "tensor", "main (/srv/app/serve.py:10)", 1, 8 * MB),
    )


def test_timeline_keeps_highs_and_the_last_value(report: Report) -> None:
    (timeline,) = report.timelines
    assert (timeline.process_id, timeline.device_index) == (7, 0)
    assert (timeline.start_ns, timeline.end_ns) == (START, START + 6 * SECOND)
    kept, live, ledger = timeline.panels
    tenth = SECOND // 10
    assert kept.series[0].points == (
        (START, 0),
        (START + 18 * tenth, 2 * MB),
        (START + 48 * tenth, 4 * MB),
        (START + 6 * SECOND, 4 * MB),
    )
    assert [series.key for series in live.series] == ["tensor"]
    assert max(live.series[0].points, key=lambda point: point[1]) == (START + 52 * tenth, 38 * MB)
    assert live.series[0].points[-2:] == ((START + 57 * tenth, 32 * MB), (START + 6 * SECOND, 32 * MB))
    assert [series.key for series in ledger.series] == [
        "torch_allocated",
        "torch_cached",
        "context_and_modules",
        "other_process",
    ]
    assert sum(series.points[-1][1] for series in ledger.series) == 96 * MB


def test_marks_tell_the_keepers_apart(report: Report) -> None:
    timeline = report.timelines[0]
    assert [mark.kept_bytes for mark in timeline.marks] == [0, 2 * MB, 0, 0, 2 * MB, 0]
    assert timeline.marks[1].label == "request 1, status 499: keeps 2 MB"
    assert timeline.marks[0].label == "request 0, status 200: keeps nothing"
    assert timeline.marks_note == "6 requests"


def test_ledger_rows_sum_to_the_device(tables: CaptureTables) -> None:
    (ledger,), left_out = read_ledgers(tables)
    assert left_out == 0
    assert (ledger.capacity_bytes, ledger.used, ledger.peak_ns) == (1000 * MB, (96 * MB, 96 * MB), START + 6 * SECOND)
    assert LedgerRow("torch_allocated", "torch allocated", 7, 34 * MB, 34 * MB) in ledger.rows
    assert sum(row.last_bytes or 0 for row in ledger.rows) == 96 * MB


def test_allocator_state(tables: CaptureTables) -> None:
    state = read_allocator(tables)
    assert state is not None
    numbers = (1, 50 * MB, 32 * MB, MB, 17 * MB, 2, 12 * MB)
    assert state.total == PoolState("all pools", *numbers)
    assert state.pools == (PoolState("process 7, device 0, pool 0,0, large segments", *numbers),)
    assert state.total.scatter_ratio == pytest.approx(1 - 12 / 17)


def test_quality_shows_trouble_first(tables: CaptureTables) -> None:
    quality = read_quality(tables)
    assert [(file.path, file.read_state, file.message) for file in quality.files] == [
        ("bpftrace.txt", "partial", "cut in the middle of a line"),
        ("snapshot.pickle", "read", ""),
    ]
    assert quality.counts[0] == Count("data loss", "truncated line", "ingest", "bpftrace.txt", 1, "line 900")
    assert (quality.lost_count, quality.unread_count, quality.unaligned_count) == (1, 1, 0)
    missing = {table.name for table in quality.missing}
    assert "allocation_links" in missing
    assert not missing & judged_tables().keys()


def test_the_axis_follows_the_work_not_idle_samples(tmp_path: Path) -> None:
    """Counters sampled for an hour around ten seconds of work: the work and 15 % around it are shown."""
    live = {"process_id": 1, "device_index": 0, "level": "tensor"}
    sample = {"device_index": 0, "ledger_part": "device_used", "part_bytes": 5}
    part = {"device_index": 0, "ledger_part": "unattributed", "part_bytes": 5}
    rows = {
        "live_bytes": [live | {"ts_ns": START + n * SECOND, "live_bytes": n} for n in (0, 10)],
        "memory_ledger": [
            row | {"ts_ns": START + n * SECOND} for n in range(-1800, 1800, 60) for row in (sample, part)
        ],
    }
    with CaptureTables(write_tables(tmp_path, rows)) as tables:
        (timeline,) = read_report(tables).timelines
    assert (timeline.start_ns, timeline.end_ns) == (START - SECOND * 15 // 10, START + SECOND * 115 // 10)
    (series,) = timeline.panels[1].series  # what held before, the sample inside, and that one until the end
    assert series.points == ((START - 60 * SECOND, 5), (START, 5), (timeline.end_ns, 5))


def test_survivors_without_a_request_belong_to_that_of_their_epoch(tmp_path: Path) -> None:
    rows = leaking_capture()
    for row in rows["leak_evidence"]:
        row["request_id"] = None
    with CaptureTables(write_tables(tmp_path, rows)) as tables:
        (suspect,) = read_report(tables).suspects
    assert suspect.holders == (Holder("request 1", 2, 2 * MB), Holder("request 4", 2, 2 * MB))
    assert suspect.attributes is not None
    assert (suspect.attributes.leaking_total, suspect.attributes.other_total) == (2, 4)
