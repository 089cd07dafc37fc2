"""Traces: what the OpenTelemetry SDK wrote against what was recorded, Jaeger and Tempo by hand, privacy, damage."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingest import otlp_spans
from ingest.errors import BadInput
from ingest.otlp import IMPORTER
from tests.ingest.support import check_importer, counts_of, ingest_file, read_into
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, data_loss, read_text, rows_of, write

DATA = Path(__file__).parents[1] / "data" / "server"
T = 1796036400 * 10**9
RANGES = ("range_kind", "name", "domain", "start_ns", "end_ns", "attributes")


def spans_in(path: Path) -> list[dict[str, Any]]:
    return [
        span
        for line in path.read_text().splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def test_lines_of_the_sdk(tmp_path: Path) -> None:
    path = DATA / "otlp.jsonl"
    tables = check_importer(path, tmp_path, IMPORTER, golden=DATA / "otlp.golden.txt")
    told = spans_in(path)
    rows = tables["ranges"].filter(pl.col("range_kind") == "span").sort("event_index").to_dicts()
    assert [(row["name"], row["start_ns"], row["end_ns"]) for row in rows] == [
        (span["name"], int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])) for span in told
    ]
    for row, span in zip(rows, told, strict=True):
        attributes = json.loads(row["attributes"])
        assert (attributes["trace_id"], attributes["span_id"]) == (span["traceId"], span["spanId"])
        assert attributes.get("parent_span_id") == span.get("parentSpanId")
        assert (row["domain"], row["process_id"]) == ("vllm", 4242)
    assert Counter(tables["ranges"]["range_kind"].to_list()) == {"span": 18, "mark": 6}


def test_requests_of_a_serving_process(tmp_path: Path) -> None:
    """As recorded: six requests 2 s apart, a 250 ms queue, first token at 500 ms; the third of three cancelled."""
    requests = ingest_file(DATA / "otlp.jsonl", tmp_path, IMPORTER)["requests"].sort("event_index").to_dicts()
    assert len(requests) == 6
    for i, row in enumerate(requests):
        arrival = T + i * 2 * 10**9 + 10**6
        assert (row["request_id"], row["model"], row["request_kind"]) == (f"cmpl-{i}", "tiny", "POST /v1/completions")
        assert (row["arrival_ns"], row["start_ns"]) == (arrival, arrival + 25 * 10**7)
        assert (row["first_token_ns"], row["end_ns"]) == (arrival + 5 * 10**8, T + i * 2 * 10**9 + 15 * 10**8)
        assert (row["prompt_tokens"], row["output_tokens"]) == (64 + i, i)
        assert row["status"] == ("499" if i % 3 == 2 else "200")


def test_base64_ids_and_enum_names_give_the_same(tmp_path: Path) -> None:
    """Protobuf's own JSON, in one pretty-printed object."""
    lines = ingest_file(DATA / "otlp.jsonl", tmp_path, IMPORTER)
    pretty = ingest_file(DATA / "otlp_protobuf.json", tmp_path, IMPORTER)
    assert rows_of(pretty, "ranges", RANGES) == rows_of(lines, "ranges", RANGES)
    assert pretty["requests"].equals(lines["requests"])


@pytest.mark.parametrize("name", ["otlp.jsonl", "otlp_protobuf.json"])
def test_nothing_private_is_stored(name: str, tmp_path: Path) -> None:
    assert all(word in (DATA / name).read_text() for word in ("SECRET", "203.0.113.9"))
    read_into(DATA / name, tmp_path / "parts")
    for part in (tmp_path / "parts").glob("*/*.parquet"):
        shown = str(pl.read_parquet(part).to_dicts())
        assert "SECRET" not in shown, part
        assert "203.0.113.9" not in shown, part


def span(name: str, number: int, parent: int = 0, **extra: Any) -> dict[str, Any]:
    found = {"traceId": "ab" * 16, "spanId": f"{number:016x}", "name": name, "kind": 2}
    found |= {"startTimeUnixNano": str(T), "endTimeUnixNano": str(T + 10**9)}
    return found | ({"parentSpanId": f"{parent:016x}"} if parent else {}) | extra


def attributes(**values: Any) -> list[dict[str, Any]]:
    kinds = {str: "stringValue", int: "intValue"}
    return [{"key": key.replace("__", "."), "value": {kinds[type(v)]: v}} for key, v in values.items()]


def request(*spans: dict[str, Any], resource: str = "web") -> dict[str, Any]:
    named = {"attributes": attributes(service__name=resource)}
    return {"resourceSpans": [{"resource": named, "scopeSpans": [{"spans": list(spans)}]}]}


def test_http_servers_without_inference_spans(tmp_path: Path) -> None:
    """The outermost server span of a trace is its request; a span inside another service's is not one more."""
    get = attributes(http__method="GET", http__target="/a?q=1", http__status_code=504)
    found = request(span("inner", 2, 1, attributes=get), span("GET", 1, attributes=get), span("work", 3, 1, kind=1))
    tables = read_text(json.dumps(found) + "\n", tmp_path, IMPORTER)
    assert tables["ranges"].height == 3
    row = tables["requests"].row(0, named=True)
    assert tables["requests"].height == 1
    assert (row["request_id"], row["request_kind"], row["status"]) == ("ab" * 16, "GET /a", "504")


def test_a_client_is_asked_only_where_no_server_answers(tmp_path: Path) -> None:
    usage = attributes(gen_ai__usage__input_tokens=5, gen_ai__operation__name="chat")
    tool = attributes(gen_ai__operation__name="execute_tool", gen_ai__request__model="m")
    client = span("chat m", 1, kind=3, attributes=usage, status={"code": 2})
    both = request(client, span("llm_request", 2, 1, attributes=usage), span("execute_tool", 3, 1, attributes=tool))
    alone = request({**client, "traceId": "cd" * 16})
    for found, expected in ((both, f"{2:016x}"), (alone, f"{1:016x}")):
        tables = read_text(json.dumps(found), tmp_path, IMPORTER)
        assert [json.loads(text)["span_id"] for text in tables["requests"]["attributes"]] == [expected]


def test_old_names_and_snake_case(tmp_path: Path) -> None:
    """Before 2022 scopes were instrumentation libraries; Tempo answers with batches; Python keeps the .proto names."""
    plain = span("s", 1)
    old = {"batches": [{"resource": {}, "instrumentationLibrarySpans": [{"spans": [plain]}]}]}
    snake = {
        "trace_id": base64.b64encode(bytes.fromhex("ab" * 16)).decode(), "span_id": "AAAAAAAAAAE=", "name": "s",
        "start_time_unix_nano": T, "end_time_unix_nano": T + 10**9, "kind": "SPAN_KIND_SERVER",
    }  # fmt: skip
    new = {"resource_spans": [{"resource": {}, "scope_spans": [{"scope": {"name": ""}, "spans": [snake]}]}]}
    expected = rows_of(read_text(json.dumps(request(plain, resource="")), tmp_path, IMPORTER), "ranges", RANGES)
    assert expected
    for found in (old, new):
        assert rows_of(read_text(json.dumps(found), tmp_path, IMPORTER), "ranges", RANGES) == expected


def test_requests_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more spans waiting than are held, the oldest trace is settled; nothing is lost, nor of one endless trace."""
    monkeypatch.setattr(otlp_spans, "MAX_PENDING_SPANS", 5)
    get = attributes(http__method="GET", http__target="/a")
    many = [span("GET", i + 1, attributes=get, traceId=f"{i:032x}") for i in range(1, 30)]
    endless = [span("GET", i + 1, attributes=get) for i in range(30)]
    tables = read_text(json.dumps(request(*many, *endless)), tmp_path, IMPORTER)
    assert tables["requests"].height == 59
    assert tables["requests"]["event_index"].to_list() == list(range(59))


def test_jaeger(tmp_path: Path) -> None:
    found = {
        "data": [
            {
                "traceID": "ab" * 16,
                "spans": [
                    {
                        "traceID": "ab" * 16, "spanID": "01" * 8, "operationName": "POST", "processID": "p1",
                        "references": [{"refType": "CHILD_OF", "traceID": "ab" * 16, "spanID": "02" * 8}],
                        "startTime": T // 1000, "duration": 1500,
                        "tags": [
                            {"key": "span.kind", "type": "string", "value": "server"},
                            {"key": "http.status_code", "type": "int64", "value": 499},
                            {"key": "http.url", "type": "string", "value": "http://u:p@h/v1?key=SECRET"},
                        ],
                        "logs": [{"timestamp": T // 1000 + 7, "fields": [{"key": "event", "value": "cancelled"}]}],
                    }
                ],
                "processes": {"p1": {"serviceName": "gateway", "tags": [{"key": "pid", "value": 7}]}},
            }
        ]
    }  # fmt: skip
    tables = read_text(json.dumps(found), tmp_path, IMPORTER)
    rows = tables["ranges"].sort("event_index").to_dicts()
    assert [(row["range_kind"], row["name"], row["domain"], row["process_id"]) for row in rows] == [
        ("span", "POST", "gateway", 7),
        ("mark", "cancelled", "gateway", 7),
    ]
    assert (rows[0]["start_ns"], rows[0]["end_ns"], rows[1]["start_ns"]) == (T, T + 1_500_000, T + 7000)
    assert json.loads(rows[0]["attributes"])["parent_span_id"] == "02" * 8
    assert tables["requests"]["status"].to_list() == ["499"]
    assert "SECRET" not in str(rows) + str(tables["requests"].to_dicts())
    assert "u:p@" not in str(rows)


@pytest.mark.parametrize("key", ["resourceMetrics", "resourceLogs"])
def test_other_signals_are_refused(key: str, tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps({key: [{"resource": {}}]}) + "\n")
    with pytest.raises(BadInput, match=f"{key}.*resourceSpans"):
        read_into(path, tmp_path / "parts", IMPORTER)


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps(request(span(f"s{i}", i + 1))) + "\n" for i in range(60)))
    check_encodings(path, tmp_path, IMPORTER)
    check_cuts(path, tmp_path, IMPORTER, "ranges", RANGES)
    check_flips(path, tmp_path, IMPORTER, "ranges", RANGES, rows_a_line=1, seeds=range(12))


def test_latin_1_costs_nothing(tmp_path: Path) -> None:
    tables = read_text(json.dumps(request(span("Zürich", 1)), ensure_ascii=False).encode("latin-1"), tmp_path, IMPORTER)
    assert tables["ranges"]["name"].to_list() == ["Zürich"]
    assert counts_of(tables) == {("not_utf8_lines", "info"): 1}


def test_hostile(tmp_path: Path) -> None:
    deep: Any = {"stringValue": "x"}
    for _ in range(60):
        deep = {"arrayValue": {"values": [deep]}}
    lines = [
        json.dumps(request(span("good", 1))),
        json.dumps(request(span("deep", 2, attributes=[{"key": "d", "value": deep}]))),
        json.dumps(request(span("late", 3, startTimeUnixNano=str(10**30)))),
        '{"resourceSpans": ' + "[" * 100_000,
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": ' + "[" * 100_000,
        json.dumps(request(span("last", 4, attributes=[None, 7, {"key": 1}, {"value": {}}], events=[3], status=4))),
        json.dumps({"resourceSpans": [{"resource": [], "scopeSpans": {"spans": [[], 1, {"name": 5, "kind": 99}]}}]}),
    ]
    tables = read_text("\n".join(lines) + "\n", tmp_path, IMPORTER)
    assert tables["ranges"].sort("event_index")["name"].to_list() == ["good", "deep", "late", "last", "5"]
    lost = data_loss(tables)
    assert lost["damaged_times"] == 1
    assert lost["spans_without_time"] == 2
    assert lost["cut_document"] == 2
    assert counts_of(tables)["nested_too_deep", "data_loss"] > 0


def test_a_process_id_of_true_is_none(tmp_path: Path) -> None:
    times = {"startTimeUnixNano": "1796036400000000000", "endTimeUnixNano": "1796036401000000000"}
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "a", "kind": True, **times}
    pids = ({"boolValue": True}, {"intValue": "7"})
    groups = [
        {"resource": {"attributes": [{"key": "process.pid", "value": pid}]}, "scopeSpans": [{"spans": [span]}]}
        for pid in pids
    ]
    (tmp_path / "x").write_text(json.dumps({"resourceSpans": groups}))
    assert ingest_file(tmp_path / "x", tmp_path, IMPORTER)["ranges"]["process_id"].to_list() == [None, 7]
