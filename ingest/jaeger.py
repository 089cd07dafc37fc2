"""Traces of Jaeger's UI and API: objects with `spans` and the `processes` they name, times in µs.

https://www.jaegertracing.io/docs/latest/apis/
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from ingest.numbers import INT64_MAX, is_whole
from ingest.otlp_spans import Span, SpanWriter

_HEX = re.compile(r"[0-9a-fA-F]{16}(?:[0-9a-fA-F]{16})?")


def records(value: Any) -> list[dict[str, Any]]:
    """The objects in a JSON array, none for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def span_id_of(value: Any) -> str:
    """An id as lower-case hex, whatever it was written in; empty for none."""
    text = str(value or "")[:64].strip()
    if _HEX.fullmatch(text):
        found = text.lower()
    else:
        try:
            data = base64.b64decode(text, validate=True)
            found = data.hex() if len(data) in (8, 16) else text
        except (binascii.Error, ValueError):
            found = text
    return "" if not found.strip("0") else found


def jaeger_trace(trace: dict[str, Any], writer: SpanWriter) -> None:
    """Spans of one trace of Jaeger's UI, times in µs."""
    processes = trace.get("processes")
    processes = processes if isinstance(processes, dict) else {}

    def tags(found: Any) -> dict[str, Any]:
        return {str(tag["key"]): tag.get("value") for tag in records(found) if "key" in tag}

    def ns(value: Any) -> int | None:
        return value * 1000 if is_whole(value) and 0 <= value <= INT64_MAX // 1000 else None

    spans = trace.get("spans")
    writer.lost(len(spans) - len(records(spans)) if isinstance(spans, list) else 1)
    for record in records(spans):
        process = processes.get(str(record.get("processID")))
        process = process if isinstance(process, dict) else {}
        attributes, of_process = tags(record.get("tags")), tags(process.get("tags"))
        parents = [ref for ref in records(record.get("references")) if ref.get("refType") == "CHILD_OF"]
        start, length = ns(record.get("startTime")), ns(record.get("duration"))
        error = attributes.get("error") is True or attributes.get("otel.status_code") == "ERROR"
        pid = of_process.get("process.pid", of_process.get("pid"))
        events = []
        for log in records(record.get("logs")):
            fields = tags(log.get("fields"))
            events.append((ns(log.get("timestamp")), str(fields.pop("event", "event")), fields))
        writer.add(
            Span(
                span_id_of(record.get("traceID")), span_id_of(record.get("spanID")),
                span_id_of(parents[0].get("spanID") if parents else record.get("parentSpanID")),
                str(record.get("operationName") or ""), str(process.get("serviceName") or ""),
                str(attributes.pop("span.kind", "")).lower(), start,
                None if start is None or length is None else start + length, "error" if error else "", attributes,
                pid if is_whole(pid) and 0 <= pid <= INT64_MAX else None, events,
            )
        )  # fmt: skip
