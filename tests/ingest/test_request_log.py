"""Request log importer: rows against the json module, aliases and times by hand, damage."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ingest.request_log import IMPORTER
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file, read_into
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, data_loss, read_text, rows_of, write

DATA = Path(__file__).parents[1] / "data" / "request_log"
COLUMNS = (
    "request_id", "request_kind", "arrival_ns", "start_ns", "first_token_ns", "end_ns", "status", "model",
    "prompt_tokens", "output_tokens", "process_id", "attributes",
)  # fmt: skip
KEYS = {**dict(zip(COLUMNS, COLUMNS, strict=True)), "request_kind": "kind"}


def expected_rows(path: Path) -> list[tuple[object, ...]]:
    rows = []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        for name in ("request_id", "status"):
            record[name] = str(record[name])
        rows.append(tuple(record.get(KEYS[column]) for column in COLUMNS))
    return rows


def one(tmp_path: Path, record: dict[str, object] | str) -> dict[str, object]:
    text = record if isinstance(record, str) else json.dumps(record)
    tables = read_text(text + "\n", tmp_path, IMPORTER)
    assert tables["requests"].height == 1
    return tables["requests"].row(0, named=True)


@pytest.mark.parametrize("name", ["kv_leak.jsonl", "ddp2.jsonl"])
def test_real_file(name: str, tmp_path: Path) -> None:
    tables = check_importer(DATA / name, tmp_path, IMPORTER)
    assert rows_of(tables, "requests", COLUMNS) == expected_rows(DATA / name)
    assert counts_of(tables) == {}


def test_cancelled_requests_of_the_leak(tmp_path: Path) -> None:
    requests = ingest_file(DATA / "kv_leak.jsonl", tmp_path, IMPORTER)["requests"]
    cancelled = requests.filter(pl.col("status") == "499")["request_id"].to_list()
    assert cancelled == ["2", "5", "8", "11", "14", "17"]


@pytest.mark.skipif(not SHARED.exists(), reason="the full captures are not beside the checkout")
def test_every_capture(tmp_path: Path) -> None:
    paths = [p for p in sorted((SHARED / "captures").glob("**/requests.jsonl")) if p.stat().st_size]
    assert len(paths) >= 8
    for path in paths:
        tables = ingest_file(path, tmp_path, IMPORTER)
        assert rows_of(tables, "requests", COLUMNS) == expected_rows(path), path
        assert counts_of(tables) == {}, path


def test_damage(tmp_path: Path) -> None:
    path = DATA / "kv_leak.jsonl"
    check_encodings(path, tmp_path, IMPORTER)
    check_cuts(path, tmp_path, IMPORTER, "requests", COLUMNS)
    check_flips(path, tmp_path, IMPORTER, "requests", COLUMNS, rows_a_line=1)


@pytest.mark.parametrize(
    ("record", "start_ns", "end_ns"),
    [
        ({"start_s": 1796036318.5, "end_s": 1796036319}, 1796036318500000000, 1796036319000000000),
        ({"start_ms": 1796036318978, "end_ms": 1796036318978.25}, 1796036318978000000, 1796036318978250000),
        ({"start_us": 1796036318978910, "end_us": "1796036318978911"}, 1796036318978910000, 1796036318978911000),
        # 2026-11-30T11:00:00Z is 1796036400 s after 1970
        (
            {"start": "2026-11-30T11:00:00Z", "end": "2026-11-30T13:00:00.123456789+02:00"},
            1796036400000000000,
            1796036400123456789,
        ),
        (
            {"start_time": "2026-11-30 11:00:00", "end_time": "2026-11-30T11:00:00,5"},
            1796036400000000000,
            1796036400500000000,
        ),
        ({"started_at": 1796036400, "finished_at": 1796036400123}, 1796036400000000000, 1796036400123000000),
        ({"start": 1796036400123456, "end": 1796036400123456789}, 1796036400123456000, 1796036400123456789),
    ],
)
def test_times(record: dict[str, object], start_ns: int, end_ns: int, tmp_path: Path) -> None:
    row = one(tmp_path, {"request_id": "a", **record})
    assert (row["start_ns"], row["end_ns"]) == (start_ns, end_ns)


def test_aliases_and_attributes(tmp_path: Path) -> None:
    row = one(
        tmp_path,
        {
            "zone": "é", "id": 7, "start_s": 1796036400, "end_s": 1796036401, "status_code": 499, "prompt_len": 64,
            "completion_tokens": 5.0, "model_name": "tiny", "pid": 426, "type": "chat", "tags": {"b": 1, "a": [None]},
        },
    )  # fmt: skip
    assert row["request_id"] == "7"
    assert row["status"] == "499"
    assert (row["prompt_tokens"], row["output_tokens"], row["process_id"]) == (64, 5, 426)
    assert (row["model"], row["request_kind"]) == ("tiny", "chat")
    assert row["attributes"] == '{"tags":{"a":[null],"b":1},"zone":"é"}'


def test_an_alias_beside_the_key_itself_is_kept_as_attribute(tmp_path: Path) -> None:
    for keys in (("id", "request_id"), ("request_id", "id")):
        values = {"request_id": "r-1", "id": 99}
        row = one(tmp_path, {key: values[key] for key in keys} | {"start_ns": 1796036400 * 10**9, "status": 200})
        assert row["request_id"] == "r-1"
        assert row["attributes"] == '{"id":99}'


def test_each_kind_of_damage_has_its_count(tmp_path: Path) -> None:
    good = '{"request_id": 1, "start_ns": 1796036400000000000, "end_ns": 1796036400000000001, "status": 200}'
    lines = [
        good,
        good[:50],
        "[1, 2]",
        '{"level": "info", "message": "started"}',
        good.replace("1796036400000000001", "17960364000000000010000"),
        good.replace('"status": 200', '"prompt_tokens": -1'),
        good.replace('"status": 200', '"prompt_tokens": "many"'),
        good.replace('"status": 200', '"prompt_tokens": true'),
        good.replace("1796036400000000001", '"tomorrow"'),
        good.replace("1796036400000000001", "1796036399999999999"),
        good.replace('"status": 200', '"x": NaN, "y": "\\ud800", "z": 123456789012345678901234567890'),
        "[" * 100_000,
        '{"request_id": 1, "start_ns": ' + "9" * 5000 + "}",
    ]
    tables = read_text("\n".join(lines) + "\n", tmp_path, IMPORTER)
    assert tables["requests"].height == 8
    assert data_loss(tables) == {
        "damaged_rows": 3,
        "lines_without_request": 2,
        "numbers_beyond_64_bits": 1,
        "negative_values": 1,
        "damaged_values": 3,
        "ends_before_start": 1,
    }
    attributes = json.loads(tables["requests"]["attributes"].drop_nulls()[-1])
    assert attributes == {"x": None, "y": "?", "z": "123456789012345678901234567890"}


def test_long_attributes_are_cut_and_stay_json(tmp_path: Path) -> None:
    record = {"request_id": 1, "start_ns": 1796036400 * 10**9, "status": 200}
    record |= {"prompt": "x" * 100_000, **{f"k{i:04}": i for i in range(500)}}
    tables = read_text(json.dumps(record) + "\n", tmp_path, IMPORTER)
    attributes = json.loads(tables["requests"]["attributes"][0])
    assert len(attributes) == 256
    assert counts_of(tables)["attributes_left_out", "data_loss"] == 1
    row = one(tmp_path, {"request_id": 1, "start_ns": 1796036400 * 10**9, "status": 200, "note": "x" * 100_000})
    cut = json.loads(str(row["attributes"]))["note"]
    assert cut.startswith("x" * 2000)
    assert len(cut) < 2100


def test_deep_attributes_do_not_overflow(tmp_path: Path) -> None:
    for depth in (200, 255, 300, 900):
        text = '{"request_id": 1, "start_ns": 1796036400000000000, "status": 200, "deep": %s1%s}'
        row = one(tmp_path, text % ("[" * depth, "]" * depth))
        json.loads(str(row["attributes"]))


def test_a_log_that_begins_in_the_middle_of_a_line(tmp_path: Path) -> None:
    data = (DATA / "kv_leak.jsonl").read_text()[40:]
    tables = read_text(data, tmp_path, IMPORTER)
    assert tables["requests"].height == 17
    assert data_loss(tables) == {"damaged_rows": 1}


def test_times_of_another_clock_are_not_called_realtime(tmp_path: Path) -> None:
    path = write(tmp_path, '{"request_id": 1, "start_ns": 50286442016, "end_ns": 50286442017}\n')
    assert read_into(path, tmp_path / "parts", IMPORTER).clock == "unknown"
