"""`capture.yaml`: what no capture file can know about itself; the JSON Schema is derived from here."""

from __future__ import annotations

from functools import cache
from typing import Any

NAME = "capture.yaml"


_FILE: dict[str, Any] = {
    "rank": {
        "type": "integer",
        "minimum": 0,
        "maximum": 2**31 - 1,
        "description": "Rank of the process in its distributed job.",
    },
    "host": {"type": "string", "minLength": 1, "description": "Name of the machine."},
    "process_id": {
        "type": "integer",
        "minimum": 1,
        "maximum": 2**62,
        "description": "Process id, for files that name none.",
    },
    "clock": {
        "enum": ["realtime", "monotonic", "boottime", "monotonic_raw"],
        "description": "Clock the file was recorded on, for files that do not say.",
    },
    "clock_offset_ns": {
        "type": "integer",
        "minimum": -(2**62),
        "maximum": 2**62,
        "description": "Nanoseconds to add to the file's own timestamps to get UTC; used when nothing in the files ties the clocks.",
    },
    "ignore": {"type": "boolean", "description": "Leave the file out."},
}


@cache
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
            "note": {"type": "string", "description": "Anything a reader should know."},
            "files": {
                "type": "object",
                "description": "Notes on single files: path relative to the capture folder, or a pattern with * such as `rank1/*`.",
                "additionalProperties": {"type": "object", "additionalProperties": False, "properties": _FILE},
            },
        },
    }
