"""What a capture should not carry on: secrets, command lines, environments, people, their addresses and their texts.

Judged by the key, where that is not enough by the value. Keys: the semantic conventions of OpenTelemetry
(https://opentelemetry.io/docs/specs/semconv/registry/attributes/) and what logs call the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from ingest.sink import Sink

Kind = Literal["secret", "private", "token", "text", "environment", "location", ""]

_JUDGED_KEY = 200
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-.:/ ]")
_SECRET = re.compile(
    r"(^|_)(authorization|cookies?|password|passwd|passphrase|pwd|secrets?|credentials?|bearer|jwt|api_?key|dsn"
    r"|environment_variables?|environ|env_?vars?|argv|cmdline|command_?line)(_|$)"
    r"|(^|_)((access|private|ssh|signing|encryption|account|auth|security|shared|master)_?key|auth|auth_header|sasl|otp"
    r"|connection_string|signature|sig|cmd|command|command_args)$"
)
_PRIVATE = re.compile(
    r"(^|_)((remote|client|peer|real|source)_?(addr|address|ip|host)|clientip|ip|ip_address|mac|mac_address"
    r"|(x_)?forwarded(_for)?|(remote|auth|client)_user|(end_?)?user(_?name|_?id)?|e?mail|referr?er|query(_string)?|args"
    r"|baggage|statement|query_text)$"
    r"|user_agent|(client|peer|enduser)_(address|addr|ip|id|name|role|scope)|end_?user_?id"
    r"|^http_(request|response)_header_"
)
_TEXT = re.compile(
    r"(^|_)(prompts?|messages|completions?|headers|system_instructions|tool_definitions"
    r"|(prompt|input|output|generated|response|completion)_text)$"
    r"|(^|_)(gen_ai|llm)_(prompts?|completions?|(input|output)_messages?)(_|$)"
)
_ENVIRONMENT_PREFIX = re.compile(r"(^|\.)env(iron)?\.", re.IGNORECASE)
_LOCATION = re.compile(r"(^|_)(request|request_line|request_uri|uri|url|path|target|location|full)$")
_NUMBER = re.compile(r"[+-]?\d{0,40}\.?\d{1,40}", re.ASCII)
_QUERY = re.compile(r"[?#;]\S*")
_AUTHORITY = re.compile(r"(?<=://)[^/\s@]*@")
_KEYS_IN_TEXT = re.compile(
    r"\b[Bb]earer\s+[\w.~+/=-]{6,}|\b[sr]k-[\w-]{16,}|\bhf_[A-Za-z0-9]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}"
    r"|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bxox[abprs]-[\w-]{10,}|\bAKIA[0-9A-Z]{16}\b"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----.*"
    r"|(?<=://)[^/\s:@]{1,256}:[^/\s@]{1,256}@"
    r"|(?<![A-Za-z0-9])(?i:api[_-]?key|access[_-]?key|auth[_-]?token|token|password|passwd|secret)(?:=|\s?:\s?)[^\s&;,]{4,}",
    re.ASCII | re.DOTALL,
)
HIDDEN = "[left out]"


@lru_cache(maxsize=4096)
def _kind_of(written: str) -> Kind:
    key = _WORD_ENDS.sub("_", written).lower()
    if _SECRET.search(key) or _ENVIRONMENT_PREFIX.search(written):
        return "secret"
    if _PRIVATE.search(key):
        return "private"
    if _TEXT.search(key):
        return "text"
    if key.endswith("token"):
        return "token"
    if key.endswith(("env", "environment")):
        return "environment"
    return "location" if _LOCATION.search(key) else ""


def kind_of(key: str) -> Kind:
    """What the value below a key may be; of a very long key both ends are looked at."""
    return _kind_of(key if len(key) <= _JUDGED_KEY else f"{key[: _JUDGED_KEY // 2]}_{key[-_JUDGED_KEY // 2 :]}")


def is_private(kind: Kind, value: Any) -> bool:
    """Whether a value below a key of that kind is to be left out. Counts of tokens and lengths of prompts are not."""
    if kind in ("token", "text"):
        return not (
            value is None
            or isinstance(value, int | float)
            or (isinstance(value, str) and bool(_NUMBER.fullmatch(value)))
        )
    if kind == "environment":
        return isinstance(value, dict | list) or (isinstance(value, str) and "=" in value)
    return kind in ("secret", "private")


def without_query(text: str) -> str:
    """A request line or URL without query string, parameters, fragment and user."""
    return _AUTHORITY.sub("", _QUERY.sub("", text))


def without_keys(text: str) -> str:
    """Text in which what looks like a key, a token or a password is replaced by a mark."""
    return _KEYS_IN_TEXT.sub(HIDDEN, text)


def public_labels(labels: Mapping[str, str], sink: Sink) -> dict[str, str]:
    """Labels of a series without secrets and command lines; addresses and users name the series and stay."""
    kept = {}
    for name, text in labels.items():
        kind = kind_of(name)
        if kind == "secret" or (kind in ("token", "environment") and is_private(kind, text)):
            sink.count("private_values_left_out", detail=f"first {name[:80]}")
        else:
            kept[name] = text
    return kept
