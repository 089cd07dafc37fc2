"""The JSON Schema of `findings.json`, derived from the table that it holds."""

from __future__ import annotations

from functools import cache
from typing import Any

from schemas.fields import Field
from schemas.tables import TABLES

_TYPES = {"int64": "integer", "int32": "integer", "uint64": "integer", "float64": "number", "bool": "boolean"}
_SEVERITIES = ["critical", "warning", "info"]
_NAME = "^[a-z][a-z_]*$"
_TONES = ["leak", "warning", "clean", "unknown"]


def _object(properties: dict[str, Any], description: str) -> dict[str, Any]:
    """An object that has all of the properties and no other."""
    return {
        "type": "object",
        "description": description,
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


def _text(description: str, **facts: Any) -> dict[str, Any]:
    return {"type": "string", "description": description} | facts


def _evidence() -> dict[str, Any]:
    part = {
        "table": _text("Table of the capture.", pattern=_NAME),
        "where": _text("SQL condition of its rows, for `leakpath query`."),
    }
    return {"type": ["array", "null"], "items": _object(part, "Rows of one table that the finding rests on.")}


def _column(field: Field) -> dict[str, Any]:
    """A column of `findings` as a property; null where the contract allows it."""
    if field.name == "evidence":
        return {"description": "Rows that the finding rests on."} | _evidence()
    if field.name == "finding_kind":
        return _text("What kind of finding it is: see the column in docs/tables.md.", pattern=_NAME)
    if field.name == "severity":
        return _text("How much it matters.", enum=_SEVERITIES)
    kind = _TYPES.get(field.kind, "string")
    found: dict[str, Any] = {"type": [kind, "null"] if field.nullable else kind, "description": field.sentence}
    for name, end in zip(("minimum", "maximum"), field.range, strict=True):
        if end is not None:
            found[name] = end
    return found


@cache
def findings_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `OUT/<capture>/findings.json`."""
    count = {"type": "integer", "minimum": 0}
    table = {
        "path": _text("Its file, relative to this one."),
        "row_count": count | {"description": "Rows of the table."},
        "columns": {"type": "array", "items": {"type": "string"}, "description": "Columns by contract, in order."},
    }
    verdict = {
        "tone": _text("What it comes to.", enum=_TONES),
        "headline": _text("The verdict in a sentence."),
        "detail": _text("Where, and how sure; may be empty."),
    }
    finding = {field.name: _column(field) for field in TABLES["findings"].fields}
    properties = {
        "leakpath": _object({"version": _text("Version that wrote the file.")}, "Who wrote it."),
        "capture": _text("Name of the capture."),
        "verdict": _object(verdict, "The verdict on the capture."),
        "findings_count": count | {"description": "Findings of the table; the file holds the first 10,000."},
        "findings": {
            "type": "array",
            "description": "Findings in order, the first to read first.",
            "items": _object(finding, "One finding."),
        },
        "tables": {
            "type": "object",
            "description": "Tables that are there.",
            "propertyNames": {"pattern": _NAME},
            "additionalProperties": _object(table, "One table."),
        },
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "leakpath findings.json"}
    return head | _object(properties, "What was found in one capture, for scripts and CI jobs.")
