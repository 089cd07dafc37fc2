"""JSON of any writer to plain values, and what is left of a record to the text of `attributes`.

What privacy.py names is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from ingest.callpaths import clean_text
from ingest.numbers import INT64_MAX
from ingest.privacy import is_private, kind_of, without_keys, without_query
from ingest.sink import Sink

MAX_ATTRIBUTES = 256
MAX_ATTRIBUTE_CHARACTERS = 2048
_MAX_DEPTH = 200


def parse_json(text: str | bytes) -> Any:
    """The value in JSON text. Raises ValueError, also for nesting too deep to hold."""
    try:
        return orjson.loads(text)
    except ValueError:
        # Python's own writer emits NaN, Infinity, numbers of any length and lone surrogates.
        try:
            return json.loads(text)
        except RecursionError as error:
            raise ValueError("nested too deep") from error


def _public(value: Any, sink: Sink, depth: int = 0) -> Any:
    """`value` without what is private, at any depth."""
    if isinstance(value, str):
        return without_keys(value)
    if isinstance(value, list):
        return value if depth > _MAX_DEPTH else [_public(item, sink, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if depth > _MAX_DEPTH:
        sink.count("deep_values_left_out", severity="data_loss", detail=f"nested deeper than {_MAX_DEPTH}")
        return {}
    kept = {}
    for key, item in value.items():
        kind = kind_of(key)
        if is_private(kind, item):
            sink.count("private_values_left_out", detail=f"first {key[:80]}")
        elif kind == "location" and isinstance(item, str):
            kept[key] = without_query(item)
        else:
            kept[key] = _public(item, sink, depth + 1)
    return kept


def attributes_text(rest: Mapping[str, Any], sink: Sink, place: str) -> str | None:
    """What is left of a record as a JSON object with sorted keys and bounded values; None when nothing is.

    `place` says where the record stands, for what is counted (`line 7`).
    """
    kept: dict[str, Any] = {}
    for key, value in sorted(_public(dict(rest), sink).items()):
        if len(kept) >= MAX_ATTRIBUTES:
            detail = f"beyond {MAX_ATTRIBUTES} a record, first at {place}"
            sink.count("attributes_left_out", severity="data_loss", detail=detail)
            break
        if isinstance(value, str | dict | list):
            text = value if isinstance(value, str) else _json_text(value)
            if len(text) > MAX_ATTRIBUTE_CHARACTERS:
                sink.count("long_attributes", detail=f"{key[:80]} cut, first at {place}")
                value = clean_text(text, MAX_ATTRIBUTE_CHARACTERS)
        kept[key[:MAX_ATTRIBUTE_CHARACTERS]] = value
    if not kept:
        return None
    try:
        return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        return _portable_json(kept)


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "nested too deep"


def _portable_json(attributes: dict[str, Any]) -> str:
    """JSON of values orjson refuses (lone surrogates, numbers beyond 64 bits, deep nesting): those as text."""
    portable: dict[str, Any] = {}
    for key, value in attributes.items():
        is_plain = (
            value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) <= INT64_MAX)
        )
        text = value if isinstance(value, str) else _json_text(value)
        portable[clean_text(key)] = value if is_plain else clean_text(text)
    return orjson.dumps(portable, option=orjson.OPT_SORT_KEYS).decode()
