"""Whatever the capture's size: top N, and a rest that still sums."""

from __future__ import annotations

from pathlib import Path

from reports.build import build_report
from reports.models.ledger import MAX_ROWS, read_ledgers
from reports.models.marks import MAX_MARKS
from reports.models.report import read_report
from reports.models.suspects import MAX_FRAMES, MAX_GROUPS, MAX_HOLDERS, MAX_SUSPECTS
from reports.models.timeline import SLICES
from reports.source import CaptureTables
from tests.reports.builders import SECOND, START, write_tables

EPOCHS = 1000


def large_capture(folder: Path) -> Path:
    """1,000 requests, each keeping its number in bytes, on 100 suspects; 60 groups let go; 50 processes."""
    suspects = [
        {
            "suspect_id": number,
            "suspect_rank": number + 1 if number < 100 else None,
            "level": "tensor",
            "verdict": "growing" if number < 100 else "bounded",
            "verdict_reason": "r",
            "retained_count": 10 + number,
            "retained_bytes": 1000 * number,
            "process_id": 1,
            "device_index": 0,
            "leak_path": "\n".join(f"f{i} (a.py:{i})" for i in range(500)),
        }
        for number in range(160)
    ]
    evidence = [
        {
            "suspect_id": number % 100,
            "allocation_id": number,
            "epoch_index": number,
            "request_id": str(number),
            "allocated_bytes": number,
        }
        for number in range(EPOCHS)
    ]
    spans = [
        {
            "process_id": 1,
            "request_id": str(number),
            "epoch_index": number,
            "start_ns": START + number * SECOND,
            "end_ns": START + (number + 1) * SECOND,
        }
        for number in range(EPOCHS)
    ]
    live = [
        {
            "process_id": 1,
            "device_index": 0,
            "level": "tensor",
            "ts_ns": START + number * SECOND // 100,
            "live_bytes": number,
        }
        for number in range(EPOCHS * 100)
    ]
    ledger = [
        {
            "ts_ns": START,
            "device_index": 0,
            "process_id": number,
            "ledger_part": "other_process",
            "part_bytes": 100 + number,
        }
        for number in range(50)
    ]
    return write_tables(
        folder,
        {
            "leak_suspects": suspects,
            "leak_evidence": evidence,
            "epochs": [span | {"epoch_kind": "request"} for span in spans],
            "request_spans": [
                {k: v for k, v in span.items() if k != "epoch_index"}
                | {"attributes": f'{{"id": {span["epoch_index"]}}}'}
                for span in spans
            ],
            "live_bytes": live,
            "memory_ledger": ledger,
            "findings": [
                {"finding_id": n, "finding_kind": "leak", "severity": "critical", "title": "t" * 5000}
                for n in range(500)
            ],
            "diagnostics": [
                {"stage": "ingest", "file_id": n, "name": "n", "severity": "info", "occurrence_count": 1}
                for n in range(500)
            ],
            "capture_files": [{"file_id": n, "path": "p" * 3000, "read_state": "read"} for n in range(500)],
        },
    )


def test_everything_is_bounded_and_still_sums(tmp_path: Path) -> None:
    with CaptureTables(large_capture(tmp_path)) as tables:
        report = read_report(tables)
        ledgers, _ = read_ledgers(tables)
    assert len(report.suspects) == MAX_SUSPECTS
    assert report.suspects_rest is not None
    assert report.suspects_rest.group_count == 100 - MAX_SUSPECTS
    assert (
        sum(s.retained_bytes for s in report.suspects) + report.suspects_rest.retained_bytes == sum(range(100)) * 1000
    )
    assert len(report.let_go) == MAX_GROUPS
    assert report.let_go_rest is not None
    assert sum(g.retained_count for g in report.let_go) + report.let_go_rest.retained_count == sum(range(110, 170))
    assert len(report.timelines[0].marks) <= MAX_MARKS
    assert sum(mark.kept_bytes for mark in report.timelines[0].marks) == sum(range(EPOCHS))
    (series,) = next(panel for panel in report.timelines[0].panels if panel.key == "live").series
    assert len(series.points) <= SLICES + 2
    assert series.points[-2] == (START + (EPOCHS * 100 - 1) * SECOND // 100, EPOCHS * 100 - 1)
    assert len(ledgers[0].rows) <= MAX_ROWS
    assert sum(row.last_bytes or 0 for row in ledgers[0].rows) == sum(range(100, 150))
    for suspect in report.suspects:
        assert len(suspect.frames) == MAX_FRAMES
        assert suspect.frames[-1].text == "f499 (a.py:499)"
    holders = report.suspects[0].holders  # suspect 0 has requests 0, 100, 200 … 900: ten, within the bound
    assert len(holders) == 10 <= MAX_HOLDERS
    assert sum(holder.bytes for holder in holders) == sum(range(0, 1000, 100))


def test_other_values_of_an_attribute_are_one_row_that_sums(tmp_path: Path) -> None:
    with CaptureTables(large_capture(tmp_path)) as tables:
        attributes = read_report(tables).suspects[0].attributes
    assert attributes is not None
    rows = [row for row in attributes.rows if row.attribute == "id"]
    assert rows[-1].value is None
    assert (sum(r.leaking_count for r in rows), sum(r.other_count for r in rows)) == (10, 990)


def test_the_page_stays_small(tmp_path: Path) -> None:
    assert build_report(large_capture(tmp_path)).html.stat().st_size < 1_000_000
