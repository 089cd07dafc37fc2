"""perf script text: every header and frame form, several perf versions, kmem tracepoints, damage."""

from __future__ import annotations

import gzip
import random
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from ingest.callpaths import Frame
from ingest.errors import BadInput
from ingest.perf_frames import parse_frame
from ingest.perf_sample import event_facts
from ingest.perf_script import IMPORTER, sniff
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
)

DATA = Path(__file__).parents[1] / "data" / "perf"
CORPUS = SHARED / "corpus" / "perf_script"
SAMPLE = (
    "event", "ts_ns", "process_id", "thread_id", "process_name", "cpu_index", "sample_count", "weight", "unit",
)  # fmt: skip
STACKED = (*SAMPLE, "call_path_id")
MEMORY = (
    "action",
    "ts_ns",
    "process_id",
    "thread_id",
    "address",
    "size_bytes",
    "requested_bytes",
    "memory_kind",
    "name",
)
FRAME = "\t    401136 work+0x10 (/opt/app)\n\n"
S = 10**9


def stacks_of(tables: Tables) -> list[tuple[Frame, ...] | None]:
    """Stack of each sample in file order, root first."""
    if "call_paths" not in tables:
        return [None] * tables["stack_samples"].height
    frames = {row[0]: Frame(*row[1:]) for row in tables["frames"].select("frame_id", *Frame._fields).rows()}
    paths = {key: tuple(frames[i] for i in ids) for key, ids, _ in tables["call_paths"].rows()}
    return [paths.get(row[0]) for row in rows_of(tables, "stack_samples", ("call_path_id",))]


def unpacked(path: Path) -> str:
    """Text of a file, packed or not."""
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


@pytest.mark.parametrize("name", ["native.txt", "kmem.txt", "srcline.txt", "lines.txt"])
def test_real_file(name: str, tmp_path: Path) -> None:
    tables = check_importer(DATA / name, tmp_path, IMPORTER, golden=DATA / "golden" / f"{name}.golden")
    assert not data_loss(tables)
    text = (DATA / name).read_text()
    printed = re.findall(r"(?m)\s(\d+)\.(\d{6,9}): +(?:(\d+) +)?((?!PERF)\S+?): ", text)
    rows = rows_of(tables, "stack_samples", SAMPLE)
    assert [(row[0], row[1], row[7]) for row in rows] == [
        (event, int(seconds) * S + int(fraction.ljust(9, "0")), int(period) if period else None)
        for seconds, fraction, period, event in printed
    ]
    if name != "lines.txt":
        assert sum(map(len, filter(None, stacks_of(tables)))) == len(re.findall(r"(?m)^\t *[0-9a-f]+ \S", text))


def test_header_says_host_clock_and_version(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    sink = read_into(DATA / "native.txt", tmp_path / "out", IMPORTER)
    assert (sink.host, sink.clock, sink.format_version, sink.process_id) == ("vm", "monotonic", "perf 6.1.187", 1287)
    (pair,) = sink.clock_pairs
    assert re.search(rf"= {pair.realtime_ns // S}\.\d+ \(TOD\)", (DATA / "native.txt").read_text())
    assert abs(pair.monotonic_ns - 2080 * S) < S


def test_srcline_and_inlined(tmp_path: Path) -> None:
    stack = stacks_of(ingest_file(DATA / "srcline.txt", tmp_path, IMPORTER))[0]
    ld = "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    assert stack is not None
    assert stack[-1] == Frame("handle_amd", "dl-get-cpu-features.c", 322, ld)
    assert stack[-2] == Frame("dl_init_cacheinfo", "dl-cacheinfo.h", 772, "inlined")
    assert stack[0] == Frame("_start", None, None, ld)


HEADERS = {
    "sh 15216  1291.470947:     250000 cpu-clock: ": (
        "cpu-clock", 1291470947000, None, 15216, "sh", None, 250000, "ns",
    ),
    "sh 15216/15217 [003]  1291.470947523: cycles:u: ": ("cycles:u", 1291470947523, 15216, 15217, "sh", 3, None, None),
    "V8 Worker: 12 25607 [012] 94564.109216:        100 cpu/mem-loads,ldlat=30/P: ": (
        "cpu/mem-loads,ldlat=30/P", 94564109216000, None, 25607, "V8 Worker: 12", 12, 100, "count",
    ),
    "a: b 12 c;d  1287/1298  [001]  2080.336069487:          1 page-faults:u: ": (
        "page-faults:u", 2080336069487, 1287, 1298, "a: b 12 c;d", 1, 1, "count",
    ),
    "sh 15216 U      1291.470947:  7 cycles:ppp: ": ("cycles:ppp", 1291470947000, None, 15216, "sh", None, 7, "count"),
    "         python3 15856 [001] 2026-11-30 17:35:27.379935  1311.102022: raw 0x1a8: ": (
        "raw 0x1a8", 1311102022000, None, 15856, "python3", 1, None, None,
    ),
    ":-1    -1 [000] 5.000001: cycles: ": ("cycles", 5000001000, None, None, ":-1", 0, None, None),
    "15216  1291.470947: cpu-clock: ": ("cpu-clock", 1291470947000, None, 15216, None, None, None, None),
    "comm  1291.470947: cpu-clock: ": ("cpu-clock", 1291470947000, None, None, "comm", None, None, None),
    "java  3244 cpu-clock: ": ("cpu-clock", None, None, 3244, "java", None, None, None),
    "java 19983 [002] 55 cycles:": ("cycles", None, None, 19983, "java", 2, 55, "count"),
    "sh 15216  1291.470947: ": ("unknown", 1291470947000, None, 15216, "sh", None, None, None),
    "sh 15216 ": ("unknown", None, None, 15216, "sh", None, None, None),
    "kworker/u8:2-ev    99 [000]     0.000001:          1 sched:sched_wakeup: comm=x pid=1: y": (
        "sched:sched_wakeup", 1000, None, 99, "kworker/u8:2-ev", 0, 1, "count",
    ),
    "dd 29776 666709.771979:   10101010 probe_libc:malloc: (7f00) size=8": (
        "probe_libc:malloc", 666709771979000, None, 29776, "dd", None, 10101010, "count",
    ),
    f"x 1 {'9' * 12}.000000: {'9' * 20} cycles: ": ("cycles", None, None, 1, "x", None, None, None),
}  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), HEADERS.items())
def test_first_line(line: str, expected: tuple[object, ...], tmp_path: Path) -> None:
    text = f"{line}\n{FRAME}"
    tables = read_text(text, tmp_path, IMPORTER)
    (row,) = rows_of(tables, "stack_samples", SAMPLE)
    assert row == (*expected[:6], 1, *expected[6:])
    assert stacks_of(tables) == [(Frame("work", module="/opt/app"),)]
    assert ("numbers_beyond_64_bits" in data_loss(tables)) == line.startswith("x 1")


FRAMES = {
    "\tffffffff8103d0ca native_write_msr ([kernel.kallsyms])": ("native_write_msr", "[kernel.kallsyms]", None),
    "\t             7d8 ipv4_ct+0x7f8f80b8 ([nf_conntrack_ipv4])": ("ipv4_ct", "[nf_conntrack_ipv4]", None),
    "7f7241fbe6d8 arrayOopDesc::base(BasicType) const (/jre/libjvm.so)": (
        "arrayOopDesc::base(BasicType) const", "/jre/libjvm.so", None,
    ),
    "\t 6ce258d4c544155 [unknown] ([unknown])": ("[unknown]", None, 0x6CE258D4C544155),
    "\t           d44a2 [unknown] (/usr/lib/libstdc++.so.6)": ("[unknown]", "/usr/lib/libstdc++.so.6", 0xD44A2),
    "\t    7f1e2215d058  (/lib/libc-2.15.so)": ("", "/lib/libc-2.15.so", 0x7F1E2215D058),
    "\t    7f1e2215d058 (/lib/libc-2.15.so)": ("[unknown]", "/lib/libc-2.15.so", 0x7F1E2215D058),
    "\t    7f1e2215d058": ("[unknown]", None, 0x7F1E2215D058),
    "\t            e460 resolve_map+0x840 (inlined)": ("resolve_map", "inlined", None),
    "\t          401000 f(void (*)(int))": ("f(void (*)(int))", None, None),
    "\t          401000 f+0x12 (/memfd:a b (deleted))": ("f", "/memfd:a b (deleted)", None),
    "\t          401000 f+0x12 (/lib/x.so+0xfe0)": ("f", "/lib/x.so", None),
    "            13a80b608e0a RegExp:[&<>\\\"\\'] (/tmp/perf-7.map)": ("RegExp:[&<>\\\"\\']", "/tmp/perf-7.map", None),
    "\t    7fc Lorg/a/B;::call (Ljava/lang/Object;)V (/tmp/perf-1.map)": (
        "Lorg/a/B;::call (Ljava/lang/Object;)V", "/tmp/perf-1.map", None,
    ),
    "\t  aaaa _RNvXs1_NtCs_4core7convert+0x4 (/t/a (1)/x)": ("_RNvXs1_NtCs_4core7convert", "/t/a (1)/x", None),
    "\t  aaaa <alloc::vec::Vec<T> as core::ops::Index<I>>::index (/t)": (
        "<alloc::vec::Vec<T> as core::ops::Index<I>>::index", "/t", None,
    ),
    "\t  12 net/http.(*conn).serve (/t)": ("net/http.(*conn).serve", "/t", None),
}  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), FRAMES.items())
def test_frame(line: str, expected: tuple[str, str | None, int | None]) -> None:
    function, module, address = expected
    assert parse_frame(line) == Frame(function, None, None, module, address)


@pytest.mark.parametrize(
    "line", ["", "   ", "  file.c:12", "\tzz main (/x)", f"\t{'f' * 17} main (/x)", " insn: 85 db"]
)
def test_no_frame(line: str) -> None:
    assert parse_frame(line) is None


def test_tracepoints_by_their_name() -> None:
    tracepoints = ("sched:sched_switch", "probe:do_sys_open", "msr:read_msr", "kmem:kfree", "nvme:nvme_sq")
    sampled = ("cycles", "cycles:u", "cycles:ppp", "cpu/x/uH", "mem:0x1:rw", "cpu-clock:pppH", "cycles:P", "raw 0x1:u")
    assert [event_facts(event).is_tracepoint for event in (*tracepoints, *sampled)] == [True] * 5 + [False] * 8
    assert event_facts("task-clock:u").unit == "ns"


def test_samples_on_one_line_and_what_follows_a_stack(tmp_path: Path) -> None:
    text = (
        "     x 1  1.000001:  5 cycles:      7f14fac1f389 f(int)+0x1 (/lib/x.so)\n"
        "     x 1  1.000002:  5 cycles:      7f14fac1f389 [unknown] ([unknown])\n"
        "     x 1  1.000003:  5 cpu/mem-loads/:  7ffe 5080144 |OP LOAD|LVL L1 hit\n"
        "x 1  1.000004:  5 cycles: \n\t 10 f (/lib/x.so)\n insn: 85 db\n"
        "x 1  1.000005:  5 cycles: \n\t 10 f (/lib/x.so)\n0x4001a3/0x400123/P/-/-/0  0x4001a3/0x400123/P/-/-/0 \n\n"
        "LOST 7 events!\n"
        "x 1  1.000006: PERF_RECORD_LOST lost 3\n"
        "x 1  1.000007: PERF_RECORD_MMAP2 1/1: [0x7fff99757000(0x21000) @ 0 00:00 0 0]: rw-p [stack]\n"
        "Processed 70 events and lost 2 chunks!\n"
        "x 1  1.000008:  5 cycles: \n\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    f = (Frame("f", module="/lib/x.so"),)
    assert stacks_of(tables) == [
        (Frame("f(int)", module="/lib/x.so"),),
        (Frame("[unknown]", address=0x7F14FAC1F389),),
        None,
        f,
        f,
        None,
    ]
    assert counts_of(tables) == {
        ("other_sample_fields", "info"): 1,
        ("other_sample_lines", "info"): 2,
        ("perf_records_left_out", "info"): 1,
        ("lost_events", "data_loss"): 10,
        ("lost_chunks", "data_loss"): 2,
    }


def test_processes_by_task_records(tmp_path: Path) -> None:
    text = (
        "x 0  0.000000: PERF_RECORD_COMM exec: my app:70/70\n"
        "my app 70  1.000000: PERF_RECORD_FORK(70:71):(70:70)\n"
        f"worker 71  1.000001: 5 cycles: \n{FRAME}my app 70  1.000002: 5 cycles: \n{FRAME}"
        f"other 9  1.000003: 5 cycles: \n{FRAME}"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    assert [row[2:4] for row in rows_of(tables, "stack_samples", SAMPLE)] == [(70, 71), (70, 70), (None, 9)]
    assert tables["processes"].select("process_id", "process_name").rows() == [(70, "my app")]


def test_command_line_stays_out(tmp_path: Path) -> None:
    head = (DATA / "native.txt").read_text()
    secret = "export TOKEN=hunter2\nimport os\n \nh=open('x')\n"
    text = re.sub(r"(?m)^(# cmdline : .*)$", rf"\1 {secret}", head)
    assert secret in text
    tables = read_text(text, tmp_path, IMPORTER)
    plain = ingest_file(DATA / "native.txt", tmp_path, IMPORTER)
    assert all(tables[name].equals(plain[name]) for name in plain)
    assert not any("hunter2" in path.read_text("latin-1") for path in tmp_path.glob("parts*/*/*.parquet"))


@pytest.mark.parametrize(
    ("option", "clock"),
    [
        ("-k mono", "monotonic"),
        ("--clockid=CLOCK_MONOTONIC_RAW", "monotonic_raw"),
        ("-kboottime", "boottime"),
        ("", "perf"),
    ],
)
def test_clock_of_the_command_line(option: str, clock: str, tmp_path: Path) -> None:
    head = f"# ========\n# hostname : h\n# cmdline : /usr/bin/perf record {option} -g x \n# ========\n#\n"
    text = f"{head}x 1 1.000001: c: \n{FRAME}"
    (tmp_path / "out").mkdir()
    assert read_into(write(tmp_path, text), tmp_path / "out", IMPORTER).clock == clock


def kmem_rows(text: str) -> Counter[tuple[str, str, int | None]]:
    """(call, address, size) of every kmem line, by a regular expression."""
    found = re.findall(
        r"kmem:(\w+): .*?(?:ptr=0x([0-9a-f]+)(?:.*bytes_alloc=(\d+))?|pfn=0x([0-9a-f]+) order=(\d))", text
    )
    return Counter(
        (call, int(ptr, 16), int(size) if size else None) if ptr else (call, int(pfn, 16) << 12, 4096 << int(order))
        for call, ptr, size, pfn, order in found
    )


def test_kernel_memory(tmp_path: Path) -> None:
    tables = ingest_file(DATA / "kmem.txt", tmp_path, IMPORTER)
    text = (DATA / "kmem.txt").read_text()
    memory = tables["memory_events"]
    assert set(memory["level"]) == {"host"}
    rows = rows_of(tables, "memory_events", ("address", "size_bytes"))
    assert Counter(row for row in rows if row[0]) == Counter(row[1:] for row in kmem_rows(text).elements())
    kinds = Counter(memory.select("action", "memory_kind").rows())
    events = Counter(re.findall(r"kmem:(\w+): ", text))
    nulls = text.count("ptr=(nil)")
    assert kinds["alloc", "slab"] == events["kmalloc"] + events["kmem_cache_alloc"]
    assert kinds["free", "slab"] == events["kfree"] + events["kmem_cache_free"] - nulls
    assert kinds["alloc", "page"] == events["mm_page_alloc"]
    assert kinds["free", "page"] == events["mm_page_free"]
    assert kinds["other", "page"] == events["mm_page_free_batched"]
    assert kinds["other", "unknown"] == events["rss_stat"]
    assert counts_of(tables)["frees_of_null", "info"] == nulls > 0
    assert counts_of(tables)["tracepoint_fields_left_out", "info"] == text.count("sched:sched_switch: ")
    samples = {row[1]: row[2] for row in rows_of(tables, "stack_samples", ("event", "ts_ns", "call_path_id"))}
    frames = {
        frame: (function, module)
        for frame, function, module in tables["frames"].select("frame_id", "function", "module").rows()
    }
    paths = dict(tables["call_paths"].select("call_path_id", "frame_ids").rows())
    named = 0
    for name, ts, path in rows_of(tables, "memory_events", ("name", "ts_ns", "call_path_id")):
        event, sample = ([frames[i] for i in paths.get(number, ())] for number in (path, samples[ts]))
        named += event[-1:] == [(name, "slab")]
        assert [frame for frame in event if frame[1] != "slab"] == sample
    assert named == len(re.findall(r"kmem:kmem_cache_\w+: .* name=", text)) > 0


def test_call_site_stands_for_a_missing_stack(tmp_path: Path) -> None:
    text = (
        "x 7/8 [1] 1.000001: kmem:kmalloc: call_site=f+0x1/0x20 [ext4] ptr=0xff bytes_req=1 bytes_alloc=8 gfp_flags=0\n"
        "x 7/8 [1] 1.000002: kmem:kmalloc: call_site=ffffffff81000000 ptr=0xfe bytes_req=1 bytes_alloc=8 gfp_flags=0\n"
        "x 7/8 [1] 1.000003: kmem:rss_stat: mm_id=1 curr=1 type=MM_ANONPAGES size=4096B\n"
        "x 7/8 [1] 1.000004: kmem:kmalloc: call_site=f ptr=(____ptrval____) bytes_req=1 bytes_alloc=x\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    site, address = Frame("f", module="ext4"), Frame("[unknown]", address=0xFFFFFFFF81000000)
    assert stacks_of(tables) == [(site,), (address,), None, (Frame("f"),)]
    assert rows_of(tables, "memory_events", MEMORY) == [
        ("alloc", S + 1000, 0, 8, 0xFF, 8, 1, "slab", "kmalloc"),
        ("alloc", S + 2000, 0, 8, 0xFE, 8, 1, "slab", "kmalloc"),
        ("other", S + 3000, 7, 8, None, 4096, None, "unknown", "rss_stat MM_ANONPAGES"),
        ("other", S + 4000, 0, 8, None, None, 1, "slab", "kmalloc"),
    ]
    assert data_loss(tables) == {"damaged_values": 1}


@pytest.mark.skipif(not SHARED.exists(), reason="the full captures are not beside the checkout")
def test_capture_of_kernel_memory(tmp_path: Path) -> None:
    path = SHARED / "captures" / "host_kmem" / "kmem_perf_script.txt.gz"
    tables = ingest_file(path, tmp_path, IMPORTER)
    text = unpacked(path)
    rows = rows_of(tables, "memory_events", ("action", "address", "size_bytes", "name"))
    assert Counter(row[0] for row in rows) == {
        "alloc": text.count("kmem:kmem_cache_alloc:"), "free": text.count("kmem:kmem_cache_free:"),
    }  # fmt: skip
    assert sum(row[2] or 0 for row in rows) == sum(map(int, re.findall(r"bytes_alloc=(\d+)", text)))
    assert Counter(row[3] for row in rows) == Counter(re.findall(r" name=(\S+)", text))
    assert not counts_of(tables)


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not beside the checkout")
def test_corpus(tmp_path: Path) -> None:
    """As many samples and frames as lines say, and nothing lost but a last stack that may be cut."""
    for path in sorted(CORPUS.rglob("*.txt")):
        text = path.read_text()
        tables = ingest_file(path, tmp_path, IMPORTER)
        blocks = [block for block in re.sub(r"(?m)^#.*\n", "", text).strip("\n").split("\n\n") if block]
        kept = blocks if text.endswith("\n\n") or len(blocks) == 1 else blocks[:-1]
        assert tables["stack_samples"].height == len(kept), path
        lengths = [len(stack) if stack else 0 for stack in stacks_of(tables)]
        assert lengths == [block.count("\n") for block in kept], path
        assert data_loss(tables) == ({"cut_last_record": 1} if len(kept) < len(blocks) else {}), path


@pytest.mark.parametrize("name", ["native.txt", "kmem.txt"])
def test_damage(name: str, tmp_path: Path) -> None:
    check_encodings(DATA / name, tmp_path, IMPORTER)
    samples = write(tmp_path, re.sub(r"(?m)^#.*\n", "", (DATA / name).read_text()))
    check_cuts(samples, tmp_path, IMPORTER, "stack_samples", STACKED)
    check_flips(samples, tmp_path, IMPORTER, "stack_samples", STACKED, rows_a_line=1, seeds=range(10))


def test_junk(tmp_path: Path) -> None:
    words = [
        "x",
        "1",
        "[0]",
        "1.000001:",
        "cycles:",
        "kmem:kmalloc:",
        "ptr=",
        "\t",
        "(",
        ")",
        "PERF_RECORD_COMM",
        "#",
        ";",
    ]

    def line(chance: random.Random) -> bytes:
        return " ".join(chance.choices(words, k=chance.randrange(1, 12))).encode() + chance.randbytes(3)

    check_junk(f"x 1 1.000001: cycles: \n{FRAME}".encode(), tmp_path, IMPORTER, line)


def test_bounds(tmp_path: Path) -> None:
    head = "x 1 1.000001: cycles: \n"
    deep = head + "\t 10 f (/x)\n" * 5000 + "\n" + head + FRAME
    endless = head + "\t 10 " + "f" * 3_000_000 + " (/x)\n\n" + head + FRAME
    many = "".join(f"x 1 1.{n:06}: kmem:kmalloc: ptr=0x{n:x} bytes_req=1 bytes_alloc=1\n" for n in range(20_000))
    for text, name, samples in ((deep, "deep_stacks", 2), (endless, "long_lines", 2), (many, None, 20_000)):
        tables = read_text(text, tmp_path, IMPORTER)
        assert tables["stack_samples"].height == samples
        assert set(data_loss(tables)) == ({name} if name else set())


@pytest.mark.parametrize(
    "line",
    [
        "x" + " " * 900_000 + "y",
        "\t 10 a" + " " * 900_000 + "b",
        "  a" + " " * 900_000 + "b",
        "x " * 450_000,
        "1.000000: " * 90_000,
        "x 1 1.000001: kmem:kfree: " + "page=" * 180_000,
        "x 1 1.000001: kmem:kfree: " + "ptr=0 " * 150_000,
        "# event : name = a, " + "clockid = 1, " * 70_000,
        "# " + "a " * 450_000,
        "\t 10 " + "a (" * 300_000,
        "\t 10 " + "a) " * 300_000 + ")",
        "PERF_RECORD_" * 80_000,
        "lost 1 " * 130_000,
    ],
    ids=lambda line: line[:12],
)
def test_hostile_lines_take_no_time(line: str, tmp_path: Path) -> None:
    head = f"x 1 1.000001: cycles: \n{FRAME}"
    began = time.process_time()
    tables = read_text(f"{head}{line}\n{head}x 1 1.000002: cycles: \n{line}\n\n{head}", tmp_path, IMPORTER)
    assert tables["stack_samples"].height >= 4
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text",
    [
        "Xorg-1264  [002] ...1 18154.755581: kmalloc: call_site=ffffffff8141abe8 ptr=ffff8800734f4cc0\n",
        "  Xorg-1264  [002] 18154.755581: kmalloc:              call_site=ffffffff8141abe8\n",
        "[    0.000000] Linux version 5.4 (gcc): x\n[    1.234567] pci 0000:00: y\n",
        "Jan  1 12:00:00 host kernel: [ 12.345678] usb 1-1: new device\n",
        "main;f;g 12\nmain;f 3\n",
        "2439899861183 1 1 cuMemAlloc_v2 0x7f 512 0\n",
        "time 5 ratio:\n",
        "class A 3:\n    def f (x)\n",
        f"0 0x108 [0x50]: PERF_RECORD_MMAP -1/0: [0xffff(0x12) @ 0xff]: x _text\nx 1 1.000001: c: \n{FRAME}",
        "allocated 5 bytes:\n    add something (here)\n",
        "",
    ],
)
def test_not_mine(text: str) -> None:
    assert not sniff(text.encode(), Path("x"))


def test_nothing_but_a_header_is_refused(tmp_path: Path) -> None:
    text = "".join(line for line in (DATA / "native.txt").read_text().splitlines(True) if line.startswith("#"))
    with pytest.raises(BadInput, match="holds no sample"):
        read_text(text, tmp_path, IMPORTER)
