"""Slab tables: every row against a second reading, columns that may be missing, stacks, damage."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from pathlib import Path

import pytest

from ingest.errors import BadInput
from ingest.slab_table import IMPORTER
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file, read_into
from tests.ingest.text_damage import (
    check_cuts,
    check_encodings,
    check_flips,
    check_junk,
    data_loss,
    read_text,
    rows_of,
    write,
)  # fmt: skip

DATA = Path(__file__).parents[1] / "data" / "slab_table" / "kmem_bpftrace.txt"
CAPTURE = SHARED / "captures" / "host_kmem" / "kmem_bpftrace.txt"
COLUMNS = ("ts_ns", "cpu_index", "name", "action", "address", "size_bytes")
HEAD = "Attaching 3 probes...\nTime(ns) CPU Cache Op Addr Bytes\n"
ROW = "2439899861183 1 filp ALLOC 0xffff88810086b000 192\n"


def second_reading(path: Path) -> list[tuple[object, ...]]:
    rows = []
    for line in path.read_text().splitlines()[2:]:
        if line:
            time, cpu, cache, op, address, size = line.split(" ")
            known = int(size) if op == "ALLOC" else None
            rows.append((int(time), int(cpu), cache, op.lower(), int(address[2:], 16), known))
    return rows


def test_real_file(tmp_path: Path) -> None:
    tables = check_importer(DATA, tmp_path, IMPORTER)
    expected = second_reading(DATA)
    assert len(expected) == 600
    assert rows_of(tables, "memory_events", COLUMNS) == expected
    constant = tables["memory_events"].select("level", "memory_kind", "process_id", "source").unique().rows()
    assert constant == [("host", "slab", 0, "ebpf")]
    assert counts_of(tables) == {}


@pytest.mark.skipif(not CAPTURE.exists(), reason="the full captures are not beside the checkout")
def test_open_files_that_a_program_leaks_are_the_ones_left(tmp_path: Path) -> None:
    tables = ingest_file(CAPTURE, tmp_path, IMPORTER)
    rows = rows_of(tables, "memory_events", COLUMNS)
    expected = second_reading(CAPTURE)
    assert Counter(row[2:4] for row in rows) == Counter(row[2:4] for row in expected)
    assert rows == expected
    # The program opens 400 files and keeps them till its end, one of /dev/null at a time beside them.
    steps = [1 if row[3] == "alloc" else -1 for row in rows if row[2] == "filp"]
    live = list(accumulate(steps))
    assert max(live) == 401
    assert live[-1] < 0  # at its end the program also closes what it had open before the window


def test_columns_by_the_header(tmp_path: Path) -> None:
    text = "# bpftrace kernel_slab clock=boottime\ntime(ns) Cache Op Addr\n12 filp kmem_cache_alloc ffff88\n"
    text += "13 filp kmem_cache_free ffff88\nTime(ns) PID CPU Cache Op Addr Bytes\n14 7 0 my cache (9:a b) + 0x10 8\n"
    tables = read_text(text, tmp_path, IMPORTER)
    columns = ("ts_ns", "thread_id", "cpu_index", "name", "action", "address", "size_bytes")
    assert rows_of(tables, "memory_events", columns) == [
        (12, None, None, "filp", "alloc", 0xFFFF88, None),
        (13, None, None, "filp", "free", 0xFFFF88, None),
        (14, 7, 0, "my cache (9:a b)", "alloc", 16, 8),
    ]
    assert counts_of(tables) == {}
    assert read_into(write(tmp_path, text), tmp_path / "a", IMPORTER).clock == "boottime"
    assert read_into(write(tmp_path, HEAD + ROW), tmp_path / "b", IMPORTER).clock == "monotonic"


def test_stacks_below_rows(tmp_path: Path) -> None:
    stack = "\n        kmem_cache_alloc+0x1f\n        alloc_empty_file+61\n\n"
    tables = read_text(HEAD + ROW + stack + ROW + ROW + stack, tmp_path, IMPORTER)
    paths = tables["memory_events"]["call_path_id"].to_list()
    frames = {
        frame: (function, module)
        for frame, function, module in tables["frames"].select("frame_id", "function", "module").rows()
    }
    by_path = {
        path: [frames[i] for i in ids] for path, ids in tables["call_paths"].select("call_path_id", "frame_ids").rows()
    }
    leaf = ("filp", "slab")
    stacked = [("alloc_empty_file", None), ("kmem_cache_alloc", None), leaf]
    assert [by_path[path] for path in paths] == [stacked, [leaf], stacked]


def test_what_has_no_partner_or_no_meaning(tmp_path: Path) -> None:
    lines = (
        ROW.replace("0xffff88810086b000", "0x0"),
        ROW.replace("ALLOC", "SHRINK"),
        ROW.replace("0xffff", "0xfffffffffffffffff"),
        ROW.replace("192", "99999999999999999999"),
        ROW.replace("0xf", "q"),
        "Lost 42 events\n",
        "@t[1]: 2\n",
    )
    tables = read_text(HEAD + "".join(lines), tmp_path, IMPORTER)
    assert tables["memory_events"]["action"].to_list() == ["other", "other", "alloc"]
    assert data_loss(tables) == {"numbers_beyond_64_bits": 2, "damaged_rows": 1, "lost_events": 42}
    with pytest.raises(BadInput, match="no header of a slab table"):
        IMPORTER.read(write(tmp_path, "Time Op\n"), read_into(DATA, tmp_path / "c", IMPORTER))


def test_rows_without_their_header(tmp_path: Path) -> None:
    tables = read_text(ROW + ROW.replace("ALLOC", "FREE"), tmp_path, IMPORTER)
    assert rows_of(tables, "memory_events", COLUMNS) == [
        (2439899861183, 1, "filp", "alloc", 0xFFFF88810086B000, 192),
        (2439899861183, 1, "filp", "free", 0xFFFF88810086B000, 192),
    ]
    assert counts_of(tables) == {("header_missing", "info"): 1}
    tables = read_text("2439899861183 filp FREE 0xffff88810086b000\n", tmp_path, IMPORTER)
    assert rows_of(tables, "memory_events", COLUMNS)[0][1:4] == (None, "filp", "free")


def test_damage(tmp_path: Path) -> None:
    check_encodings(DATA, tmp_path, IMPORTER)
    check_cuts(DATA, tmp_path, IMPORTER, "memory_events", COLUMNS)
    check_flips(DATA, tmp_path, IMPORTER, "memory_events", COLUMNS, rows_a_line=1, seeds=range(10))
    check_junk(HEAD.encode(), tmp_path, IMPORTER, lambda chance: chance.randbytes(chance.randrange(80)))
