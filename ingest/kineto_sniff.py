"""Whether bytes begin a trace of the Trace Event Format, and whether Kineto wrote it."""

from __future__ import annotations

import re

from ingest.kineto_names import KNOWN
from ingest.textlines import encoding_of

_OBJECT = re.compile(r'\{.*"(?:traceEvents|deviceProperties)"\s*:\s*\[', re.DOTALL)
_ARRAY = re.compile(r'\[\s*\{.*"ph"\s*:\s*"[A-Za-z(),]"', re.DOTALL)
_CATEGORY = re.compile(r'"cat"\s*:\s*"([^"\\]{1,40})"')
_KINETO_KEYS = re.compile(r'"(?:schemaVersion|deviceProperties|baseTimeNanoseconds|distributedInfo)"\s*:')


def _head_text(head: bytes) -> str:
    codec, skip = encoding_of(head)
    return head[skip:].decode(codec, "replace").lstrip(" \t\r\n\0\ufeff")


def is_trace(head: bytes) -> bool:
    """Whether the bytes begin a trace of the Trace Event Format, of whatever program."""
    if head.lstrip(b" \t\r\n\0\xef\xbb\xbf\xff\xfe")[:1] not in (b"{", b"["):
        return False
    text = _head_text(head)
    return (_OBJECT if text.startswith("{") else _ARRAY).match(text) is not None


def is_kineto(head: bytes) -> bool:
    """Whether a trace's first bytes hold keys or categories that only Kineto writes."""
    text = _head_text(head)
    before = text.split('"traceEvents"', 1)[0] if text.startswith("{") else ""
    return bool(_KINETO_KEYS.search(before)) or any(name in KNOWN for name in _CATEGORY.findall(text))
