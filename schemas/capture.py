"""`capture.yaml`: what no capture file can know about itself; the JSON Schema is derived from here."""

from __future__ import annotations

from functools import cache
from typing import Any

NAME = "capture.yaml"

REQUEST_COLUMNS = (
    "request_id", "status", "request_kind", "model", "prompt_tokens", "output_tokens", "process_id", "arrival_ns",
    "start_ns", "first_token_ns", "end_ns", "duration_ns", "first_token_after_ns",
)  # fmt: skip
"""What a column map of request logs may name: columns of `requests`, and two durations that give times."""
_KEY = {"type": "string", "minLength": 1, "maxLength": 120}


def request_columns_schema() -> dict[str, Any]:
    """JSON Schema of a column map: our column to the log's own key."""
    timed = [name.removesuffix("_ns") for name in REQUEST_COLUMNS if name.endswith("_ns")]
    return {
        "type": "object",
        "description": "Keys or CSV columns of request logs under other names, such as `{request_id: id, arrival_ns: ts}`: "
        + ", ".join(f"`{name}`" for name in REQUEST_COLUMNS)
        + ". A mapped time or duration is in the unit its own name ends in (`ts_ms`); else a time is in the unit its size"
        " tells, a duration in seconds. `_us`, `_ms` or `_s` in place of `_ns` says the unit: `{duration_ms: took}`.",
        "additionalProperties": False,
        "properties": dict.fromkeys(REQUEST_COLUMNS, _KEY),
        "patternProperties": {f"^({'|'.join(timed)})_(us|ms|s)$": _KEY},
    }


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
    "request_columns": request_columns_schema(),
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
            "request_columns": request_columns_schema(),
            "note": {"type": "string", "description": "Anything a reader should know."},
            "files": {
                "type": "object",
                "description": "Notes on single files: path relative to the capture folder, or a pattern with * such as `rank1/*`.",
                "additionalProperties": {"type": "object", "additionalProperties": False, "properties": _FILE},
            },
        },
    }
