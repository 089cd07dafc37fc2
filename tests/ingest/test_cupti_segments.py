"""Files of `leakpath collect cupti`, put together here by hand as ingest/collect/FORMAT.md says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from ingest import cupti_segments
from ingest.cupti import IMPORTER
from ingest.errors import UnsupportedVersion
from tests.ingest.collect.harness import collect
from tests.ingest.support import check_importer, counts_of, ingest_file, read_into
from tests.ingest.test_cupti import BUNDLED, by_kind, records_of

NARROW = {"correlation_id": pa.uint32(), "stream_id": pa.uint32(), "context_id": pa.uint32(), "device_id": pa.uint32()}
TIMES = {"start", "end", "timestamp", "completed", "queued", "submitted"}


def segment(kind: str, rows: list[dict[str, Any]], *, version: str = "1", compression: str | None = "zstd") -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row if name != "kind"))
    arrays = {"kind": pa.array([kind] * len(rows)).dictionary_encode()}
    for name in names:
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str) for value in values):
            arrays[name] = pa.array([value or None for value in values], pa.string())
            if not kind.startswith("_"):
                arrays[name] = arrays[name].dictionary_encode()
        else:
            arrays[name] = pa.array(values, NARROW.get(name, pa.int64() if name in TIMES else pa.uint64()))
    table = pa.table(arrays).replace_schema_metadata({"format": "leakpath-cupti", "version": version, "kind": kind})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def note(kind: str, **content: Any) -> bytes:
    return segment(kind, [{"json": json.dumps(content)}], compression="zstd")


def flat(record: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in record.items() if not isinstance(value, dict)}
    for outer in ("object_id", "memory_pool_config"):
        plain |= {
            f"{outer}_{name}": value for name, value in record.get(outer, {}).items() if name not in ("ptr", "pad2")
        }
    return plain


def parts_of(path: Path) -> list[bytes]:
    """The records of an NDJSON dump as segments, each kind cut into two, between a header and a footer."""
    records = records_of(path)
    head = records.pop(0)
    about = {"clock": head["clock"], "pid": head["pid"], "hostname": "box"}
    parts = [note("_HEADER", clock_name="realtime", **about)]
    for kind, indexed in by_kind(records).items():
        rows = [flat(record) for _, record in indexed]
        parts += [segment(kind, half) for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]) if half]
    later = {name: value + 10**9 for name, value in head["clock"].items()}
    return [*parts, note("_FOOTER", clock=later, dropped_records=0, skipped_records={"7": 2})]


@pytest.fixture(scope="module")
def parts() -> list[bytes]:
    return parts_of(BUNDLED[0])


def write(tmp_path: Path, *parts: bytes) -> Path:
    path = tmp_path / "cupti.arrow"
    path.write_bytes(b"".join(parts))
    return path


def rows_of(tables: dict[str, pl.DataFrame]) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of all tables without their place in the file."""
    names = set(tables) - {"diagnostics", "clock_pairs"}
    return {
        name: sorted(tables[name].select(pl.exclude("event_index", "file_id", "host")).rows(), key=str)
        for name in names
    }


def test_same_tables_as_the_same_records_in_ndjson(parts: list[bytes], tmp_path: Path) -> None:
    tables = check_importer(write(tmp_path, *parts), tmp_path, IMPORTER)
    assert rows_of(tables) == rows_of(ingest_file(BUNDLED[0], tmp_path, IMPORTER))
    assert counts_of(tables) == {("cupti_skipped_records", "data_loss"): 2}
    assert tables["clock_pairs"]["clock_position"].to_list() == ["start", "end"]


def test_what_the_header_says(parts: list[bytes], tmp_path: Path) -> None:
    sink = read_into(write(tmp_path, *parts), tmp_path / "parts", IMPORTER)
    assert (sink.clock, sink.host, sink.format_version) == ("realtime", "box", "1")
    assert sink.process_id == records_of(BUNDLED[0])[0]["pid"]


@pytest.mark.parametrize("tenth", range(1, 11))
def test_cut_anywhere(tenth: int, parts: list[bytes], tmp_path: Path) -> None:
    """A torn segment costs itself, and what stands before it is all there."""
    data = b"".join(parts)
    cut = len(data) * tenth // 10 - 7
    whole, left = [], cut
    for part in parts:
        if (left := left - len(part)) < -8:  # the last 8 bytes are the end mark: without it nothing is lost
            break
        whole.append(part)
    expected = rows_of(ingest_file(write(tmp_path, *whole), tmp_path, IMPORTER))
    tables = ingest_file(write(tmp_path, data[:cut]), tmp_path, IMPORTER)
    found = rows_of(tables)
    assert all(set(rows) <= set(found[name]) for name, rows in expected.items() if name != "ranges")
    counts = counts_of(tables)
    assert counts.get(("recording_not_finished", "data_loss"), 0) == (len(whole) < len(parts))
    assert counts.get(("truncated_segment", "data_loss"), 0) == (sum(map(len, whole)) != cut)


@pytest.mark.parametrize("place", [0, 4, 40, 400])
def test_damage_costs_one_segment(place: int, parts: list[bytes], tmp_path: Path) -> None:
    number = 6
    damaged = bytearray(parts[number])
    damaged[place : place + 8] = b"\x5a" * 8
    tables = ingest_file(write(tmp_path, *parts[:number], bytes(damaged), *parts[number + 1 :]), tmp_path, IMPORTER)
    without = ingest_file(write(tmp_path, *parts[:number], *parts[number + 1 :]), tmp_path, IMPORTER)
    assert rows_of(tables) == rows_of(without)
    assert counts_of(tables)[("damaged_segments", "data_loss")] == 1
    told = number if place == 0 else number + 1  # without its start it is a tail of the segment before
    assert f"segment {told}:" in tables["diagnostics"].filter(pl.col("name") == "damaged_segments")["detail"][0]


def test_every_flipped_byte_is_survived(tmp_path: Path) -> None:
    rows = [{"cbid": 20, "start": 5, "end": 9, "process_id": 1, "name": "cudaMalloc_v3020"}] * 3
    data = note("_HEADER", pid=1) + segment("RUNTIME", rows) + note("_FOOTER")
    start = len(note("_HEADER", pid=1))
    for place in range(start, len(data), 5):
        flipped = bytearray(data)
        flipped[place] ^= 0xFF
        path = write(tmp_path, bytes(flipped))
        folder = tmp_path / str(place)
        try:
            read_into(path, folder, IMPORTER)
        except UnsupportedVersion as error:
            assert "version" in str(error)


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, segment("_HEADER", [{"json": "{}"}], version="2"))
    with pytest.raises(UnsupportedVersion, match=r"version 2, supported: 1"):
        read_into(path, tmp_path / "parts", IMPORTER)


def test_a_bomb_is_not_unpacked(parts: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = segment("RUNTIME", [{"start": 0, "end": 0, "cbid": 1}] * 200_000)
    assert len(bomb) < 100_000
    monkeypatch.setattr(cupti_segments, "MAX_UNPACKED_BYTES", 4_000_000)
    tables = ingest_file(write(tmp_path, parts[0], bomb, parts[-1]), tmp_path, IMPORTER)
    assert "api_calls" not in tables
    assert counts_of(tables)[("damaged_segments", "data_loss")] == 1
    monkeypatch.setattr(cupti_segments, "MAX_UNPACKED_BYTES", 40_000_000)
    assert ingest_file(write(tmp_path, parts[0], bomb, parts[-1]), tmp_path, IMPORTER)["api_calls"].height == 200_000


def test_an_endless_segment_takes_no_memory(
    parts: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cupti_segments, "MAX_SEGMENT_BYTES", 3 << 20)
    filler = b"\x07" * (9 << 20)
    tables = ingest_file(write(tmp_path, *parts[:3], parts[3][:-8] + filler, *parts[4:]), tmp_path, IMPORTER)
    assert counts_of(tables)[("segments_too_long", "data_loss")] >= 1
    assert {"gpu_ops", "ranges"} <= set(tables)


def test_uncompressed_segments_and_unknown_kinds(parts: list[bytes], tmp_path: Path) -> None:
    call = {"cbid": 20, "start": 5, "end": 9, "process_id": 12, "name": None, "shiny": 4}
    extra = [segment("RUNTIME", [call], compression=None), segment("TELEPORT", [{"id": 1}])]
    tables = ingest_file(write(tmp_path, parts[0], *extra, parts[-1]), tmp_path, IMPORTER)
    assert tables["api_calls"].select("name", "process_id").rows() == [("runtime_cbid_20", 12)]
    assert counts_of(tables) == {
        ("cupti_skipped_records", "data_loss"): 2,
        ("unknown_kinds", "info"): 1,
        ("unknown_keys", "info"): 1,
    }


def test_what_the_collector_writes(tmp_path: Path) -> None:
    app = """
        import cupti.cupti as c
        at = 1796036464083414771
        c.emit("RUNTIME", cbid=20, start=at, end=at + 9, correlation_id=4, process_id=7, thread_id=8, return_value=2)
        c.emit("MEMORY2", memory_kind=3, memory_operation_type=1, address=2**63 + 5, bytes=2**40, timestamp=at + 5,
               correlation_id=4, process_id=7, stream_id=0xFFFFFFFF, **{"memory_pool_config.address": 11})
        c.emit("MARKER", flags_=2, timestamp=at, id=1, object_kind=2, name="request:0",
               **{"object_id.pt.process_id": 7, "object_id.pt.thread_id": 8})
        c.emit("MARKER", flags_=4, timestamp=at + 20, id=1, object_kind=2,
               **{"object_id.pt.process_id": 7, "object_id.pt.thread_id": 8})
    """
    done = collect(tmp_path, "cupti", "-o", "c.arrow", "--", "PYTHON", "app.py", app=app)
    assert done.returncode == 0, done.stderr
    tables = check_importer(tmp_path / "c.arrow", tmp_path, IMPORTER)
    at = 1796036464083414771
    columns = ("name", "start_ns", "end_ns", "correlation_id", "process_id", "thread_id", "return_code")
    assert tables["api_calls"].select(columns).rows() == [("cudaMalloc", at, at + 9, 4, 7, 8, 2)]
    columns = ("action", "ts_ns", "address", "size_bytes", "memory_kind", "stream_id", "pool_id", "correlation_id")
    assert tables["memory_events"].select(columns).rows() == [
        ("alloc", at + 5, (1 << 63) + 5, 1 << 40, "device", None, "driver,11", 4)
    ]
    columns = ("name", "process_id", "thread_id", "start_ns", "end_ns")
    assert tables["ranges"].select(columns).rows() == [("request:0", 7, 8, at, at + 20)]
    assert tables["clock_pairs"]["clock_position"].to_list() == ["start", "end"]
    assert [name for name, severity in counts_of(tables) if severity != "info"] == []
