"""Traces as OTLP/JSON and as Jaeger's JSON.

OTLP: one ExportTraceServiceRequest object, or one a line as the collector's file exporter writes them
(https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding, https://github.com/open-telemetry/opentelemetry-proto);
also `instrumentationLibrarySpans` of before 2022, `batches` as Tempo answers, ids in hex or base64, keys in snake case.
Jaeger: what its UI downloads (https://www.jaegertracing.io/docs/latest/apis/). Spans are read one at a time.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ingest.errors import BadInput
from ingest.jaeger import jaeger_trace, records, span_id_of
from ingest.json_pieces import JsonPieces, utf8_chunks
from ingest.json_values import parse_json
from ingest.numbers import INT64_MAX, is_whole
from ingest.opening import read_head
from ingest.otlp_spans import Span, SpanWriter
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.textlines import encoding_of

_MAX_DEPTH = 32
_OTLP = re.compile(
    r'[\s\0]*+\[?\s*+\{\s*(?:"trace"\s*:\s*\{\s*)?"(resource_?spans|batches|resource_?metrics|resource_?logs)"\s*:\s*\[',
    re.IGNORECASE,
)
_JAEGER = re.compile(r'\s*\{\s*"data"\s*:\s*\[\s*\{\s*"(traceID|spans|processes)"\s*:')
_SPANS = frozenset(("spans", "resource", "scope", "instrumentationLibrary", "instrumentation_library"))
_MARKS = frozenset(("resourceSpans", "resource_spans", "batches", "scopeSpans", "scope_spans",
                    "instrumentationLibrarySpans", "instrumentation_library_spans"))  # fmt: skip
_KINDS = ("", "internal", "server", "client", "producer", "consumer")


def _text(head: bytes) -> str:
    codec, skip = encoding_of(head)
    return head[skip:].decode(codec, "replace")


def sniff(head: bytes, path: Path) -> bool:
    """A JSON object whose first key is one of OTLP's, or Jaeger's `data` of traces."""
    text = _text(head)
    match = _OTLP.match(text)
    if match is not None:
        return match[1] != "batches" or '"scopeSpans"' in text or "instrumentationLibrary" in text
    return _JAEGER.match(text) is not None and '"traceID"' in text


def _get(record: dict[str, Any], name: str) -> Any:
    """A field by its JSON name, or by the name it has in the .proto file."""
    if name in record:
        return record[name]
    return record.get(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def _value(value: Any, depth: int = 0) -> Any:
    """The plain value in an AnyValue."""
    if not isinstance(value, dict) or not value or depth > _MAX_DEPTH:
        return None
    name, inner = next(iter(value.items()))
    kind = name.replace("_", "").lower()
    if kind == "intvalue":
        text = str(inner)[:40]
        return int(text) if re.fullmatch(r"-?\d{1,19}", text, re.ASCII) else text
    if kind == "arrayvalue":
        return [_value(item, depth + 1) for item in records(_get(inner, "values") if isinstance(inner, dict) else None)]
    if kind == "kvlistvalue":
        return _attributes(_get(inner, "values") if isinstance(inner, dict) else None, depth + 1)
    return inner if isinstance(inner, str | int | float | bool) else None


def _attributes(found: Any, depth: int = 0) -> dict[str, Any]:
    return {str(item["key"]): _value(item.get("value"), depth) for item in records(found) if "key" in item}


class _Otlp:
    """Spans of OTLP, each with the resource and scope that stand before it."""

    def __init__(self, sink: Sink, writer: SpanWriter) -> None:
        self._sink, self._writer = sink, writer
        self._resource: dict[str, Any] = {}
        self._scope = ""

    def begin(self, key: str) -> None:
        if key.replace("_", "").lower() in ("resourcespans", "batches"):
            self._resource = {}
        self._scope = ""

    def take(self, key: str, record: dict[str, Any]) -> None:
        if key == "resource":
            self._resource = _attributes(_get(record, "attributes"))
        elif key == "spans":
            self._span(record)
        else:
            self._scope = str(record.get("name") or "")

    def _time(self, record: dict[str, Any], name: str) -> int | None:
        """A time in ns; 0 means not set."""
        value = _get(record, name)
        if value in (None, 0, "0", ""):
            return None
        text = str(value)[:40]
        ns = int(text) if re.fullmatch(r"\d{1,20}", text, re.ASCII) else -1
        if not 0 <= ns <= INT64_MAX:
            self._sink.count("damaged_times", severity="data_loss", detail=f"{name}: {text!r}")
            return None
        return ns

    def _span(self, record: dict[str, Any]) -> None:
        kind = _get(record, "kind")
        if isinstance(kind, str):
            kind_name = kind.removeprefix("SPAN_KIND_").lower().replace("unspecified", "")
        else:
            kind_name = _KINDS[kind] if is_whole(kind) and 0 <= kind < len(_KINDS) else ""
        status = _get(record, "status")
        code = str(_get(status, "code") if isinstance(status, dict) else "").removeprefix("STATUS_CODE_").lower()
        attributes = _attributes(_get(record, "attributes"))
        if isinstance(status, dict) and isinstance(message := status.get("message"), str) and message:
            attributes["status.message"] = message
        if self._scope:
            attributes["otel.scope.name"] = self._scope
        if dropped := _get(record, "droppedAttributesCount"):
            detail = "attributes that the recorder itself left out"
            self._sink.count("dropped_by_recorder", int(dropped) if str(dropped)[:9].isdecimal() else 1, detail=detail)
        if _get(record, "links"):
            self._sink.count("links_left_out", detail="links between traces")
        pid = self._resource.get("process.pid")
        self._writer.add(
            Span(
                span_id_of(_get(record, "traceId")),
                span_id_of(_get(record, "spanId")),
                span_id_of(_get(record, "parentSpanId")),
                str(record.get("name") or ""),
                str(self._resource.get("service.name") or ""),
                kind_name,
                self._time(record, "startTimeUnixNano"),
                self._time(record, "endTimeUnixNano"),
                {"1": "ok", "2": "error"}.get(code, code if code in ("ok", "error") else ""),
                attributes,
                pid if is_whole(pid) and 0 <= pid <= INT64_MAX else None,
                [
                    (
                        self._time(event, "timeUnixNano"),
                        str(event.get("name") or "event"),
                        _attributes(event.get("attributes")),
                    )
                    for event in records(_get(record, "events"))
                ],
            )
        )


def read(path: Path, sink: Sink) -> None:
    """Read `ranges` and `requests`; damaged spans are counted. Raises BadInput for OTLP without traces."""
    head = _text(read_head(path))
    is_jaeger = _OTLP.match(head) is None
    writer = SpanWriter(sink)
    otlp = _Otlp(sink, writer)
    keys, marks = (frozenset(("data",)), frozenset[str]()) if is_jaeger else (_SPANS, _MARKS)
    for piece in JsonPieces(utf8_chunks(path, sink), sink, keys, marks):
        if not piece.text:
            otlp.begin(piece.key)
            continue
        try:
            record = parse_json(piece.text)
        except ValueError as error:
            sink.count("damaged_rows", severity="data_loss", detail=str(error)[:120])
            continue
        if is_jaeger:
            jaeger_trace(record, writer)
        else:
            otlp.take(piece.key, record)
    writer.close()
    if not writer.spans_count and (match := _OTLP.match(head)) and "spans" not in match[1].lower():
        todo = "supported are traces (resourceSpans)"
        raise BadInput(f"OTLP of another kind ({match[1]})", where=str(path), todo=todo)


IMPORTER = Importer(
    name="otlp",
    priority=52,
    title="OpenTelemetry traces (OTLP/JSON), Jaeger JSON",
    source="otlp",
    clock="realtime",
    versions="OTLP 0.7 to 1.x, one object or one a line; Tempo's batches; JSON of Jaeger's UI and API",
    produced_by="the OpenTelemetry collector's file exporter, Tempo, Jaeger",
    recipe="exporters: {file: {path: traces.jsonl}} in the collector; vllm serve --otlp-traces-endpoint http://…:4317",
    left_out="prompts and answers, headers, client addresses, query strings, links of traces; OTLP metrics and logs",
    reference="https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding",
    tables=("ranges", "requests"),
    sniff=sniff,
    read=read,
)
