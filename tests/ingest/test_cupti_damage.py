"""Damaged, foreign and hostile CUPTI dumps: read what can be read, count the rest, never a traceback."""

from __future__ import annotations

import gzip
import io
import json
import re
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import cupti_lines
from ingest.cupti import IMPORTER
from ingest.cupti_lines import line_runs
from ingest.errors import UnsafeInput
from tests.ingest.support import counts_of, ingest_file, read_into
from tests.ingest.test_cupti import BUNDLED

LINES = gzip.decompress(BUNDLED[0].read_bytes()).splitlines(keepends=True)
HEADER = LINES[0]
CALL: dict[str, Any] = {
    "kind": "RUNTIME",
    "cbid": 20,
    "start": 1796036464083414771,
    "end": 1796036464083414999,
    "process_id": 12,
    "thread_id": 34,
    "correlation_id": 5,
    "return_value": 0,
    "name": "cudaMalloc_v3020",
}
OP: dict[str, Any] = {"kind": "MEMSET", "start": 5, "end": 9, "bytes": 64, "correlation_id": 6, "stream_id": 7}


def write(tmp_path: Path, *lines: bytes | dict[str, Any]) -> Path:
    path = tmp_path / "input.bin"
    path.write_bytes(b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines))
    return path


def ingest(tmp_path: Path, *lines: bytes | dict[str, Any]) -> dict[str, pl.DataFrame]:
    return ingest_file(write(tmp_path, *lines), tmp_path, IMPORTER)


def events(tables: dict[str, pl.DataFrame]) -> int:
    """Rows that stand for one record each, and ranges for two."""
    rows = sum(frame.height for frame in tables.values() if "event_index" in frame.columns)
    return rows + (tables["ranges"].height if "ranges" in tables else 0)


@pytest.mark.parametrize("tenth", range(1, 11))
def test_cut_anywhere(tenth: int, tmp_path: Path) -> None:
    data = b"".join(LINES)
    cut = len(data) * tenth // 10 - 7
    tables = ingest(tmp_path, data[:cut])
    whole = data[:cut].count(b"\n")
    kinds = [json.loads(line)["kind"] for line in LINES[:whole]]
    things = {"_HEADER", "DEVICE", "CONTEXT", "STREAM", "MARKER"}
    assert events(tables) - 2 * tables.get("ranges", pl.DataFrame()).height == sum(k not in things for k in kinds)
    assert counts_of(tables)[("truncated_last_line", "data_loss")] == 1
    assert f"line {whole + 1} " in tables["diagnostics"].filter(name="truncated_last_line")["detail"][0]


@pytest.mark.parametrize("position", range(300, 300_000, 24_000))
def test_a_flipped_byte_costs_one_line(position: int, tmp_path: Path) -> None:
    data = bytearray(b"".join(LINES))
    line = data[:position].count(b"\n")
    start = sum(map(len, LINES[:line]))
    data[start] ^= 0x80  # its opening brace: the line is not JSON any more
    before = ingest(tmp_path, b"".join(LINES))
    after = ingest(tmp_path, bytes(data))
    assert counts_of(after)[("damaged_lines", "data_loss")] == 1
    assert f"line {line + 1}" in after["diagnostics"].filter(pl.col("name") == "damaged_lines")["detail"][0]
    for table in set(before) - {"diagnostics"}:
        lost = before[table].height - (after[table].height if table in after else 0)
        assert 0 <= lost <= 1, table
        if lost == 0 and table != "ranges":
            assert after[table].equals(before[table]), table


def test_gz_cut_keeps_what_was_unpacked(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(LINES))
    tables = ingest(tmp_path, packed[: len(packed) // 2])
    assert counts_of(tables)[("truncated_stream", "data_loss")] == 1
    assert events(tables) > len(LINES) // 4


def test_gz_with_a_wrong_checksum_keeps_everything(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"".join(LINES)))
    packed[-6] ^= 0xFF
    tables = ingest(tmp_path, bytes(packed))
    assert counts_of(tables) == {("truncated_stream", "data_loss"): 1}
    assert events(tables) == events(ingest_file(BUNDLED[0], tmp_path, IMPORTER))


def test_bomb_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(HEADER + b" " * (80 << 20)))
    with pytest.raises(UnsafeInput):
        read_into(path, tmp_path / "parts", IMPORTER)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_other_encodings(encoding: str, tmp_path: Path) -> None:
    tables = ingest(tmp_path, b"".join(LINES).decode().encode(encoding))
    expected = ingest_file(BUNDLED[0], tmp_path, IMPORTER)
    assert counts_of(tables) == {("transcoded_file", "info"): 1}
    assert all(tables[name].equals(frame) for name, frame in expected.items())


def test_windows_line_ends(tmp_path: Path) -> None:
    tables = ingest(tmp_path, *(line.replace(b"\n", b"\r\n") for line in LINES))
    expected = ingest_file(BUNDLED[0], tmp_path, IMPORTER)
    assert all(tables[name].equals(frame) for name, frame in expected.items())
    assert counts_of(tables) == {}


def test_lines_between_records(tmp_path: Path) -> None:
    odd = (b"\n", b"   \n", b"cupti: cannot enable GRAPH_TRACE\n", b"\0\0\0\0\n", b'{"kind":"RUNTIME","start":\n')
    tables = ingest(tmp_path, HEADER, CALL, *odd, b'{"a":1}\n', b"[1,2]\n", b"null\n", CALL)
    assert tables["api_calls"]["event_index"].to_list() == [1, 10]
    assert counts_of(tables) == {
        ("blank_lines", "info"): 2,
        ("text_lines", "info"): 2,
        ("zeroed_lines", "data_loss"): 1,
        ("damaged_lines", "data_loss"): 2,
        ("records_without_kind", "info"): 1,
    }


def test_blank_lines_alone(tmp_path: Path) -> None:
    tables = ingest(tmp_path, HEADER, OP, b"\n", OP, b"\n")
    assert tables["gpu_ops"]["event_index"].to_list() == [1, 3]
    assert counts_of(tables) == {("blank_lines", "info"): 2}


def test_values_of_other_types(tmp_path: Path) -> None:
    odd = [
        CALL | {"end": 1 << 70},
        CALL | {"thread_id": "34"},
        CALL | {"correlation_id": 5.0, "return_value": True},
        CALL | {"process_id": [1]},
        CALL | {"start": float("nan")},
        CALL | {"name": {"a": 1}},
        CALL | {"name": "\ud800x"},
    ]
    tables = ingest(tmp_path, HEADER, *odd)
    rows = tables["api_calls"]
    assert rows["end_ns"].to_list() == [None, *[CALL["end"]] * 6]
    assert rows["thread_id"].to_list() == [34] * 7
    assert rows["correlation_id"].to_list() == [5] * 7
    assert rows["return_code"].to_list() == [0, 0, 1, 0, 0, 0, 0]
    assert rows["process_id"].to_list() == [12, 12, 12, json.loads(HEADER)["pid"], 12, 12, 12]
    assert rows["start_ns"].null_count() == 1
    assert rows["name"].to_list() == ["cudaMalloc"] * 5 + ['{"a": 1}', "?x"]
    assert counts_of(tables) == {("values_not_read", "data_loss"): 3}
    assert "RUNTIME.end" in tables["diagnostics"]["detail"][0]


def test_values_too_large_for_the_tables(tmp_path: Path) -> None:
    tables = ingest(tmp_path, HEADER, OP | {"bytes": (1 << 64) - 1})
    assert tables["gpu_ops"]["size_bytes"].to_list() == [None]
    assert counts_of(tables) == {("values_out_of_range", "data_loss"): 1}


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    line = json.dumps(CALL | {"name": "caf#"}).encode().replace(b"#", b"\xe9") + b"\n"
    tables = ingest(tmp_path, HEADER, line, CALL)
    assert tables["api_calls"]["name"].to_list() == ["caf�", "cudaMalloc"]
    assert counts_of(tables) == {("lines_not_utf8", "info"): 1}


@pytest.mark.parametrize("depth", [500, 200_000])
def test_deep_nesting(depth: int, tmp_path: Path) -> None:
    line = b'{"kind":"RUNTIME","x":' + b"[" * depth + b"]" * depth + b"}\n"
    tables = ingest(tmp_path, HEADER, line, CALL)
    assert 1 <= tables["api_calls"].height <= 2


def test_a_long_line_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti_lines, "RUN_BYTES", 4000)
    monkeypatch.setattr(cupti_lines, "MAX_LINE_BYTES", 20_000)
    long = json.dumps(CALL | {"name": "x" * 50_000}).encode() + b"\n"
    tables = ingest(tmp_path, HEADER, CALL, long, CALL, long)
    assert tables["api_calls"]["event_index"].to_list() == [1, 3]
    assert counts_of(tables) == {("lines_too_long", "data_loss"): 2}
    assert "line 3 " in tables["diagnostics"]["detail"][0]


def test_an_endless_line_takes_no_memory() -> None:
    class Endless(io.RawIOBase):
        left = 2048

        def read1(self, size: int) -> bytes:
            self.left -= 1
            return b"x" * (1 << 20) if self.left >= 0 else b"\n{}\n" if self.left == -1 else b""

    counted: list[str] = []
    tracemalloc.start()
    runs = list(line_runs(Endless(), lambda name, **_: counted.append(name)))  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [run.data for run in runs] == [b"{}\n"]
    assert runs[0].first_line == 1
    assert counted == ["lines_too_long"]
    assert peak < 64 << 20


@pytest.mark.parametrize("run_bytes", [1, 1000, 30_000])
def test_runs_do_not_change_the_result(run_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ingest_file(BUNDLED[1], tmp_path, IMPORTER)
    monkeypatch.setattr(cupti_lines, "RUN_BYTES", run_bytes)
    found = ingest_file(BUNDLED[1], tmp_path, IMPORTER)
    assert found.keys() == expected.keys()
    for name, frame in expected.items():
        if name == "ranges":  # come out when they close, whichever run that is in
            frame, found[name] = frame.sort("event_index"), found[name].sort("event_index")
        assert found[name].equals(frame), name


VALUES = (
    *("null", "-1", "true", "NaN", "1e999", "1.5", '"x"', '""', '"\\ud800"', "[]", "{}", '{"pt":[1]}'),
    *("4294967295", "9223372036854775808", "18446744073709551615", "99999999999999999999999"),
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_value_anywhere(data: st.DataObject) -> None:
    """Whatever stands for a value, the file is read and what is written keeps the contract."""
    lines = [line.decode() for line in LINES[::20]]
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(lines) - 1))
        values = list(re.finditer(r'":("[^"]*"|\d+|\{[^}]*\})(?=[,}])', lines[place]))
        if values:
            old = data.draw(st.sampled_from(values))
            new = data.draw(st.sampled_from(VALUES))
            lines[place] = lines[place][: old.start(1)] + new + lines[place][old.end(1) :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input.bin"
        path.write_text(HEADER.decode() + "".join(lines), encoding="utf-8")
        tables = ingest_file(path, Path(folder), IMPORTER)
    kept = sum(frame.height for name, frame in tables.items() if name in ("api_calls", "gpu_ops", "memory_events"))
    assert kept > len(lines) // 4
