"""Token CSV importer: values against the csv module, damage, odd headers."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ingest.tokens_csv import IMPORTER
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file, read_into
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, data_loss, read_text, rows_of, write

DATA = Path(__file__).parents[1] / "data" / "tokens_csv"
COLUMNS = ("ts_ns", "request_id", "token_index", "rss_bytes", "device_allocated_bytes")
HEADER = "timestamp_ns,request_id,token_index,rss_bytes,cuda_allocated_bytes\n"


def expected_rows(path: Path) -> list[tuple[object, ...]]:
    with path.open(newline="") as stream:
        return [
            (int(r["timestamp_ns"]), r["request_id"], int(r["token_index"]), int(r["rss_bytes"]),
             int(r["cuda_allocated_bytes"]))
            for r in csv.DictReader(stream)
        ]  # fmt: skip


def test_real_file(tmp_path: Path) -> None:
    tables = check_importer(DATA / "kv_leak.csv", tmp_path, IMPORTER)
    assert rows_of(tables, "tokens", COLUMNS) == expected_rows(DATA / "kv_leak.csv")
    assert len(tables["tokens"]) == 40
    assert tables["tokens"]["source"].unique().to_list() == ["tokens"]
    assert counts_of(tables) == {}


@pytest.mark.skipif(not SHARED.exists(), reason="the full captures are not beside the checkout")
def test_every_capture(tmp_path: Path) -> None:
    paths = sorted((SHARED / "captures").glob("**/tokens.csv"))
    assert len(paths) >= 9
    for path in paths:
        tables = ingest_file(path, tmp_path, IMPORTER)
        assert rows_of(tables, "tokens", COLUMNS) == expected_rows(path), path
        assert counts_of(tables) == {}, path


def test_encodings(tmp_path: Path) -> None:
    check_encodings(DATA / "kv_leak.csv", tmp_path, IMPORTER)


def test_cut(tmp_path: Path) -> None:
    check_cuts(DATA / "kv_leak.csv", tmp_path, IMPORTER, "tokens", COLUMNS)


def test_flipped_bytes(tmp_path: Path) -> None:
    check_flips(DATA / "kv_leak.csv", tmp_path, IMPORTER, "tokens", COLUMNS, rows_a_line=1)


def test_each_kind_of_damage_has_its_count(tmp_path: Path) -> None:
    text = HEADER + (
        "1796036320159749573,a,0,10,20\n"
        "1796036320159749574,a,1,N/A,20\n"
        "1796036320159749575,a,2,-5,99999999999999999999\n"
        "yesterday,a,3,10,20\n"
        "1796036320159749577,a,4\n"
        "1796036320159749578,a,5,10,20,30\n"
        '1796036320159749579,"a,6,10,20\n'
        "1796036320159749580,caf\xe9,7,1e3,20.0\n"
        ",a,8,10,20\n"
        "1796036320159749582,,9,x,20\n"
    )
    tables = read_text(text.encode("latin-1"), tmp_path, IMPORTER)
    assert rows_of(tables, "tokens", COLUMNS) == [
        (1796036320159749573, "a", 0, 10, 20),
        (1796036320159749574, "a", 1, None, 20),
        (1796036320159749575, "a", 2, None, None),
        (1796036320159749580, "café", 7, 1000, 20),
        (1796036320159749582, None, 9, None, 20),
    ]
    assert counts_of(tables) == {
        ("missing_values", "info"): 1,
        ("negative_values", "data_loss"): 1,
        ("numbers_beyond_64_bits", "data_loss"): 1,
        ("damaged_rows", "data_loss"): 5,
        ("damaged_values", "data_loss"): 1,
        ("not_utf8_lines", "info"): 1,
    }
    details = dict(tables["diagnostics"].select("name", "detail").rows())
    assert "line 5" in details["damaged_rows"]
    assert "line 4" in details["negative_values"]


def test_columns_in_any_order_and_more_of_them(tmp_path: Path) -> None:
    text = "note;RSS_bytes;token_index;timestamp_ns;request_id\n" + "hi;5;1;1796036320159749573;7\n"
    tables = read_text(text, tmp_path, IMPORTER)
    assert rows_of(tables, "tokens", COLUMNS) == [(1796036320159749573, "7", 1, 5, None)]
    assert counts_of(tables) == {("unread_columns", "info"): 1}


def test_joined_files_with_a_second_header_in_another_order(tmp_path: Path) -> None:
    text = (
        HEADER
        + "1796036320159749573,a,0,10,20\n"
        + HEADER
        + "request_id,timestamp_ns,token_index,cuda_allocated_bytes,rss_bytes\nb,1796036320159749574,0,21,11\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    assert rows_of(tables, "tokens", COLUMNS) == [
        (1796036320159749573, "a", 0, 10, 20),
        (1796036320159749574, "b", 0, 11, 21),
    ]
    assert counts_of(tables) == {("repeated_headers", "info"): 2}


def test_a_column_named_twice_is_read_once(tmp_path: Path) -> None:
    text = HEADER.replace("cuda_allocated_bytes", "rss_bytes") + "1796036320159749573,a,0,10,20\n"
    tables = read_text(text, tmp_path, IMPORTER)
    assert rows_of(tables, "tokens", COLUMNS) == [(1796036320159749573, "a", 0, 10, None)]
    assert data_loss(tables)["duplicate_columns"] == 1


def test_last_line_without_line_end(tmp_path: Path) -> None:
    rows = "1796036320159749573,a,0,10,2000\n1796036320159749574,a,1,10,"
    whole = read_text(HEADER + rows + "3000", tmp_path, IMPORTER)
    assert [row[4] for row in rows_of(whole, "tokens", COLUMNS)] == [2000, 3000]
    cut = read_text(HEADER + rows + "300", tmp_path, IMPORTER)
    assert [row[4] for row in rows_of(cut, "tokens", COLUMNS)] == [2000]
    assert data_loss(cut) == {"cut_last_line": 1}


def test_header_alone(tmp_path: Path) -> None:
    assert read_text(HEADER, tmp_path, IMPORTER) == {}
    assert read_text(HEADER.strip(), tmp_path, IMPORTER) == {}


def test_times_of_another_clock_are_not_called_realtime(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + "50286442016,a,0,10,20\n")
    sink = read_into(path, tmp_path / "parts", IMPORTER)
    assert sink.clock == "unknown"
    assert ("times_not_realtime", "info") in sink.counts
