"""Requests as CSV: the same as the JSON Lines log, other producers' columns, column maps, damage."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import jsonschema
import polars as pl
import pytest
from click.testing import CliRunner

from ingest.capture import capture_files, read_capture
from ingest.errors import BadInput
from ingest.request_columns import MAPPABLE, RequestColumns, check_columns
from ingest.request_csv import IMPORTER
from ingest.request_log import IMPORTER as REQUEST_LOG
from ingest.sink import Sink
from pipeline.cli import cli
from schemas.capture import REQUEST_COLUMNS, request_columns_schema
from tests.ingest.support import SHARED, counts_of, ingest_file, read_into, tables_of
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, data_loss, read_text, rows_of, write

LOG = Path(__file__).parents[1] / "data" / "request_log" / "kv_leak.jsonl"
COLUMNS = (
    "request_id", "request_kind", "arrival_ns", "start_ns", "first_token_ns", "end_ns", "status", "model",
    "prompt_tokens", "output_tokens", "attributes",
)  # fmt: skip
T = 1796036400 * 10**9  # 2026-11-30T11:00:00Z


def as_csv(path: Path, delimiter: str = ",") -> str:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def one(tmp_path: Path, text: str) -> dict[str, object]:
    tables = read_text(text, tmp_path, IMPORTER)
    assert tables["requests"].height == 1
    return tables["requests"].row(0, named=True)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_same_log_as_csv(delimiter: str, tmp_path: Path) -> None:
    tables = read_text(as_csv(LOG, delimiter), tmp_path, IMPORTER)
    expected = ingest_file(LOG, tmp_path, REQUEST_LOG)
    assert rows_of(tables, "requests", COLUMNS) == rows_of(expected, "requests", COLUMNS)
    assert counts_of(tables) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # a line's own time is the request's end
        (
            "Request ID,Timestamp,latency_s,ttft_s,p_tokens,status\nr,2026-11-30T11:00:00Z,1.5,0.25,3,200.0\n",
            {"request_id": "r", "start_ns": T - 15 * 10**8, "first_token_ns": T - 125 * 10**7, "status": "200"},
        ),
        ("id,arrival_ms,duration_ms\n7,1796036400000,250\n", {"arrival_ns": T, "end_ns": T + 25 * 10**7}),
        ("id,arrival_s,start_s,ttft_ms\n7,1796036400,1796036401,500\n", {"first_token_ns": T + 5 * 10**8}),
        # no tokens came: 0 is not a time to the first one
        ("id,end_ns,latency_s,ttft_s\n7,1796036400000000000,1,0\n", {"first_token_ns": None, "start_ns": T - 10**9}),
        ("id,end_ns,status,note\n7,1796036400000000000,,n/a\n", {"status": None, "attributes": None}),
        (
            'id,end_ns,status,x,y,z\n"a,b",1796036400000000000,499,1,2.5,"t ""q"""\n',
            {"request_id": "a,b", "attributes": '{"x":1,"y":2.5,"z":"t \\"q\\""}'},
        ),
        (
            "end_ns,id,status,client_ip,user_name,authorization,url\n"
            "1796036400000000000,1,200,203.0.113.9,bob,Bearer x,/a?k=1\n",
            {"attributes": '{"url":"/a"}'},
        ),
    ],
)  # fmt: skip
def test_columns(text: str, expected: dict[str, object], tmp_path: Path) -> None:
    row = one(tmp_path, text)
    assert {key: row[key] for key in expected} == expected


def test_times_without_a_zone_leave_the_clock_open(tmp_path: Path) -> None:
    path = write(tmp_path, "id,timestamp,status\n1,2026-11-30T11:00:00,200\n")
    sink = read_into(path, tmp_path / "parts", IMPORTER)
    assert sink.clock == "unknown"
    assert sink.counts["local_times", "info"][0] == 1


@pytest.mark.skipif(not SHARED.exists(), reason="the corpus is not beside the checkout")
def test_load_generators_of_the_corpus(tmp_path: Path) -> None:
    """Rows and sums against the csv module; a table without ids and times is refused by what it lacks."""
    folder = next((SHARED / "corpus" / "prom_vllm").glob("*/data"))
    for name in ("hw_dataset_newton.csv", "l4_test_run.csv"):
        rows = list(csv.DictReader((folder / name).open()))
        requests = ingest_file(folder / name, tmp_path)["requests"]
        assert requests["request_id"].to_list() == [row["request_id"] for row in rows]
        assert requests["prompt_tokens"].sum() == sum(int(row["p_tokens"]) for row in rows)
        assert requests["output_tokens"].sum() == sum(int(row["d_tokens"]) for row in rows)
        lengths = requests.select(pl.col("end_ns") - pl.col("start_ns")).to_series().to_list()
        assert lengths == [pytest.approx(float(row["latency_s"]) * 1e9, abs=1) for row in rows]
    with pytest.raises(BadInput, match=r"without an id or a time.*TTFT_s.*request_columns"):
        read_into(folder / "metrics_qwen3b.csv", tmp_path / "parts")


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(as_csv(LOG))
    check_encodings(path, tmp_path, IMPORTER)
    check_cuts(path, tmp_path, IMPORTER, "requests", COLUMNS)
    check_flips(path, tmp_path, IMPORTER, "requests", COLUMNS, rows_a_line=1, seeds=range(12))


def test_each_kind_of_damage_has_its_count(tmp_path: Path) -> None:
    rows = [
        "1,1796036400000000000,1,5", '2,"1796', "3,1796036400000000000,1", f"4,{10**30},1,5", "5,soon,1,5",
        "6,1796036400000000000,1e99999999,5", "7,1e99999999,1,5", "8,1796036400000000000,-1,5",
        f"9,1796036400000000000,1,{10**30}", "10,1796036400000000000,1,-5",
    ]  # fmt: skip
    tables = read_text("id,end_ns,latency_s,prompt_tokens\n" + "\n".join(rows) + "\n", tmp_path, IMPORTER)
    assert tables["requests"].height == 8
    assert data_loss(tables) == {
        "damaged_rows": 2,
        "numbers_beyond_64_bits": 4,
        "damaged_values": 1,
        "negative_values": 2,
    }


MAP = {"request_id": "ident", "arrival_ns": "t0_ms", "duration_ns": "took", "status": "code"}


def captured(tmp_path: Path, notes: str | None, mapped: dict[str, str] | None) -> list[dict[str, object]]:
    root = tmp_path / "capture"
    root.mkdir()
    (root / "a.bin").write_text("ident;t0_ms;took;code;id\nr1;1796036400000;0.25;200;9\n")
    (root / "b.bin").write_text('{"ident": "r2", "t0_ms": 1796036401000, "took": "0.5", "code": 499}\n')
    if notes:
        (root / "capture.yaml").write_text(notes)
    read_capture(capture_files(root), root, tmp_path / "parts", request_columns=mapped)
    return pl.read_parquet(tmp_path / "parts" / "requests" / "*.parquet").sort("file_id").to_dicts()


@pytest.mark.parametrize("where", ["settings", "capture.yaml", "file"])
def test_a_column_map(where: str, tmp_path: Path) -> None:
    """Of both kinds of log, from the settings or the capture's notes; its unit is the one the key's name tells."""
    inline = json.dumps(MAP)
    notes = {"capture.yaml": f"request_columns: {inline}\n", "file": f"files: {{'*': {{request_columns: {inline}}}}}\n"}
    rows = captured(tmp_path, notes.get(where), MAP if where == "settings" else None)
    found = [(row["request_id"], row["arrival_ns"], row["end_ns"], row["status"]) for row in rows]
    assert found == [("r1", T, T + 25 * 10**7, "200"), ("r2", T + 10**9, T + 15 * 10**8, "499")]
    # what the map takes over is no longer the column of its usual name
    assert json.loads(str(rows[0]["attributes"])) == {"id": 9, "took": 0.25}


def test_the_command_takes_the_map_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("ident;t0_ms;took;code\nr1;1796036400000;0.25;200\n")
    (tmp_path / "settings.yaml").write_text(json.dumps({"ingest": {"request_columns": MAP}}))
    options = ["--name", "log", "--out", str(tmp_path / "out"), "--config", str(tmp_path / "settings.yaml")]
    done = CliRunner().invoke(cli, ["ingest", str(tmp_path / "log.csv"), *options])
    assert done.exit_code == 0, done.output
    requests = pl.read_parquet(tmp_path / "out" / "log" / "tables" / "requests.parquet")
    assert requests.select("request_id", "arrival_ns", "end_ns", "status").rows() == [("r1", T, T + 25 * 10**7, "200")]


def test_a_map_can_say_the_unit(tmp_path: Path) -> None:
    """Envoy's durations are ms under a name that does not say so."""
    record = {"start_time": "2026-11-30T11:00:00Z", "duration": 250, "response_code": 200, "x_request_id": "r"}
    sink = Sink(tmp_path / "parts", 0, "request_log")
    sink.request_columns = {"duration_ms": "duration"}
    REQUEST_LOG.read(write(tmp_path, json.dumps(record) + "\n"), sink)
    sink.close()
    row = tables_of(tmp_path / "parts")["requests"].row(0, named=True)
    assert (row["request_id"], row["start_ns"], row["end_ns"], row["status"]) == ("r", T, T + 25 * 10**7, "200")
    jsonschema.validate(sink.request_columns, request_columns_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"duration_h": "duration"}, request_columns_schema())


def test_the_notes_win_over_the_settings(tmp_path: Path) -> None:
    rows = captured(tmp_path, f"request_columns: {json.dumps(MAP)}\n", {**MAP, "request_id": "code"})
    assert [row["request_id"] for row in rows] == ["r1", "r2"]


def test_a_map_of_one_key_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'code' twice"):
        captured(tmp_path, None, {**MAP, "model": "code"})
    with pytest.raises(BadInput, match="'duration_ns' twice"):
        check_columns({**MAP, "duration_ms": "lasted"}, "settings")


def test_a_map_claims_no_file_without_its_keys(tmp_path: Path) -> None:
    columns = RequestColumns(MAP)
    assert columns.importer_of(b"timestamp_ns,request_id,token_index,rss_bytes\n1,2,3,4\n") is None
    assert columns.importer_of(LOG.read_bytes()) is None
    assert columns.importer_of(b"") is None


def test_the_schema_lists_what_can_be_mapped() -> None:
    assert REQUEST_COLUMNS == MAPPABLE
