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
SLO_TARGETS = {
    "latency_p99_seconds": "Highest 99th percentile of end-to-end latency.",
    "short_latency_p95_seconds": "Highest 95th percentile of end-to-end latency of short requests.",
    "first_token_p95_seconds": "Highest 95th percentile of the time to the first token.",
    "max_error_ratio": "Highest share of requests that fail.",
    "max_truncation_ratio": "Highest share of requests whose answer is cut.",
    "requests_per_second": "Throughput that the Pareto front is normalised to.",
}
"""Targets that the settings and capture.yaml may give, with what they mean."""
MODEL_FACTS = {
    "num_layers": ("Layers that keep keys and values.", 1, 100_000),
    "num_kv_heads": ("Key and value heads a layer.", 1, 100_000),
    "head_dim": ("Size of a head.", 1, 100_000),
    "dtype_bytes": ("Bytes of one number in the KV cache (BF16: 2, FP8: 1).", 0.125, 64),
    "tensor_parallel_size": ("Processes that share the heads, 1 unless given.", 1, 100_000),
    "kv_bytes_per_token": (
        "Bytes a token's keys and values take, where heads do not tell (latent attention).",
        1,
        2**40,
    ),
}
"""What capture.yaml may say of a model: meaning, lowest and highest value."""
PERIOD_KINDS = ("degrade", "fault_injection", "configuration")
_TIME = {
    "type": ["integer", "string"],
    "description": "Unix time (its size tells the unit), or a date with a time of day (UTC unless a zone is written).",
    "minimum": 0,
    "maximum": 2**62,
    "maxLength": 40,
}
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
            "configuration": {**_KEY, "description": "Name of the configuration that was run, for the Pareto front."},
            "models": {
                "type": "object",
                "description": "Facts on models, by the name that requests ask for.",
                "maxProperties": 100,
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        name: {"type": "number", "minimum": lowest, "maximum": highest, "description": sentence}
                        for name, (sentence, lowest, highest) in MODEL_FACTS.items()
                    },
                },
            },
            "slo": {
                "type": "object",
                "description": "Targets of the capture's own, before those of the settings.",
                "additionalProperties": False,
                "properties": {
                    name: {"type": "number", "minimum": 0, "maximum": 1e9, "description": sentence}
                    for name, sentence in SLO_TARGETS.items()
                },
            },
            "periods": {
                "type": "array",
                "description": "Times when the service was degraded, faults were injected or another configuration ran;"
                " objectives are judged before, during and after.",
                "maxItems": 100,
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name", "start", "end"],
                    "properties": {
                        "name": _KEY,
                        "kind": {"enum": list(PERIOD_KINDS), "description": "What it was; `degrade` unless given."},
                        "start": _TIME,
                        "end": _TIME,
                    },
                },
            },
            "request_columns": request_columns_schema(),
            "note": {"type": "string", "description": "Anything a reader should know."},
            "files": {
                "type": "object",
                "description": "Notes on single files: path relative to the capture folder, or a pattern with * such as `rank1/*`.",
                "additionalProperties": {"type": "object", "additionalProperties": False, "properties": _FILE},
            },
        },
    }
