"""Every table of every recorded capture passes its own checks, and every finding leads to rows."""

from __future__ import annotations

import json
from collections.abc import Callable

import jsonschema
import pytest

from pipeline.database import open_capture
from reports.findings_file import write_findings
from reports.models.verdict import Verdict
from reports.source import CaptureTables
from schemas.findings import findings_schema
from tests.generate.judging import Verdicts, rows

Judged = Callable[[str], Verdicts]
CAPTURES = [
    *(
        "kv_leak",
        "kv_leak_kineto",
        "clean",
        "autograd",
        "external",
        "expandable",
        "frag",
        "kvblocks",
        "ddp2",
        "host_kmem",
    ),
    pytest.param("soak", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("name", CAPTURES)
def test_no_table_contradicts_itself_or_another(judged: Judged, name: str) -> None:
    found = rows(judged(name).out, "SELECT name, occurrence_count, detail FROM {diagnostics} WHERE stage = 'analyze'")
    assert found == []


@pytest.mark.parametrize("name", CAPTURES)
def test_every_finding_leads_to_rows(judged: Judged, name: str) -> None:
    found = judged(name)
    assert [row["finding_id"] for row in found.findings] == list(range(len(found.findings)))
    with open_capture(found.out, found.out / "duckdb") as database:
        for finding in found.findings:
            counts = []
            for part in json.loads(finding["evidence"]):
                [(count,)] = database.rows(f"SELECT count(*) FROM {part['table']} WHERE {part['where']}")
                counts.append(count)
            assert sum(counts) > 0, finding["title"]


@pytest.mark.parametrize("name", CAPTURES)
def test_the_findings_file_keeps_to_its_schema(judged: Judged, name: str) -> None:
    found = judged(name)
    with CaptureTables(found.out) as tables:
        written = json.loads(write_findings(tables, Verdict("unknown", "a headline", ""), "1"))
    assert [finding["title"] for finding in written["findings"]] == [row["title"] for row in found.findings]
    jsonschema.Draft202012Validator(findings_schema()).validate(written)
