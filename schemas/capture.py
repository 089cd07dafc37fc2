"""`capture.yaml`: what no capture file can know about itself; the JSON Schema is derived from here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

from schemas.documents import read_document

CAPTURE_YAML = "capture.yaml"


class FileNotes(TypedDict, total=False):
    """What a person knows of some of the capture's files."""

    rank: int
    host: str
    process_id: int
    clock: str
    clock_offset_ns: int


class CaptureNotes(TypedDict, total=False):
    """What a person knows of the whole capture."""

    rank: int
    host: str
    role: str
    model: str
    files: dict[str, FileNotes]


_FILE: dict[str, Any] = {
    "rank": {"type": "integer", "minimum": 0, "description": "Rank of the process in its distributed job."},
    "host": {"type": "string", "minLength": 1, "description": "Name of the machine."},
    "process_id": {"type": "integer", "minimum": 1, "description": "Process id, for files that name none."},
    "clock": {
        "enum": ["realtime", "monotonic", "boottime", "monotonic_raw"],
        "description": "Clock the file was recorded on, for files that do not say.",
    },
    "clock_offset_ns": {
        "type": "integer",
        "minimum": -(2**63),
        "maximum": 2**63 - 1,
        "description": "Nanoseconds to add to the file's own timestamps to get UTC; used when nothing in the files ties the clocks.",
    },
}


def capture_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `capture.yaml`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "leakpath capture.yaml",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "rank": _FILE["rank"],
            "host": _FILE["host"],
            "role": {"enum": ["baseline", "candidate"], "description": "Side of a comparison."},
            "model": {"type": "string", "minLength": 1, "description": "Model that was served or trained."},
            "files": {
                "type": "object",
                "description": "Notes on single files: path relative to the capture folder, or a pattern with * such as `rank1/*`.",
                "additionalProperties": {"type": "object", "additionalProperties": False, "properties": _FILE},
            },
        },
    }


def read_capture_notes(path: Path) -> CaptureNotes:
    """The notes at `path`. Raises BadInput naming the key and the reason when it is against the schema."""
    notes: CaptureNotes = read_document(path, capture_schema())  # type: ignore[assignment]
    return notes
