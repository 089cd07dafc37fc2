"""Findings: what a person reads first, in words that fit, each with the rows it rests on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.database import Database
from pipeline.findings import build_findings
from pipeline.wording import bytes_text
from schemas.config import Config
from schemas.tables import TABLES
from tests.ledger.rows import Row, allocation
from tests.sql.support import run, tables

SECOND = 10**9


def suspect(**facts: Any) -> dict[str, Any]:
    """A row of `leak_suspects`: a KV cache leak of cancelled requests unless said otherwise."""
    row: dict[str, Any] = dict.fromkeys(TABLES["leak_suspects"].columns)
    return (
        row
        | {
            "suspect_id": 0,
            "level": "tensor",
            "verdict": "growing",
            "root_cause": "kv_cache",
            "confidence": 0.87,
            "retained_count": 72,
            "retained_bytes": 14_512_128,
            "retained_bytes_low": 14_512_128,
            "retained_bytes_high": 14_512_128,
            "growth_bytes_per_hour": 1.73e9,
            "epoch_kind": "request",
            "epochs_count": 18,
            "surviving_epochs_count": 6,
            "attribute": "status=499",
        }
        | facts
    )


def cause(**facts: Any) -> dict[str, Any]:
    """A row of `root_causes`."""
    row: dict[str, Any] = dict.fromkeys(TABLES["root_causes"].columns)
    return row | {"root_cause_id": 0, "suspect_id": 0, "root_cause": "kv_cache", "advice": "release it"} | facts


def _epochs(count: int, kind: str = "request") -> list[Row]:
    return [
        {"epoch_index": i, "epoch_kind": kind, "start_ns": i * SECOND, "end_ns": (i + 1) * SECOND, "request_id": f"{i}"}
        for i in range(count)
    ]


def _requests(count: int, first: int = 0) -> list[Row]:
    return [
        {"request_id": f"{i}", "start_ns": i * SECOND, "end_ns": (i + 1) * SECOND} for i in range(first, first + count)
    ]


def _allocations(start: int = 0, end: int = 18) -> list[Row]:
    return [allocation(i, "tensor", 512, i * SECOND + 1, i * SECOND + 2) for i in range(start, end)]


def _findings(
    database: Database, suspects: Sequence[dict[str, Any]] = (), causes: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    run(database, "leaks", "host_ends", "judged_moments", "judged_windows", "request_levels")
    return build_findings(database, suspects, causes, Config())


def _database(folder: Path, **rows: Iterable[Row]) -> Database:
    given: dict[str, Iterable[Row]] = {
        "allocations": _allocations(),
        "epochs": _epochs(18),
        "request_spans": _requests(18),
    }
    return tables(folder, **(given | rows))


def test_a_leak_comes_first_with_its_numbers_and_rows(tmp_path: Path) -> None:
    [first, *_] = _findings(_database(tmp_path), [suspect()], [cause()])
    assert (first["finding_id"], first["finding_kind"], first["severity"]) == (0, "leak", "critical")
    assert first["title"] == (
        "KV cache leak: 72 tensors, 14.5 MB kept by 6 of 18 requests, told apart by status=499; grows 1.73 GB/h"
    )
    assert (first["bytes"], first["confidence"], first["advice"]) == (14_512_128, 0.87, "release it")
    assert {part["table"] for part in json.loads(first["evidence"])} == {"leak_suspects", "leak_evidence"}


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"rank": 1}, "in rank 1"),
        (
            {"level": "driver", "root_cause": "outside_allocator"},
            "Leak outside the caching allocator: 72 driver allocations",
        ),
        ({"root_cause": "autograd_graph"}, "Autograd graph leak"),
        ({"root_cause": "unclassified"}, "Leak: 72 tensors"),
        ({"epoch_kind": "range family"}, "of 18 ranges"),
        ({"surviving_epochs_count": 0}, "kept over 18 requests"),
        ({"retained_count": 1}, "1 tensor,"),
    ],
    ids=str,
)
def test_words_fit_the_leak(facts: dict[str, Any], words: str, tmp_path: Path) -> None:
    assert words in _findings(_database(tmp_path), [suspect(**facts)], [cause()])[0]["title"]


def test_every_leak_is_a_finding_in_order(tmp_path: Path) -> None:
    rows = [suspect(suspect_id=0), suspect(suspect_id=1, rank=3), suspect(suspect_id=2, verdict="bounded")]
    found = [row for row in _findings(_database(tmp_path), rows) if row["severity"] == "critical"]
    assert ["suspect_id = 0" in row["evidence"] for row in found] == [True, False]
    assert "suspect_id = 1" in found[1]["evidence"]


def test_no_leak_says_over_what(tmp_path: Path) -> None:
    [first] = _findings(_database(tmp_path))
    assert (first["finding_kind"], first["title"]) == ("no_leak", "No leak found over 18 requests")


def test_no_leak_names_what_could_not_be_judged(tmp_path: Path) -> None:
    [first] = _findings(_database(tmp_path), [suspect(verdict="inconclusive", retained_bytes=2_000_000)])
    assert "1 group (2 MB) could not be judged" in first["title"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"allocations": []}, "no allocations were recorded"),
        ({"allocations": [allocation(1, "tensor", 512, None)]}, "_record_memory_history()"),
        ({"allocations": [allocation(1, "segment", 512, 5)]}, "_record_memory_history()"),
        ({"epochs": []}, "nothing repeats"),
        ({"epochs": _epochs(3)}, "only 3 requests were recorded, 4 are needed"),
        ({"epochs": _epochs(1, "step")}, "only 1 step was recorded, 4 are needed"),
    ],
    ids=["nothing", "state alone", "segments alone", "no epochs", "three", "one"],
)
def test_what_is_missing_is_named_not_called_no_leak(rows: dict[str, list[Row]], words: str, tmp_path: Path) -> None:
    [first] = _findings(_database(tmp_path, **rows))
    assert (first["finding_kind"], first["severity"]) == ("abstained", "info")
    assert words in first["abstained_reason"]
    assert first["advice"]


def _levels(step: int) -> list[Row]:
    return [
        {"request_id": f"{i}", "token_index": 0, "ts_ns": i * SECOND, "device_allocated_bytes": 10**8 + i * step}
        for i in range(18)
    ]


@pytest.mark.parametrize(
    ("tokens", "kind"),
    [([], "abstained"), (_levels(0), "no_leak"), (_levels(10**6), "abstained")],
    ids=["no series", "level", "rising"],
)
def test_requests_that_the_window_missed(tokens: list[Row], kind: str, tmp_path: Path) -> None:
    """The history holds the last request of 18; only a level series makes that enough."""
    window = _epochs(20, "time window")
    [first] = _findings(_database(tmp_path, allocations=_allocations(17, 18), epochs=window, tokens=tokens))
    assert first["finding_kind"] == kind
    if kind == "abstained":
        assert "holds 0 of 18 requests" in first["abstained_reason"]
        assert ("rose by" in first["abstained_reason"]) is bool(tokens)
    else:
        assert "does not rise over 18 requests" in first["title"]


def test_idle_contexts_losses_and_clocks(tmp_path: Path) -> None:
    database = _database(
        tmp_path,
        capture_files=[
            {"file_id": 0, "path": "snapshot.pickle", "read_state": "partial", "size_bytes": 1, "digest": "x"},
            {
                "file_id": 1,
                "path": "o'dd.csv",
                "read_state": "refused",
                "message": "the file is empty",
                "size_bytes": 0,
                "digest": "y",
            },
        ],
        diagnostics=[
            {
                "stage": "ingest",
                "name": "damaged_rows",
                "severity": "data_loss",
                "occurrence_count": 3,
                "detail": "at 7",
            },
            {"stage": "ingest", "name": "unknown_action", "severity": "info", "occurrence_count": 9},
        ],
        clock_alignments=[
            {"file_id": 0, "clock": "unknown", "method": "none", "clock_aligned": False, "is_disagreement": False}
            | {"anchor_count": 0, "outlier_count": 0, "drift_ratio": 0.0}
        ],
    )
    held = cause(suspect_id=None, root_cause="cuda_context", process_id=837, device_index=0, bytes=656_408_576)
    found = _findings(database, [suspect()], [cause(), held])
    titles = [row["title"] for row in found]
    assert titles[0].startswith("KV cache leak")
    assert any("Process 837 holds 656 MB of device 0" in title for title in titles)
    assert any(title == "snapshot.pickle: 3 × damaged rows (at 7)" for title in titles)
    assert any(title == "o'dd.csv was refused: the file is empty" for title in titles)
    assert any("could not be put on the capture's clock" in title for title in titles)
    assert not any("unknown action" in title for title in titles)
    order = {"critical": 0, "warning": 1, "info": 2}
    assert [order[row["severity"]] for row in found] == sorted(order[row["severity"]] for row in found)
    assert [row["finding_id"] for row in found] == list(range(len(found)))


def test_bounds_of_a_truncated_history_are_a_finding(tmp_path: Path) -> None:
    [_, loss] = _findings(_database(tmp_path), [suspect(retained_bytes_high=20_512_128)])
    assert (loss["finding_kind"], loss["bytes"]) == ("data_loss", 6_000_000)
    assert "max_entries" in loss["advice"]


def test_evidence_is_readable_sql(tmp_path: Path) -> None:
    database = _database(
        tmp_path,
        capture_files=[{"file_id": 1, "path": "a'b", "read_state": "refused", "size_bytes": 0, "digest": "y"}],
    )
    for finding in _findings(database, [suspect(retained_bytes_high=20_512_128)]):
        for part in json.loads(finding["evidence"]):
            database.rows(f"SELECT count(*) FROM {part['table']} WHERE {part['where']}")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (14_512_128, "14.5 MB"),
        (1.73e9, "1.73 GB"),
        (3.18e12, "3.18 TB"),
        (999_600, "1 MB"),
    ],
)
def test_bytes_as_people_write_them(value: float, text: str) -> None:
    assert bytes_text(value) == text
