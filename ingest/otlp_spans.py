"""Spans of traces to `ranges`, and those that are requests to `requests`.

Attribute names are the semantic conventions' (https://opentelemetry.io/docs/specs/semconv/gen-ai/, /http/), their older
forms, and those that vLLM and OpenInference write. Of a trace, a request is each inference span of the server; without
one, each inference span of a client; without any, its outermost HTTP server spans. An HTTP server span of the same
trace lends its status.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from ingest.callpaths import clean_text
from ingest.json_values import attributes_text
from ingest.numbers import INT64_MAX, NumberReader
from ingest.request_fields import route_of
from ingest.rowbatch import RowBatch
from ingest.sink import Sink

MAX_PENDING_SPANS = 4_000
_RANGE = ("range_kind", "name", "domain", "start_ns", "end_ns", "process_id", "thread_id", "attributes")
_REQUEST = (
    "request_id", "request_kind", "arrival_ns", "start_ns", "first_token_ns", "end_ns", "status", "model",
    "prompt_tokens", "output_tokens", "process_id", "attributes",
)  # fmt: skip
_CONTENTS = re.compile(
    r"(gen_ai|llm)\.(prompts?|completions?|(input|output)[._]messages?|system_instructions|tool\.definitions)\b"
    r"|^(input|output)\.value$|^traceloop\.entity\.(in|out)put$|^http\.(request|response)\.header\.|^messaging\.message\.body"
)
_IDS = ("gen_ai.request.id", "llm.request.id", "request.id", "request_id", "http.request.header.x-request-id",
        "gen_ai.response.id", "llm.response.id")  # fmt: skip
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.response.model", "llm.request.model", "llm.model_name")
_PROMPT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens",
           "llm.token_count.prompt")  # fmt: skip
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens",
           "llm.token_count.completion")  # fmt: skip
_STATUS = ("http.response.status_code", "http.status_code")
_METHODS = ("http.request.method", "http.method")
_ROUTES = ("http.route", "url.path", "http.target", "url.full", "http.url")
_QUEUED = ("gen_ai.latency.time_in_queue",)
_FIRST_TOKEN = ("gen_ai.latency.time_to_first_token", "gen_ai.server.time_to_first_token")
_NO_INFERENCE = frozenset(("execute_tool", "invoke_agent", "create_agent", "invoke_workflow"))


@dataclass(slots=True)
class Span:
    """One span of any producer; `kind` is server, client, internal, producer, consumer or empty."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    kind: str
    start_ns: int | None
    end_ns: int | None
    status: str
    attributes: dict[str, Any]
    process_id: int | None = None
    events: list[tuple[int | None, str, dict[str, Any]]] = field(default_factory=list)


def _first(attributes: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((value for name in names if (value := attributes.get(name)) not in (None, "")), None)


def _count(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number <= INT64_MAX else None


def _after(ts_ns: int | None, seconds: Any) -> int | None:
    """`seconds` after `ts_ns`; None when either is not known."""
    if ts_ns is None or isinstance(seconds, bool) or not isinstance(seconds, int | float | str):
        return None
    try:
        length = float(seconds)
    except (ValueError, OverflowError):
        return None
    return ts_ns + round(length * 1e9) if math.isfinite(length) and 0 <= length < 1e9 else None


def _is_inference(span: Span) -> bool:
    operation = span.attributes.get("gen_ai.operation.name")
    if operation in _NO_INFERENCE or span.attributes.get("openinference.span.kind") not in (None, "LLM", "EMBEDDING"):
        return False
    if _first(span.attributes, (*_PROMPT, *_OUTPUT)) is not None:
        return True
    return _first(span.attributes, (*_MODELS, *_IDS[:2])) is not None and operation is not None


class SpanWriter:
    """Writes spans; requests of a trace when all spans are in, or when 4,000 spans of younger traces are waiting."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._numbers = NumberReader(sink)
        self._ranges = RowBatch(sink, "ranges", _RANGE)
        self._requests = RowBatch(sink, "requests", _REQUEST)
        self._traces: dict[str, list[Span]] = {}
        self._pending_count = 0
        self.spans_count = 0

    def add(self, span: Span) -> None:
        """Write a span and its events."""
        self.spans_count += 1
        for ns in (span.start_ns, span.end_ns):
            self._numbers.saw_time(ns)
        if span.start_ns is None:
            detail = f"first {clean_text(span.name, 80)}"
            self._sink.count("spans_without_time", severity="data_loss", detail=detail)
        elif span.end_ns is not None and span.end_ns < span.start_ns:
            detail = f"first {clean_text(span.name, 80)}"
            self._sink.count("ends_before_start", severity="data_loss", detail=detail)
        ids = {"trace_id": span.trace_id, "span_id": span.span_id}
        own = {**ids, "parent_span_id": span.parent_id, "span_kind": span.kind, "status": span.status}
        text = self._text(span, {key: value for key, value in own.items() if value})
        thread = _count(span.attributes.get("thread.id"))
        name, service = clean_text(span.name), clean_text(span.service)
        self._ranges.add("span", name, service, span.start_ns, span.end_ns, span.process_id, thread, text)
        for ts_ns, event, attributes in span.events:
            text = attributes_text({**self._plain(attributes), **ids}, self._sink, f"event {clean_text(event, 80)}")
            self._ranges.add("mark", clean_text(event), service, ts_ns, ts_ns, span.process_id, thread, text)
        if _is_inference(span) or span.kind == "server":
            span.events = []
            self._traces.setdefault(span.trace_id or span.span_id, []).append(span)
            self._pending_count += 1
            while self._pending_count > MAX_PENDING_SPANS:
                oldest = self._traces.pop(next(iter(self._traces)))
                self._pending_count -= len(oldest)
                self._settle(oldest)

    def lost(self, count: int) -> None:
        """Count values that stand where spans should."""
        self._sink.count("values_not_objects", count, severity="data_loss", detail="below spans")

    def _plain(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Attributes without what users wrote and models answered."""
        kept = {name: value for name, value in attributes.items() if not _CONTENTS.search(name)}
        if lost := len(attributes) - len(kept):
            self._sink.count("contents_left_out", lost, detail="prompts, answers and headers")
        return kept

    def _text(self, span: Span, own: dict[str, Any]) -> str | None:
        attributes = {**self._plain(span.attributes), **own}
        return attributes_text(attributes, self._sink, f"span {clean_text(span.name, 80)}")

    def _settle(self, spans: list[Span]) -> None:
        """Write the requests among one trace's spans."""
        inference = [span for span in spans if _is_inference(span)]
        of_server = [span for span in inference if span.kind != "client"]
        servers = [span for span in spans if span.kind == "server" and not _is_inference(span)]
        ids = {span.span_id for span in servers}
        outermost = [span for span in servers if span.parent_id not in ids]
        if not inference:
            outermost = [span for span in outermost if _first(span.attributes, (*_STATUS, *_METHODS)) is not None]
        lender = outermost[0] if len(outermost) == 1 else None
        chosen = of_server or inference or outermost
        for span in chosen:
            self._request(span, lender, is_alone=len(chosen) == 1)

    def _request(self, span: Span, lender: Span | None, *, is_alone: bool) -> None:
        asked = {**(lender.attributes if lender else {}), **span.attributes}
        status = _first(span.attributes, _STATUS)
        if status is None and lender is not None and is_alone:
            status = _first(lender.attributes, _STATUS)
        method, route = _first(asked, _METHODS), _first(asked, _ROUTES)
        kind = route_of(f"{method} {route}") if method and route else None
        started = _after(span.start_ns, _first(span.attributes, _QUEUED))
        own_id = _first(asked, _IDS) or (span.trace_id if is_alone and span.trace_id else span.span_id)
        model = _first(asked, _MODELS)
        ids = {"trace_id": span.trace_id, "span_id": span.span_id, "service": span.service}
        self._requests.add(
            clean_text(str(own_id)[:400]) or None,
            kind or clean_text(str(span.attributes.get("gen_ai.operation.name") or span.name)),
            span.start_ns if started is not None else None,
            started if started is not None else span.start_ns,
            _after(span.start_ns, _first(span.attributes, _FIRST_TOKEN)),
            span.end_ns,
            clean_text(str(status)[:40]) if status is not None else span.status or None,
            None if model is None else clean_text(str(model)[:400]),
            _count(_first(asked, _PROMPT)),
            _count(_first(asked, _OUTPUT)),
            span.process_id,
            self._text(span, {key: value for key, value in ids.items() if value}),
        )

    def close(self) -> None:
        """Write what is held."""
        for spans in self._traces.values():
            self._settle(spans)
        self._traces.clear()
        self._ranges.flush()
        self._requests.flush()
        self._numbers.settle_clock()
