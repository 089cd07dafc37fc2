"""`findings.json` keeps to its published JSON Schema, and the schema is worth having."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reports.build import build_report
from schemas.findings import findings_schema
from schemas.tables import TABLES
from tests.reports.builders import write_tables
from tests.reports.sample import leaking_capture

Change = Callable[[dict[str, Any]], None]
PUBLISHED = Path(__file__).resolve().parents[2] / "schemas" / "findings.schema.json"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    capture = write_tables(tmp_path_factory.mktemp("findings") / "demo", leaking_capture())
    found: dict[str, Any] = json.loads(build_report(capture).findings.read_bytes())
    return found


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(PUBLISHED.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_a_report_writes_what_the_schema_says(
    written: dict[str, Any], validator: jsonschema.Draft202012Validator
) -> None:
    assert written["findings"]
    validator.validate(written)


def test_a_folder_without_findings_is_valid_too(tmp_path: Path, validator: jsonschema.Draft202012Validator) -> None:
    (tmp_path / "bare" / "tables").mkdir(parents=True)
    found = json.loads(build_report(tmp_path / "bare").findings.read_bytes())
    assert found["findings"] == []
    validator.validate(found)


def test_every_column_of_the_table_has_its_property() -> None:
    finding = findings_schema()["properties"]["findings"]["items"]
    assert tuple(finding["properties"]) == TABLES["findings"].columns
    assert finding["properties"]["confidence"] == {
        "type": ["number", "null"],
        "description": "Probability that the verdict holds, 0 to 1.",
        "minimum": 0,
        "maximum": 1,
    }


def _without_a_key(found: dict[str, Any]) -> None:
    del found["findings"][0]["title"]


def _set(key: str, value: object) -> Change:
    def change(found: dict[str, Any]) -> None:
        found["findings"][0][key] = value

    return change


def _tone(found: dict[str, Any]) -> None:
    found["verdict"]["tone"] = "green"


@pytest.mark.parametrize(
    "change",
    [
        _without_a_key,
        _tone,
        _set("severity", "data_loss"),
        _set("confidence", 1.2),
        _set("bytes", -1),
        _set("bytes", "12"),
        _set("finding_id", None),
        _set("evidence", [{"table": "leak_suspects"}]),
        _set("evidence", "leak_suspects"),
        _set("anything", 1),
    ],
    ids=["no title", "tone", "severity", "confidence", "negative", "text", "no number", "no where", "words", "more"],
)
def test_what_breaks_the_contract_is_refused(
    change: Change, written: dict[str, Any], validator: jsonschema.Draft202012Validator
) -> None:
    broken = copy.deepcopy(written)
    change(broken)
    assert not validator.is_valid(broken)
