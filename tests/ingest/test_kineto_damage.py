"""Kineto importer on damaged and hostile files: what is whole is read, the rest is counted, nothing raises."""

from __future__ import annotations

import gzip
import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from ingest import kineto_stream
from ingest.errors import BadInput
from ingest.kineto import IMPORTER
from tests.ingest.support import ingest_file
from tests.ingest.text_damage import Tables, data_loss, flipped, read_text

DATA = Path(__file__).parents[1] / "data" / "kineto"
HEAD = '{"schemaVersion": 1, "baseTimeNanoseconds": 1790857026000000000, "traceEvents": ['
OPERATOR = '{"ph":"X","cat":"cpu_op","name":"%s","pid":7,"tid":8,"ts":%s,"dur":1.5,"args":{"External id":1}}'
KEYS = {
    "memory_events": ("ts_ns", "action", "address", "size_bytes", "thread_id"),
    "ranges": ("name", "start_ns", "end_ns", "thread_id", "range_kind"),
}


def text_of(name: str) -> bytes:
    return gzip.decompress((DATA / name).read_bytes())


def rows(tables: Tables) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for table, columns in KEYS.items():
        if table in tables:
            found.update((table, *row) for row in tables[table].select(columns).rows())
    return found


def events(*texts: str, tail: str = "]}") -> str:
    return HEAD + ",\n".join(texts) + tail


def operator(name: str, ts: object = 5) -> str:
    return OPERATOR % (name, ts)


def names(tables: Tables) -> list[str]:
    return tables["ranges"].sort("event_index")["name"].to_list() if "ranges" in tables else []


def test_cuts(tmp_path: Path) -> None:
    data = text_of("cpu_stacks.json.gz")
    whole = rows(ingest_file(DATA / "cpu_stacks.json.gz", tmp_path, IMPORTER))
    read = 0
    for place in range(1, 11):
        tables = read_text(data[: len(data) * place // 11], tmp_path, IMPORTER)
        kept = rows(tables)
        assert not kept - whole
        assert data_loss(tables)["truncated_file"] == 1
        assert kept.total() >= read
        read = kept.total()
    assert read > whole.total() * 0.9
    packed = gzip.compress(data, 1)
    for place in range(2, 10):
        tables = read_text(packed[: len(packed) * place // 10], tmp_path, IMPORTER)
        assert not rows(tables) - whole
        assert data_loss(tables)["truncated_stream"] == 1


def test_flipped_bytes(tmp_path: Path) -> None:
    data = text_of("cpu_stacks.json.gz")
    whole = rows(ingest_file(DATA / "cpu_stacks.json.gz", tmp_path, IMPORTER))
    for seed in range(6):
        kept = rows(read_text(flipped(data, seed, 3, 2000), tmp_path, IMPORTER))
        assert (whole - kept).total() <= 9, f"seed {seed}"
    for seed in range(20, 22):
        read_text(flipped(data, seed, len(data) // 30, 2000), tmp_path, IMPORTER)


def test_a_block_that_does_not_parse_costs_its_bad_events_alone(tmp_path: Path) -> None:
    good = [operator(f"op{i}", i) for i in range(9)]
    bad = ['{"ph":"X","name":', "7", "[1]", '{"ph":"X","cat":"cpu_op","name":"cut","pid"', "null"]
    mixed = [text for pair in zip(good, [*bad, *bad[:4]], strict=True) for text in pair]
    tables = read_text(events(*mixed), tmp_path, IMPORTER)
    assert set(names(tables)) <= {f"op{i}" for i in range(9)}
    assert len(names(tables)) >= 7
    assert data_loss(tables).total() >= 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (events(operator("a"), operator("b"), tail=",]}"), ["a", "b"]),
        (events(operator("a"), operator("b"), tail=' ,\n ], "traceName": "x", }'), ["a", "b"]),
        (events(operator("a"), tail='\n],\n"samples": [{"a": 1}, {"ph": 2}], "x": [{"b": {}}, {"c": []}]}'), ["a"]),
        (events(operator("a"), operator('say \\"{\\"}, {\\"ph\\": 1')), ["a", 'say "{"}, {"ph": 1']),
        (events(operator("a"), operator("\\ud800"), operator("b")), ["a", "\ufffd", "b"]),
        (events(operator("a"), operator("b\x01c"), operator("d")), ["a", "b c", "d"]),
        (events(operator("a"), operator("b").replace("1.5", "NaN")), ["a", "b"]),
        (events(operator("a"), operator("b").replace("1.5", "-Infinity")), ["a", "b"]),
        (events(operator("a").replace('"ph"', '"name":"z","ph"')), ["a"]),
        ("\ufeff" + events(operator("a")), ["a"]),
        (events(operator("a")).replace(":", " :\r\n\t").replace(",", " ,\r\n"), ["a"]),
        (f"[{operator('a')},{operator('b')}]", ["a", "b"]),
        (f"\n\n[{operator('a')},\n{operator('b')},\n\n", ["a", "b"]),
        (events(operator("a").replace('"args":{"External id":1}', '"args":[1,{"b":2}]'), operator("b")), ["a", "b"]),
        (events(operator("a").replace("1}}", '1,"l":[{"x":1},{"y":{"z":[]}},{"w":nan}]}}'), operator("b")), ["a", "b"]),
        (events(operator("a").replace("1}}", '1,"l":[{"x":1},{"y":2},{"w":3}]}}'), operator("b"), "7x"), ["a", "b"]),
    ],
)  # fmt: skip
def test_what_producers_write(text: str, expected: list[str], tmp_path: Path) -> None:
    tables = read_text(text, tmp_path, IMPORTER)
    assert names(tables) == expected
    assert data_loss(tables).total() == (2 if "7x" in text else 0)


@pytest.mark.parametrize(
    ("ts", "start_ns"),
    [
        ("5179746256668.053", 1790857026000000000 + 5179746256668053),
        ('"12.345"', 1790857026000012345),
        ("1712195495523352.987", 1712195495523352987),
        ('"1712195495523352.001"', 1712195495523352001),
        ("1712195495523352", 1712195495523352000),
        ("1712195495523352987", 1712195495523352987),
        ("0.001", 1790857026000000001),
        ("1e3", 1790857026001000000),
    ],
)
def test_times_are_exact(ts: str, start_ns: int, tmp_path: Path) -> None:
    [row] = read_text(events(operator("a", ts)), tmp_path, IMPORTER)["ranges"].to_dicts()
    assert row["start_ns"] == start_ns
    assert row["end_ns"] - start_ns == (1 if ts == "1712195495523352987" else 1500)  # 1.5 ns lie within the first


def test_numbers_beyond_all_bounds(tmp_path: Path) -> None:
    texts = [operator(f"n{i}", ts) for i, ts in enumerate(("1" * 30, "-1e300", "true", "null", '"x"', "[1]", "1e400"))]
    memory = (
        '{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":7,"tid":8,"ts":1,"args":{"Addr":%s,"Bytes":%s,'
        '"Device Type":1,"Device Id":%s,"Total Allocated":-5,"Total Reserved":1e30}}'
    )
    texts += [memory % (2**64, 2**70, 2**40), memory % (2**64 - 1, -(2**63), 0), memory % ('"0x10"', "512.0", -1)]
    tables = read_text(events(operator("good"), *texts), tmp_path, IMPORTER)
    assert tables["ranges"].filter(name="good")["start_ns"].item() == 1790857026000005000
    found = tables["memory_events"].select("address", "size_bytes", "device_index").rows()
    assert found[1][0] == 2**64 - 1
    assert found[2] == (16, 512, None)
    assert data_loss(tables)["value_out_of_range"] > 0
    assert data_loss(tables)["damaged_values"] > 0


def test_deep_long_and_endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = '{"ph":"X","args":' + '{"a":' * 100_000 + "1" + "}" * 100_001
    tables = read_text(events(operator("a"), deep, operator("b")), tmp_path, IMPORTER)
    assert names(tables) == ["a", "b"]
    assert data_loss(tables)["damaged_events"] == 1
    long_name = operator("x" * 100_000)
    assert len(names(read_text(events(long_name), tmp_path, IMPORTER))[0]) < 5000
    monkeypatch.setattr(kineto_stream, "MAX_EVENT_BYTES", 400_000)
    tables = read_text(events(operator("a"), operator("y" * 900_000), operator("b")), tmp_path, IMPORTER)
    assert names(tables) == ["a", "b"]
    assert data_loss(tables)["long_events"] == 1
    with pytest.raises(BadInput, match="traceEvents"):
        read_text('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": 7}', tmp_path, IMPORTER)


def test_a_header_that_does_not_parse(tmp_path: Path) -> None:
    text = events(operator("a")).replace('"schemaVersion": 1', '"schemaVersion": 1, "x": "bad \x02, ')
    tables = read_text(text.replace("deviceProperties", "x"), tmp_path, IMPORTER)
    assert tables["ranges"]["start_ns"].item() == 1790857026000005000


def test_many_threads_and_senseless_spans(tmp_path: Path) -> None:
    chance = random.Random(3)
    texts = []
    for number in range(15_000):
        event = json.loads(operator(f"f{number % 50}.py({number % 9}): g", chance.randrange(1000)))
        event |= {"cat": chance.choice(["cpu_op", "python_function"]), "tid": number, "dur": chance.randrange(500)}
        texts.append(json.dumps(event))
    tables = read_text(events(*texts), tmp_path, IMPORTER)
    assert tables["ranges"].height > 6000
    assert data_loss(tables)["threads_beyond_limit"] > 0


@pytest.mark.parametrize("filler", [" ", "} ", "} ,", "]", "} ]", '"name": "'])
def test_long_gaps_behind_a_brace_take_no_time(filler: str, tmp_path: Path) -> None:
    gap = "}" + filler * (100_000 // len(filler)) + "x"
    began = time.monotonic()
    tables = read_text(events(operator("one"), '{"ph":"X","args":{"a":1' + gap, operator("two")), tmp_path, IMPORTER)
    assert time.monotonic() - began < 20
    assert {"one", "two"} <= set(names(tables))
