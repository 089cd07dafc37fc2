"""The verdict in one sentence when there is no growing group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reports.models.report import read_report
from reports.models.verdict import Verdict
from reports.source import CaptureTables
from tests.reports.builders import write_tables
from tests.reports.sample import leaking_capture

BOUNDED = {
    "suspect_id": 0,
    "level": "tensor",
    "verdict": "bounded",
    "verdict_reason": "only the last 4",
    "retained_count": 8,
    "retained_bytes": 800,
}
UNSURE = BOUNDED | {"suspect_id": 1, "verdict": "inconclusive", "verdict_reason": "only 2 epochs"}
NO_LEAK = {"finding_id": 0, "finding_kind": "no_leak", "severity": "info", "title": "No leak: 2 groups judged"}
CONTEXT = {
    "finding_id": 1,
    "finding_kind": "cuda_context",
    "severity": "warning",
    "title": "Process 9 idles",
    "advice": "End it.",
}
ABSTAINED = {
    "finding_id": 0,
    "finding_kind": "abstained",
    "severity": "info",
    "title": "No verdict",
    "abstained_reason": "no events",
}


def verdict_of(folder: Path, tables: dict[str, list[dict[str, Any]]]) -> Verdict:
    with CaptureTables(write_tables(folder, tables)) as opened:
        return read_report(opened).verdict


def test_nothing_analysed(tmp_path: Path) -> None:
    assert verdict_of(tmp_path, {}).tone == "unknown"
    assert "has not been analysed" in verdict_of(tmp_path, {}).headline


def test_all_let_go(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, {"leak_suspects": [BOUNDED]})
    assert (verdict.tone, verdict.headline) == ("clean", "No leak found.")
    assert verdict.detail == "1 group of survivors looked at and let go."


def test_inconclusive_groups_are_not_a_clean_bill(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, {"leak_suspects": [BOUNDED, UNSURE]})
    assert (verdict.tone, verdict.detail) == ("unknown", "Only 2 epochs")


def test_the_analysis_has_the_last_word_on_no_leak(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, {"leak_suspects": [BOUNDED, UNSURE], "findings": [NO_LEAK]})
    assert (verdict.tone, verdict.headline) == ("clean", "No leak: 2 groups judged")


def test_a_held_context_is_louder_than_no_leak(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, {"leak_suspects": [BOUNDED], "findings": [NO_LEAK, CONTEXT]})
    assert verdict == Verdict("warning", "Process 9 idles", "End it.")


def test_abstained(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, {"leak_suspects": [], "findings": [ABSTAINED]})
    assert (verdict.tone, verdict.detail) == ("unknown", "No events")


def test_the_attribute_is_claimed_only_as_far_as_it_holds(tmp_path: Path) -> None:
    tables = leaking_capture()
    for span in tables["request_spans"]:
        if span["request_id"] == "4":
            span["status"] = "200"
    assert "2 of 6 requests, 1 of them with status=499" in verdict_of(tmp_path, tables).headline


def test_an_unknown_cause_and_more_suspects(tmp_path: Path) -> None:
    tables = leaking_capture()
    second = tables["leak_suspects"][0] | {"suspect_id": 2, "suspect_rank": 2, "retained_bytes": 9_000_000}
    tables["leak_suspects"][0] |= {"root_cause": "tensor_parallel_buffers", "attribute": None}
    tables["leak_suspects"].append(second)
    verdict = verdict_of(tmp_path, tables)
    assert verdict.headline == "Tensor parallel buffers: 4 tensors, 4 MB kept by 2 of 6 requests; grows 2.4 GB/h."
    assert verdict.detail.endswith("1 more suspect below.")
