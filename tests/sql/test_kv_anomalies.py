"""The life of KV blocks: one event log a fault on tiny rows, and random logs with planted faults."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pipeline.database import Database
from tests.sql.support import run, tables


def _anomalies(temp: Path, events: str | list[dict[str, Any]], **given: Any) -> list[tuple[Any, ...]]:
    database: Database = tables(temp, kv_block_events=events, **given)
    run(database, "kv", "kv_anomalies_made")
    return database.rows(
        "SELECT anomaly, block_id, request_id, ts_ns, detail FROM kv_anomalies_made ORDER BY anomaly_id"
    )


FAULTS = {
    "none": (
        """
        alloc   10  1  a  -  -
        ref     20  1  a  -  -
        unref   30  1  a  -  -
        unref   40  1  a  -  -
        free    50  1  a  -  -
        alloc   60  1  b  -  -
        unref   70  1  b  -  -
        free    80  1  b  -  -
        """,
        [],
    ),
    "underflow": (
        """
        alloc   10  1  a  -  -
        unref   20  1  a  -  -
        unref   30  1  a  -  -
        """,
        [("underflow", 1, "a", 30)],
    ),
    "underflow by the producer's own count, alloc not seen": (
        """
        unref   30  1  a  -1  -
        """,
        [("underflow", 1, "a", 30)],
    ),
    "double free": (
        """
        alloc   10  1  a  -  -
        unref   20  1  a  -  -
        free    30  1  a  -  -
        free    40  1  a  -  -
        """,
        [("double_free", 1, "a", 40)],
    ),
    "use after free": (
        """
        alloc   10  1  a  -  64
        unref   20  1  a  -  -
        free    30  1  a  -  -
        write   40  1  a  -  64
        """,
        [("use_after_free", 1, "a", 40)],
    ),
    "freed while referenced": (
        """
        alloc   10  1  a  -  -
        ref     20  1  b  -  -
        unref   30  1  a  -  -
        free    40  1  a  -  -
        """,
        [("unpaired", 1, "a", 40)],
    ),
    "handed out again without a free": (
        """
        alloc   10  1  a  -  -
        ref     20  1  a  -  -
        unref   25  1  a  -  -
        alloc   30  1  b  -  -
        unref   40  1  b  -  -
        free    50  1  b  -  -
        """,
        [("unpaired", 1, "b", 30)],
    ),
    "a reference kept after the request's end": (
        """
        alloc        10  1  a  -  -
        ref          20  1  a  -  -
        unref        30  1  a  -  -
        request_end  40  -  a  -  -
        """,
        [("dangling", 1, "a", 40)],
    ),
    "shared with a request that still runs": (
        """
        alloc        10  1  a  -  -
        ref          20  1  b  -  -
        unref        30  1  a  -  -
        request_end  40  -  a  -  -
        """,
        [],
    ),
    "given back late, by another thread": (
        """
        alloc        10  1  a  -  -
        request_end  20  -  a  -  -
        unref        30  1  a  -  -
        free         40  1  a  -  -
        """,
        [],
    ),
    "a prefix cache counts no references": (
        """
        alloc  10  1  -  -  -
        alloc  20  1  -  -  -
        free   30  1  -  -  -
        """,
        [],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault(name: str, tmp_path: Path) -> None:
    events, expected = FAULTS[name]
    text = "kv_event ts_ns block_id request_id reference_count size_bytes\n" + events.strip()
    assert [row[:4] for row in _anomalies(tmp_path, text)] == expected


def test_writes_beyond_the_block(tmp_path: Path) -> None:
    found = _anomalies(
        tmp_path,
        """
        kv_event  ts_ns  block_id  request_id  size_bytes  address  attributes
        alloc     10     1         a           64          4096     -
        write     20     1         a           16          4144     -
        write     30     1         a           16          4145     -
        write     40     1         a           16          -        {"offset":48}
        read      50     1         a           16          -        {"offset":49}
        write     60     1         a           1           4095     -
        """,
    )
    assert [(kind, ts) for kind, _, _, ts, _ in found] == [
        ("out_of_bounds", 30),
        ("out_of_bounds", 50),
        ("out_of_bounds", 60),
    ]
    assert found[0][4] == "write of 16 bytes at offset 49 of a block of 64 bytes"


def test_the_producers_sequence_orders_what_threads_wrote(tmp_path: Path) -> None:
    events = """
        kv_event  ts_ns  block_id  request_id  sequence_number  thread_id
        alloc     10     1         a           1                1
        free      40     1         a           3                2
        unref     30     1         a           2                1
    """
    assert _anomalies(tmp_path, events) == []


def test_a_request_log_tells_the_end_as_well(tmp_path: Path) -> None:
    requests = [{"request_id": "a", "end_ns": 99}]
    [row] = _anomalies(tmp_path, "kv_event ts_ns block_id request_id\nalloc 10 1 a", requests=requests)
    assert row[:4] == ("dangling", 1, "a", 99)


def test_random_logs_give_exactly_what_was_planted(tmp_path: Path) -> None:
    planted_in_all = 0
    for seed in range(20):
        chance = random.Random(seed)
        events: list[dict[str, Any]] = []
        planted = []

        def say(event: str, block: int | None, request: str, into: list[dict[str, Any]] = events) -> int:
            into.append({"kv_event": event, "ts_ns": len(into) + 1, "block_id": block, "request_id": request})
            return len(into)

        for number in range(chance.randint(5, 40)):
            request, block = f"r{number}", number
            fault = chance.choice(("none", "none", "none", "dangling", "underflow", "double_free", "use_after_free"))
            say("alloc", block, request)
            for _ in range(chance.randint(0, 3)):
                say("ref", block, request)
                say("unref", block, request)
            if fault != "dangling":
                say("unref", block, request)
                say("free", block, request)
            if fault == "underflow":
                planted.append(("underflow", block, request, say("unref", block, request)))
            elif fault == "double_free":
                planted.append(("double_free", block, request, say("free", block, request)))
            elif fault == "use_after_free":
                planted.append(("use_after_free", block, request, say("read", block, request)))
            ended = say("request_end", None, request)
            if fault == "dangling":
                planted.append(("dangling", block, request, ended))
        found = [row[:4] for row in _anomalies(tmp_path / str(seed), events)]
        assert sorted(found) == sorted(planted), f"seed {seed}"
        planted_in_all += len(planted)
    assert planted_in_all > 50
