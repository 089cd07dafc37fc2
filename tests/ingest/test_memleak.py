"""memleak's text in the forms of bcc and libbpf-tools, against counts made another way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ingest.bcc_frames import parse_bcc_frame
from ingest.callpaths import Frame
from ingest.memleak import IMPORTER
from tests.ingest.stack_text import paths_of
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

DATA = Path(__file__).parents[1] / "data" / "bcc" / "memleak_example.txt"
SNIPPETS = SHARED / "corpus" / "snippets"
COLUMNS = ("ts_ns", "process_id", "sample_count", "weight")
S = 10**9
TOP = "[11:16:33] Top 2 stacks with outstanding allocations:\n"
HEAD = "Attaching to pid 5193, Ctrl+C to quit.\n" + TOP
STACK = "\t80 bytes in 5 allocations from stack\n\t\tleaf+0x6d [app]\n\t\tmain+0xf0 [app]\n\n"


def seconds(hours: int, minutes: int, second: int) -> int:
    return (hours * 3600 + minutes * 60 + second) * S


def test_the_sessions_of_the_example_page(tmp_path: Path) -> None:
    tables = check_importer(DATA, tmp_path, IMPORTER)
    rows = rows_of(tables, "stack_samples", COLUMNS)
    text = DATA.read_text()
    found = re.findall(r"(\d+) bytes in (\d+) allocations", text)
    assert [(str(row[3]), str(row[2])) for row in rows] == found
    assert rows[0] == (seconds(11, 16, 33), 5193, 5, 80)
    assert rows[4] == (None, 0, 4, 248)  # kernel allocators, below a line `...`
    assert rows[8] == (seconds(11, 16, 33), 2614, 1, 16)  # another session: no new day
    paths = paths_of(tables)
    assert paths[0] == ["main allocs", "__libc_start_main libc-2.21.so"]
    assert paths[-1][0] == "zmalloc redis-server"
    assert sum(map(len, paths)) == len(re.findall(r"^\s+(?:0x\w+\t)?\S+ \[\S+\]$", text, re.MULTILINE))
    events = rows_of(tables, "memory_events", ("action", "process_id", "address", "size_bytes", "memory_kind"))
    expected = re.findall(r"addr = (\w+) size = (\d+)", text)
    assert events == [("snapshot", 5193, int(address, 16), int(size), "heap") for address, size in expected]
    assert data_loss(tables) == {}
    assert ("times_without_date", "info") in counts_of(tables)


@pytest.mark.skipif(not SNIPPETS.exists(), reason="the public corpus is not beside the checkout")
def test_every_snippet(tmp_path: Path) -> None:
    paths = sorted(SNIPPETS.glob("memleak_*"))
    assert len(paths) >= 6
    for path in paths:
        tables = ingest_file(path, tmp_path, IMPORTER)
        text = path.read_text()
        rows = rows_of(tables, "stack_samples", ("weight", "sample_count"))
        assert [tuple(map(str, row)) for row in rows] == re.findall(r"(\d+) bytes in (\d+) allocations", text)
        assert data_loss(tables) == {}, path.name
        if rows:
            lines = [line for line in text.splitlines() if line[:1].isspace() and "size =" not in line]
            frames = [line for line in lines if "allocations from" not in line]
            assert sum(map(len, paths_of(tables))) == len(frames), path.name


def test_libbpf_form(tmp_path: Path) -> None:
    text = (
        "using default object: libc.so.6\nAttaching to pid 12, Ctrl+C to quit.\n"
        "[9:5:8] Top 2 stacks with outstanding allocations:\n"
        "300 bytes in 2 allocations from stack\n"
        "\taddr = 0x55d0 size = 100\n\taddr = 0x55e0 size = 200\n"
        "\t0 [<000055d0aa>] grow<int [3]>(int)+0x6d [app]\n\t1 [<000055d0ab>] [libc.so.6]\n"
        "\t2 [<000055d0ac>] <null sym>\n\t3 [<000055d0ad>] main+0x1 /src/a b.c:12\n"
        "0 bytes in 7 allocations from stack\n"
        "WARNING: 3 stack traces could not be displayed due to memory shortage, including 1 by collisions.\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    assert rows_of(tables, "stack_samples", COLUMNS) == [
        (seconds(9, 5, 8), 12, 2, 300),
        (seconds(9, 5, 8), 12, 7, 0),
    ]
    assert paths_of(tables) == [["grow<int [3]>(int) app", "[unknown] libc.so.6", "[unknown]", "main"], []]
    events = tables["memory_events"].select("address", "size_bytes", "call_path_id").rows()
    path = tables["stack_samples"]["call_path_id"][0]
    assert events == [(0x55D0, 100, path), (0x55E0, 200, path)]
    assert data_loss(tables) == {"stacks_lost_by_producer": 3}
    known = tables["frames"].filter(tables["frames"]["file"].is_not_null())
    assert known.select("file", "line").rows() == [("/src/a b.c", 12)]


def test_traced_calls(tmp_path: Path) -> None:
    text = (
        "Attaching to pid 77, Ctrl+C to quit.\n"
        "(b'app', 78, 1, b'd...1', 1234.5, b'alloc entered, size = 16')\n"
        "(b'app', 78, 1, b'd...1', 1234.500001, b'alloc exited, size = 16, result = 55d0')\n"
        "('app', 78, 0, '....', 1235.0, 'free entered, address = 55d0, size = 16')\n"
        "('app', 78, 0, '....', 1236.0, 'free entered, address = 0, size = 0')\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    columns = ("action", "ts_ns", "process_id", "thread_id", "cpu_index", "address", "size_bytes")
    assert rows_of(tables, "memory_events", columns) == [
        ("alloc", 1_234_500_001_000, 77, 78, 1, 0x55D0, 16),
        ("free", 1235 * S, 77, 78, 0, 0x55D0, None),
        ("other", 1236 * S, 77, 78, 0, 0, None),
    ]
    assert counts_of(tables) == {}
    assert read_into(write(tmp_path, text), tmp_path / "a", IMPORTER).clock == "perf"


def test_midnight_and_empty_intervals(tmp_path: Path) -> None:
    text = HEAD.replace("11:16:33", "23:59:58") + STACK + TOP.replace("11:16:33", "00:00:03") + STACK
    text += TOP.replace("11:16:33", "00:00:08") + TOP.replace("11:16:33", "99:00:13") + STACK
    tables = read_text(text, tmp_path, IMPORTER)
    midnight = 86_400 * S
    assert tables["stack_samples"]["ts_ns"].to_list() == [midnight - 2 * S, midnight + 3 * S, None]
    assert counts_of(tables)["empty_intervals", "info"] == 1
    assert data_loss(tables) == {"damaged_values": 1}


def test_a_damaged_stack_does_not_give_its_frames_away(tmp_path: Path) -> None:
    for broken in (STACK.replace("80 bytes", "8x bytes"), STACK.replace("from stack", "from st~ck")):
        tables = read_text(HEAD + STACK.rstrip("\n") + "\n" + broken + STACK, tmp_path, IMPORTER)
        assert paths_of(tables) == [["leaf app", "main app"]] * 2
        assert data_loss(tables) == {"damaged_rows": 1, "stack_lines_without_stack": 2}
    tables = read_text(HEAD + STACK.replace("80", "9" * 30) + "Leaked!\n" + STACK, tmp_path, IMPORTER)
    assert rows_of(tables, "stack_samples", COLUMNS)[0][2:] == (5, 80)
    assert data_loss(tables)["numbers_beyond_64_bits"] == 1


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        ("main+0x6d [allocs]", Frame("main", module="allocs")),
        ("[unknown]", Frame("[unknown]")),
        ("main+0x6d [/home/me/allocs] (400862)", Frame("main", module="/home/me/allocs")),
        ("[unknown] [lib z.so.2]", Frame("[unknown]", module="lib z.so.2")),
        ("0xffffffff88267387\tkmem_cache_alloc_lru+0x267 [kernel]", Frame("kmem_cache_alloc_lru", module="kernel")),
        ("0x00007f\t[unknown] [[vdso]]", Frame("[unknown]", module="[vdso]", address=127)),
        ("0 [<ffffffffad44ab78>] __alloc_pages+0x1e8", Frame("__alloc_pages")),
        ("0 [<ff>] <null sym>", Frame("[unknown]", address=255)),
        ("0 [<55>] f(int)+0x0 /a b/c.so:0", Frame("f(int)", module="/a b/c.so")),
        ("std::vec<int [3]>::push(int const&)+0x12 [app]", Frame("std::vec<int [3]>::push(int const&)", module="app")),
        ("tcp_send_delayed_ack0x1", Frame("tcp_send_delayed_ack")),
        ("7f120511e6e0     __write_nocancel", Frame("__write_nocancel")),
        ("f(A*, B<C>)", Frame("f(A*, B<C>)")),
        ("   ", None),
    ],
)
def test_frames(line: str, frame: Frame | None) -> None:
    assert parse_bcc_frame(line) == frame


def test_bounds(tmp_path: Path) -> None:
    deep = "".join(f"\t\tf{i}+0x1 [app]\n" for i in range(2000))
    wide = "\t\t" + "+0x1 a" * 100_000 + " " * 100_000 + "]\n"
    tables = read_text(HEAD + STACK.split("\n")[0] + "\n" + wide + deep, tmp_path, IMPORTER)
    assert tables["call_paths"]["depth_count"].to_list() == [1024]
    assert data_loss(tables) == {"deep_stacks": 2001 - 1024, "long_frames": 1}


def test_damage(tmp_path: Path) -> None:
    check_encodings(DATA, tmp_path, IMPORTER)
    sessions = tmp_path / "sessions.txt"
    sessions.write_text(HEAD + "".join(STACK.replace("5 all", f"{n} all").replace("33", "40") for n in range(200)))
    check_cuts(sessions, tmp_path, IMPORTER, "stack_samples", COLUMNS)
    check_flips(sessions, tmp_path, IMPORTER, "stack_samples", COLUMNS, rows_a_line=1, seeds=range(10))
    check_junk(HEAD.encode(), tmp_path, IMPORTER, lambda chance: b"\t9 bytes in " + chance.randbytes(20))
