"""bpftrace driver-call importer: records and stacks against a second reading, symbols by hand, damage."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from ingest.bpftrace_cuda import IMPORTER
from ingest.bpftrace_stacks import parse_frame
from ingest.callpaths import Frame
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file, read_into
from tests.ingest.text_damage import (
    Tables,
    check_cuts,
    check_encodings,
    check_flips,
    check_junk,
    data_loss,
    read_text,
    rows_of,
    write,
)  # fmt: skip

DATA = Path(__file__).parents[1] / "data" / "bpftrace_cuda"
COLUMNS = ("ts_ns", "process_id", "thread_id", "name", "address", "size_bytes", "return_code")
HEAD = "Attaching 9 probes...\n# bpftrace cuda_mem clock=monotonic\n"
CALL = "50286442016 426 427 cuMemAlloc 0x7f4e44800000 20971520 0\n"
STACK = "\t7f51996146f3 leaf(int)+12 (/lib/a.so)\n\t7f5199614700 root+0x1f (/lib/b.so)\n\n\n"


def expected_records(path: Path) -> list[tuple[tuple[object, ...], list[tuple[str, str | None]]]]:
    """A second reading of whole records: the numbers, and (function, module) root first."""
    records = []
    for head, stack in re.findall(r"^(\d+ \d+ \d+ cu.*)\n((?:\t.*\n)*)", path.read_text(), re.MULTILINE):
        ts, pid, tid, call, address, size, result = head.split(" ")
        frames: list[tuple[str, str | None]] = []
        for line in stack.splitlines():
            symbol, module = line.split(" ", 1)[1].rsplit(" (", 1)
            known = module != "[unknown])"
            frames.insert(0, (symbol.rsplit("+", 1)[0] if known else symbol, module[:-1] if known else None))
        bytes_known = int(size) if call not in ("cuMemFree", "cuMemRelease") else None
        row = (int(ts), int(pid), int(tid), call, int(address, 16), bytes_known, int(result))
        records.append((row, frames))
    return records


def stacks_of(tables: Tables) -> list[list[tuple[str, str | None]]]:
    """Stacks of the events in file order, root first."""
    frames = {row[0]: row[1:] for row in tables["frames"].select("frame_id", "function", "module").rows()}
    paths = dict(tables["call_paths"].select("call_path_id", "frame_ids").rows())
    events = tables["memory_events"].sort("event_index")["call_path_id"]
    return [[frames[frame] for frame in paths[path]] if path is not None else [] for path in events]


@pytest.mark.parametrize("name", ["kv_leak.txt", "expandable.txt"])
def test_real_file(name: str, tmp_path: Path) -> None:
    tables = check_importer(DATA / name, tmp_path, IMPORTER)
    expected = expected_records(DATA / name)
    assert len(expected) >= 6
    assert rows_of(tables, "memory_events", COLUMNS) == [row for row, _ in expected]
    assert stacks_of(tables) == [stack for _, stack in expected]
    assert tables["memory_events"]["level"].unique().to_list() == ["driver"]
    assert tables["memory_events"]["source"].unique().to_list() == ["ebpf"]
    assert data_loss(tables) == {}


def test_what_the_calls_mean(tmp_path: Path) -> None:
    columns = ("name", "action", "memory_kind", "return_code")
    rows = rows_of(ingest_file(DATA / "expandable.txt", tmp_path, IMPORTER), "memory_events", columns)
    assert rows == [
        ("cuMemCreate", "create", "device", 800),  # CUDA_ERROR_NOT_PERMITTED
        ("cuMemCreate", "create", "device", 0),
        ("cuMemMap", "map", "device", 0),
        ("cuMemCreate", "create", "device", 0),
        ("cuMemFree", "other", None, 0),  # of a null pointer
        ("cuMemAlloc", "alloc", "device", 0),
    ]


def test_clock_and_process(tmp_path: Path) -> None:
    sink = read_into(DATA / "kv_leak.txt", tmp_path / "a", IMPORTER)
    assert (sink.clock, sink.process_id) == ("monotonic", 426)
    for clock, expected in (("boot", "boottime"), ("realtime", "realtime"), ("tai", "unknown")):
        path = write(tmp_path, HEAD.replace("monotonic", clock) + CALL + CALL.replace(" 426 ", " 428 "))
        sink = read_into(path, tmp_path / clock, IMPORTER)
        assert (sink.clock, sink.process_id) == (expected, None)
    sink = read_into(write(tmp_path, CALL), tmp_path / "none", IMPORTER)
    assert sink.clock == "unknown"
    assert ("clock_not_declared", "info") in sink.counts


@pytest.mark.skipif(not SHARED.exists(), reason="the full captures are not beside the checkout")
def test_every_capture(tmp_path: Path) -> None:
    paths = sorted((SHARED / "captures").glob("**/bpftrace.txt"))
    assert len(paths) >= 7
    for path in paths:
        tables = ingest_file(path, tmp_path, IMPORTER)
        expected = expected_records(path)
        assert rows_of(tables, "memory_events", COLUMNS) == [row for row, _ in expected], path
        assert stacks_of(tables) == [stack for _, stack in expected], path
        assert data_loss(tables) == {}, path


@pytest.mark.parametrize(
    ("line", "function", "module"),
    [
        ("\t7f51 cudaMalloc+391 (/l/libcudart.so.13)", "cudaMalloc", "/l/libcudart.so.13"),
        (
            "\t7f51 at::(anonymous namespace)::f<float, (E)3>(c10::ArrayRef<long>, bool)+203 (/l/a b.so)",
            "at::(anonymous namespace)::f<float, (E)3>(c10::ArrayRef<long>, bool)",
            "/l/a b.so",
        ),
        ("\t7f51 operator+(A const&, B)+4 (/l/a.so)", "operator+(A const&, B)", "/l/a.so"),
        ("\t7f51 f<1+2 (x)>(int)+0x1f (/l/x+1 (deleted))", "f<1+2 (x)>(int)", "/l/x+1 (deleted)"),
        ("\t7f51 operator()(int) const+7 (/l/a.so)", "operator()(int) const", "/l/a.so"),
        ("\t7f51 add+3 (/l/a.so)", "add", "/l/a.so"),
        ("\t7f51 main (/bin/app)", "main", "/bin/app"),
        ("\t7f51 [unknown] (/l/a.so)", "[unknown]", "/l/a.so"),
        ("\t7f51 0x7f51 (/l/a.so)", "[unknown]", "/l/a.so"),
        ("\t7f51996 0x7f51996 ([unknown])", "0x7f51996", None),
        ("\t7f51996 [unknown] ([unknown])", "7f51996", None),
        ("        cuMemAlloc_v2+0", "cuMemAlloc_v2", None),
        ("        foo(int, (anonymous namespace)::T)+12", "foo(int, (anonymous namespace)::T)", None),
        ("        fade+12", "fade", None),
        ("        0x7f5199641b5e", "0x7f5199641b5e", None),
        ("        7f5199641b5e", "7f5199641b5e", None),
    ],
)
def test_frames(line: str, function: str, module: str | None) -> None:
    assert parse_frame(line) == Frame(function, module=module)


def test_variants_of_calls_and_numbers(tmp_path: Path) -> None:
    lines = [
        "1 2 3 cuMemAlloc_v2 140000000 0x100 0",
        "2 2 3 cuMemAllocAsync_ptsz 7fabc0000000 16 -2",
        "3 2 3 cuMemAllocManaged 0x10 16 0x2",
        "4 2 3 cuMemHostAlloc 0x20 16 0 python extra",
        "5 2 3 cuMemFreeHost 0x20 0 0",
        "6 2 3 cuMemFreeAsync 0x10 0 0",
        "7 2 3 cuMemUnmap 0x10 4096 0",
        "8 2 3 cuMemRelease 0x5 0 0",
        "9 2 3 cuMemFree_v2 (nil) 0 0",
        "10 2 3 cuMemAdvise 0x10 16 0",
    ]
    tables = read_text(HEAD + "\n".join(lines) + "\n", tmp_path, IMPORTER)
    columns = ("action", "memory_kind", "address", "size_bytes", "return_code")
    assert rows_of(tables, "memory_events", columns) == [
        ("alloc", "device", 140000000, 256, 0),
        ("alloc", "device", 0x7FABC0000000, 16, -2),
        ("alloc", "managed", 16, 16, 2),
        ("alloc", "pinned", 32, 16, 0),
        ("free", "pinned", 32, None, 0),
        ("free", "device", 16, None, 0),
        ("unmap", "device", 16, 4096, 0),
        ("release", "device", 5, None, 0),
        ("other", None, 0, None, 0),
        ("other", None, 16, 16, 0),
    ]
    assert counts_of(tables) == {("unknown_calls", "info"): 1, ("frees_of_null", "info"): 1}


def test_noise_and_losses(tmp_path: Path) -> None:
    text = (
        "WARNING: could not resolve symbols\nAttached 9 probes\n" + HEAD + CALL + STACK + "Lost 42 events\n"
        "Lost 8 events\n@p[427]: 140724\n@t[427]: 1\n\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    assert tables["memory_events"].height == 1
    assert counts_of(tables) == {("lost_events", "data_loss"): 50}


def test_a_damaged_record_does_not_give_its_stack_away(tmp_path: Path) -> None:
    for broken in (CALL.replace(" 426 ", " 4q6 "), CALL.replace("cuMem", "xyMem"), CALL[:40] + "\n", "?" + CALL[1:]):
        text = HEAD + CALL + "\n" + broken + STACK + CALL.replace("0x7f", "0x6f") + STACK
        tables = read_text(text, tmp_path, IMPORTER)
        assert stacks_of(tables) == [[], [("root", "/lib/b.so"), ("leaf(int)", "/lib/a.so")]]
        lost = data_loss(tables)
        assert lost["damaged_rows"] + lost["unreadable_lines"] == 1
        assert lost["stack_lines_without_call"] == 2


def test_numbers_out_of_range(tmp_path: Path) -> None:
    text = HEAD + "".join(
        CALL.replace(*change)
        for change in (
            ("50286442016", "9" * 19),
            ("0x7f4e44800000", "0x1ffffffffffffffff"),
            ("20971520", "99999999999999999999"),
            ("20971520", "-1"),
            ("0x7f4e44800000", "0xffffffffffffffff"),
        )
    )
    tables = read_text(text, tmp_path, IMPORTER)
    assert tables["memory_events"]["address"].to_list() == [2**64 - 1]
    assert data_loss(tables) == {"numbers_beyond_64_bits": 3, "negative_values": 1}
    details = dict(tables["diagnostics"].select("name", "detail").rows())
    assert "line 3" in details["numbers_beyond_64_bits"]


def test_bounds(tmp_path: Path) -> None:
    deep = "".join(f"\t7f{i:010x} f{i}+1 (/l/a.so)\n" for i in range(3000))
    tables = read_text(HEAD + CALL + deep + "\n" + "x" * 3_000_000 + "\n" + CALL, tmp_path, IMPORTER)
    assert [len(stack) for stack in stacks_of(tables)] == [1024, 0]
    assert data_loss(tables) == {"deep_stacks": 3000 - 1024, "long_lines": 1}


@pytest.mark.parametrize("name", ["kv_leak.txt", "expandable.txt"])
def test_damage(name: str, tmp_path: Path) -> None:
    check_encodings(DATA / name, tmp_path, IMPORTER)
    check_cuts(DATA / name, tmp_path, IMPORTER, "memory_events", COLUMNS)
    check_flips(DATA / name, tmp_path, IMPORTER, "memory_events", COLUMNS, rows_a_line=1)


def test_a_cut_stack_is_the_only_one_that_changes(tmp_path: Path) -> None:
    data = (DATA / "kv_leak.txt").read_bytes()
    whole = stacks_of(ingest_file(DATA / "kv_leak.txt", tmp_path, IMPORTER))
    for end in range(400, len(data), 997):
        tables = read_text(data[:end], tmp_path, IMPORTER)
        stacks = stacks_of(tables) if "frames" in tables else []
        assert stacks[:-1] == whole[: max(len(stacks) - 1, 0)]
        if stacks:  # what is left of the last one is its leaf end, whole frames only
            assert whole[len(stacks) - 1][len(whole[len(stacks) - 1]) - len(stacks[-1]) :] == stacks[-1]


def test_header_alone(tmp_path: Path) -> None:
    assert read_text(HEAD, tmp_path, IMPORTER) == {}


def test_junk(tmp_path: Path) -> None:
    check_junk(HEAD.encode(), tmp_path, IMPORTER, lambda chance: chance.randbytes(chance.randrange(80)))


def test_one_stack_is_one_call_path(tmp_path: Path) -> None:
    tables = read_text(HEAD + (CALL + STACK) * 500, tmp_path, IMPORTER)
    assert tables["memory_events"]["call_path_id"].n_unique() == 1
    assert tables["call_paths"].select(pl.col("depth_count")).to_series().to_list() == [2]
