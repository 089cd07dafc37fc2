"""Access log importer: a log that nginx wrote, lines by hand, privacy, damage."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import polars as pl
import pytest

from ingest.access_log import IMPORTER
from ingest.request_log import IMPORTER as REQUEST_LOG
from tests.ingest.support import check_importer, counts_of, ingest_file, read_into
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, check_junk, data_loss, read_text, rows_of

DATA = Path(__file__).parents[1] / "data" / "server"
COLUMNS = ("request_id", "request_kind", "start_ns", "end_ns", "status", "attributes")
T = 1796036400 * 10**9  # 2026-11-30T11:00:00Z
LINE = '203.0.113.9 - - [30/Nov/2026:11:00:00 +0000] "GET /a HTTP/1.1" 200 12'


def one(tmp_path: Path, line: str) -> dict[str, object]:
    tables = read_text(line + "\n", tmp_path, IMPORTER)
    assert tables["requests"].height == 1
    row = tables["requests"].row(0, named=True)
    row["attributes"] = json.loads(row["attributes"] or "{}")
    return row


def test_timed_log_of_nginx(tmp_path: Path) -> None:
    """Against the same requests as nginx wrote them in JSON, in another log of the same run."""
    tables = check_importer(DATA / "nginx_timed.log", tmp_path, IMPORTER, golden=DATA / "nginx_timed.golden.txt")
    told = [json.loads(line) for line in (DATA / "nginx_json.log").read_text().splitlines()]
    rows = tables["requests"].sort("event_index").to_dicts()
    assert len(rows) == len(told) == 9
    for row, nginx in zip(rows, told, strict=True):
        assert (row["request_id"], row["status"]) == (nginx["request_id"], nginx["status"])
        assert row["end_ns"] - row["start_ns"] == round(float(nginx["request_time"]) * 1e9)
        attributes = json.loads(row["attributes"])
        assert attributes["response_bytes"] == int(nginx["body_bytes_sent"])
        assert (
            attributes.get("upstream_seconds", "") == (float(nginx["upstream_response_time"] or -1))
            or not nginx["upstream_response_time"]
        )
    # date -u -d '2026-11-30 17:53:42' +%s
    assert rows[0]["end_ns"] == 1796061222 * 10**9
    assert [row["status"] for row in rows] == ["200", "200", "499", "504", "204", "500", "200", "400", "499"]
    assert counts_of(tables) == {("requests_without_route", "info"): 1}


def test_the_same_requests_in_the_other_forms(tmp_path: Path) -> None:
    timed = ingest_file(DATA / "nginx_timed.log", tmp_path, IMPORTER)["requests"]
    bare = ingest_file(DATA / "nginx_bare.log", tmp_path, IMPORTER)["requests"]
    combined = ingest_file(DATA / "nginx_combined.log", tmp_path, IMPORTER)["requests"]
    as_json = ingest_file(DATA / "nginx_json.log", tmp_path, REQUEST_LOG)["requests"]
    same = ["request_kind", "start_ns", "end_ns", "status"]
    assert bare.select(same).equals(timed.select(same))
    assert as_json.select("request_id", *same).equals(timed.select("request_id", *same))
    assert combined.select("request_kind", "end_ns", "status").equals(timed.select("request_kind", "end_ns", "status"))
    assert combined["start_ns"].null_count() == 9


@pytest.mark.parametrize("name", ["nginx_timed.log", "nginx_bare.log", "nginx_combined.log", "nginx_json.log"])
def test_nothing_private_is_stored(name: str, tmp_path: Path) -> None:
    text = (DATA / name).read_text()
    private = ("203.0.113.9", "2001:db8::7", "alice", "SECRET", "bob@example.com", "api_key", "curl/7.88")
    assert sum(word in text for word in private) >= 6
    read_into(DATA / name, tmp_path / "parts")
    for part in (tmp_path / "parts").glob("*/*.parquet"):
        shown = str(pl.read_parquet(part).to_dicts())
        assert not [word for word in private if word in shown], part


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (LINE, {"request_kind": "GET /a", "end_ns": T, "start_ns": None, "attributes": {"response_bytes": 12}}),
        (LINE.replace(" 12", " -"), {"attributes": {}}),
        (LINE.replace("+0000", "-0530"), {"end_ns": T + (5 * 3600 + 1800) * 10**9}),
        (LINE.replace("203.0.113.9", "2001:db8::7"), {"request_kind": "GET /a"}),
        (LINE.replace("203.0.113.9 - -", "www.example.com:443 203.0.113.9 - bob smith"), {"request_kind": "GET /a"}),
        (LINE.replace("/a HTTP", "https://u:p@example.com/b?q=1 HTTP"), {"request_kind": "GET /b"}),
        (LINE.replace("GET /a HTTP/1.1", "-"), {"request_kind": None, "status": "200"}),
        (LINE.replace("200", "408").replace("GET /a HTTP/1.1", ""), {"request_kind": None, "status": "408"}),
        # Apache escapes quotes with a backslash
        (LINE + r' "-" "agent \"7\" [x]"', {"attributes": {"response_bytes": 12}}),
        # two upstreams were tried
        (
            LINE + ' "-" "x" 0.350 0.100, 0.250',
            {
                "start_ns": T - 350_000_000,
                "attributes": {"request_seconds": 0.35, "upstream_seconds": 0.35, "response_bytes": 12},
            },
        ),
        # ingress-nginx
        (
            LINE + ' "-" "x" 1190 0.350 [default-llm-8000] [] 10.0.0.5:8000, 10.0.0.6:8000 0, 12 0.100, 0.250 502, 200 '
            "2b8bd0c1f1d34a8c9a2e7d6a52f1e0aa",
            {
                "request_id": "2b8bd0c1f1d34a8c9a2e7d6a52f1e0aa",
                "start_ns": T - 350_000_000,
                "attributes": {
                    "request_seconds": 0.35, "upstream_seconds": 0.35, "request_bytes": 1190, "response_bytes": 12,
                    "upstream": "default-llm-8000", "upstream_status": "502, 200",
                },
            },
        ),
        # a whole number may be µs (Apache's %D), seconds (%T) or bytes: it is not guessed
        (LINE + ' "-" "x" 120345', {"start_ns": None, "attributes": {"response_bytes": 12}}),
        (LINE + ' "-" "x" 37 "router" "http://10.0.0.5" 25ms', {"start_ns": T - 25_000_000}),
        (LINE + ' "-" "x" request_time_ms=120 urt_us=90000', {
            "start_ns": T - 120_000_000,
            "attributes": {"request_seconds": 0.12, "upstream_seconds": 0.09, "response_bytes": 12},
        }),
        # Apache's time is the start, D=%D is in µs
        (LINE + ' "-" "x" D=250000', {"start_ns": T, "end_ns": T + 250_000_000}),
        (LINE + ' "-" "x" request_time=1.5 rid="r-1" gzip=3.20 user=bob', {
            "request_id": "r-1", "start_ns": T - 1_500_000_000,
            "attributes": {"request_seconds": 1.5, "gzip": 3.2, "response_bytes": 12},
        }),
    ],
)  # fmt: skip
def test_forms(line: str, expected: dict[str, object], tmp_path: Path) -> None:
    row = one(tmp_path, line)
    assert {key: row[key] for key in expected} == expected


def test_times_without_a_zone_are_local(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_text(LINE.replace(" +0000", "") + "\n")
    assert read_into(path, tmp_path / "parts", IMPORTER).clock == "unknown"


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_text((DATA / "nginx_timed.log").read_text() * 4)
    check_encodings(path, tmp_path, IMPORTER)
    check_cuts(path, tmp_path, IMPORTER, "requests", COLUMNS)
    check_flips(path, tmp_path, IMPORTER, "requests", COLUMNS, rows_a_line=1, seeds=range(12))
    alphabet = b'203. -[]/:"GET\\ \t=,+\xff\0'
    check_junk(
        (LINE + "\n").encode() * 3000, tmp_path, IMPORTER, lambda c: bytes(c.choices(alphabet, k=c.randrange(1, 80)))
    )


@pytest.mark.parametrize(
    "tail", [' "-" "x"' + " [" * 300_000, " " + '"\\' * 300_000, " a=" * 200_000, " 0.001," * 90_000]
)
def test_endless_fields_are_bounded(tail: str, tmp_path: Path) -> None:
    tables = read_text(f"{LINE}\n{LINE}{tail}\n{LINE}\n", tmp_path, IMPORTER)
    assert rows_of(tables, "requests", ("status",)).count(("200",)) >= 2
    assert tables["diagnostics"].height


def test_other_lines_are_counted(tmp_path: Path) -> None:
    text = f"{LINE}\n2026/11/30 11:00:00 [error] 7#7: *1 upstream timed out\n{re.sub('Nov', 'Nox', LINE)}\n{LINE}\n"
    tables = read_text(text, tmp_path, IMPORTER)
    assert tables["requests"].height == 2
    assert data_loss(tables) == {"damaged_rows": 2}


@pytest.mark.parametrize("filler", [" ", "\t", "a=", '"" ', "[] ", "1, "])
def test_fields_of_any_kind_take_no_time(filler: str, tmp_path: Path) -> None:
    line = LINE + " " + filler * (8000 // len(filler)) + "x\n"
    began = time.monotonic()
    tables = read_text(line * 150, tmp_path, IMPORTER)
    assert tables["requests"].height == 150
    assert time.monotonic() - began < 8
