"""ftrace text: files of a 6.18 kernel against a second reading, the forms of other kernels and trace-cmd, damage."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ingest.callpaths import Frame
from ingest.ftrace import IMPORTER
from ingest.ftrace_frames import parse_ftrace_frame
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

DATA = Path(__file__).parents[1] / "data" / "ftrace"
SNIPPETS = SHARED / "corpus" / "snippets"
COLUMNS = ("ts_ns", "thread_id", "cpu_index", "action", "address", "size_bytes", "requested_bytes")
HEAD = "# tracer: nop\n#\n"
FREE = "kfree: call_site=f+0x1/0x2 ptr=0000000062400820\n"
LINE = re.compile(r"-(\d+) .*\[(\d+)\] \S+ +(\d+)\.(\d{6}): (\w+): (.*)")


def second_reading(path: Path) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for pid, cpu, s, us, name, rest in LINE.findall(path.read_text()):
        fields = dict(re.findall(r"(\w+)=(\S+)", rest))
        when = (int(s + us) * 1000, int(pid), int(cpu))
        if "ptr" in fields:
            address = int(fields["ptr"].strip("(").replace("null)", "0"), 16) if "null" not in rest else 0
            action = ("alloc" if "bytes_req" in fields else "free") if address else "other"
            sizes = [int(fields[key]) if key in fields else None for key in ("bytes_alloc", "bytes_req")]
            rows.append((*when, action, address, *sizes))
        elif "pfn" in fields:
            size = 4096 << int(fields["order"])
            rows.append(
                (*when, "alloc" if name == "mm_page_alloc" else "free", int(fields["pfn"], 16) * 4096, size, None)
            )
    return rows


@pytest.mark.parametrize("form", ["", "_ns", "_latency"])
def test_trace_cmd_reports_say_what_the_kernel_said(form: str, tmp_path: Path) -> None:
    """Reports of one buffer; the kernel itself hides addresses behind hashes."""
    path = DATA / f"trace_cmd{form}.txt"
    tables = check_importer(path, tmp_path, IMPORTER)
    kernel = ingest_file(DATA / "trace_cmd_source.txt", tmp_path, IMPORTER)
    known = [name for name in COLUMNS if name not in ("ts_ns", "address")]
    assert rows_of(tables, "memory_events", known) == rows_of(kernel, "memory_events", known)
    sites = [each["frames"]["function"].to_list() for each in (tables, kernel)]
    assert sites[0] == sites[1]
    assert len(sites[0]) > 5
    text = path.read_text()
    numbers = re.findall(r" ptr=(0x[0-9a-f]+)| pfn=(0x[0-9a-f]+)|ptr=\(?(0x0|\(nil\)|null)\)?", text)
    expected = [int(ptr, 16) if ptr else int(pfn, 16) * 4096 if pfn else 0 for ptr, pfn, _ in numbers]
    assert [row[0] for row in rows_of(tables, "memory_events", ("address",))] == expected
    times = [int(s) * 10**9 + int(f.ljust(9, "0")) for s, f in re.findall(r" (\d+)\.(\d+): ", text)]
    assert [row[0] for row in rows_of(tables, "memory_events", ("ts_ns",))] == times


@pytest.mark.parametrize("name", ["kernel_6.18.txt", "kernel_6.18_stacks.txt"])
def test_real_file(name: str, tmp_path: Path) -> None:
    tables = check_importer(DATA / name, tmp_path, IMPORTER)
    text = (DATA / name).read_text()
    expected = second_reading(DATA / name)
    assert len(expected) >= 40
    assert rows_of(tables, "memory_events", COLUMNS) == expected
    calls = Counter(match[4] for match in LINE.findall(text))
    assert tables["metrics"].height == calls["rss_stat"] > 0
    nulls = len(re.findall(r"kfree: .* ptr=0+$", text, re.MULTILINE))
    told = {"other_event_sched_switch": calls["sched_switch"], "frees_of_null": nulls}
    assert counts_of(tables) == {(name, "info"): count for name, count in told.items() if count}
    kinds = Counter(tables["memory_events"]["memory_kind"].to_list())
    assert kinds["page"] == calls["mm_page_alloc"] + calls["mm_page_free"]
    assert tables["memory_events"]["process_id"].unique().to_list() == [0]


def test_stacks_are_those_below_each_event(tmp_path: Path) -> None:
    path = DATA / "kernel_6.18_stacks.txt"
    tables = ingest_file(path, tmp_path, IMPORTER)
    stacks = []
    for record in re.split(r"(?m)^(?=.*\]\s+\S+\s+\S+: (?!<stack))", path.read_text()):
        if re.search(r": (?:k\w+|mm_page_\w+): ", record):
            frames = [re.sub(r"\+0x.*", "", frame) for frame in re.findall(r"^ => (.*)$", record, re.MULTILINE)]
            caches = re.findall(r" name=(\S+)", record)
            kmalloc = re.search(r": kmalloc(?:_node)?: .*bytes_alloc=(\d+)", record)
            if kmalloc and not caches:
                size = int(kmalloc[1])
                caches = [f"kmalloc-{size // 1024}k" if size % 1024 == 0 else f"kmalloc-{size}"]
            callers = frames or re.findall(r"call_site=([^+]+)", record)
            stacks.append([*(f"{cache} slab" for cache in caches), *callers])
    assert paths_of(tables, "memory_events") == stacks
    assert max(map(len, stacks)) > 10


@pytest.mark.skipif(not SNIPPETS.exists(), reason="the public corpus is not beside the checkout")
def test_every_snippet(tmp_path: Path) -> None:
    paths = sorted(SNIPPETS.glob("kmem_ftrace_*"))
    assert len(paths) >= 2
    for path in paths:
        tables = ingest_file(path, tmp_path, IMPORTER)
        pointers = re.findall(r"ptr=(\w+)", path.read_text())
        assert tables["memory_events"]["address"].to_list() == [int(text, 16) for text in pointers]
        assert counts_of(tables) == {}


@pytest.mark.parametrize(
    ("line", "thread", "comm", "time"),
    [
        ("          <idle>-0     [000] d.h3. 12.000001: ", 0, "<idle>", 12_000_001_000),
        ("           <...>-1264  [002] ...1 18154.755581: ", 1264, None, 18_154_755_581_000),
        (" my: app-2 x-1264  ( 1260) [002] ....  1.5: ", 1264, "my: app-2 x", 1_500_000_000),
        ("    kworker/u8:1-1264  (-----) [002]  1.5: ", 1264, "kworker/u8:1", 1_500_000_000),
        ("bash-1264  [002] (1260) .... 1.123456789: ", 1264, "bash", 1_123_456_789),
        ("[002] ....   808.188897: ", None, None, 808_188_897_000),
        ("bash-1264  [002] d..2.  5021345678: ", 1264, "bash", None),
    ],
)
def test_headers_of_lines(line: str, thread: int | None, comm: str | None, time: int | None, tmp_path: Path) -> None:
    tables = read_text(HEAD + line + FREE, tmp_path, IMPORTER)
    columns = ("thread_id", "ts_ns", "action", "address", "user_metadata")
    metadata = f"comm={comm}" if comm else None
    assert rows_of(tables, "memory_events", columns) == [(thread, time, "free", 0x62400820, metadata)]
    assert data_loss(tables) == {}


def test_trace_cmd_report(tmp_path: Path) -> None:
    text = (
        "version = 7\nCPU 1 is empty\ncpus=2\n"
        "             cat-77    [000] d..1.   100.000001: kmem_cache_alloc:     (prepare_creds+0x26) call_site="
        "ffffffff810a1b26 ptr=0xffff888104a0 bytes_req=168 bytes_alloc=192 gfp_flags=GFP_KERNEL\n"
        "             cat-77    [000] d..1.   100.000002: kernel_stack:         <stack trace >\n"
        "=> kmem_cache_alloc (ffffffff812a)\n=> prepare_creds (ffffffff810a)\n"
        "             cat-77    [000] .....   100.000003: sys_exit_brk:         0x0\n"
        "CPU:0 [7 EVENTS DROPPED]\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    assert rows_of(tables, "memory_events", COLUMNS[2:]) == [(0, "alloc", 0xFFFF888104A0, 192, 168)]
    assert paths_of(tables, "memory_events") == [["kmem_cache_alloc", "prepare_creds"]]
    assert counts_of(tables) == {("other_event_sys_exit_brk", "info"): 1, ("lost_events", "data_loss"): 7}


def test_a_stack_goes_to_the_event_of_its_cpu_and_task(tmp_path: Path) -> None:
    text = HEAD + "a-1 [000] .... 1.0: " + FREE + "b-2 [001] .... 1.0: " + FREE.replace("=f", "=g")
    text += "a-1 [000] .... 1.1: <stack trace>\n => kfree\n => root\nc-3 [001] .... 1.2: <stack trace>\n => nobody\n"
    text += "b-2 [001] .... 1.3: <user stack trace>\n =>  <00007f12>\n"
    tables = read_text(text, tmp_path, IMPORTER)
    assert paths_of(tables, "memory_events") == [["kfree", "root"], ["g"]]


def test_clock_and_losses(tmp_path: Path) -> None:
    text = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 3/10   #P:2\n#\na-1 [000] .... 1.0: " + FREE
    text += "CPU:1 [LOST 42 EVENTS]\nnonsense\n => nowhere\n"
    tables = read_text(text, tmp_path, IMPORTER)
    assert data_loss(tables) == {"lost_events": 49, "unreadable_lines": 1, "stack_lines_without_event": 1}
    assert read_into(write(tmp_path, text), tmp_path / "a", IMPORTER).clock == "unknown"
    for said, clock in (("mono", "monotonic"), ("[local] global counter", "perf"), ("local global [boot]", "boottime")):
        named = write(tmp_path, f"# trace_clock: {said}\n" + text)
        assert read_into(named, tmp_path / clock, IMPORTER).clock == clock


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        ("kmem_cache_alloc", Frame("kmem_cache_alloc")),
        ("kmem_cache_alloc+0x1f/0x130 <ffffffff81>", Frame("kmem_cache_alloc")),
        ("foo [ext4] (ffffffff81)", Frame("foo [ext4]")),
        (" <00007f12>", Frame("[unknown]", address=0x7F12)),
        ("0xffffffffc0a1", Frame("[unknown]", address=0xFFFFFFFFC0A1)),
        ("/lib/libc.so.6[+0x1234] <00007f12>", Frame("[unknown]", module="/lib/libc.so.6", address=0x7F12)),
        ("", None),
    ],
)
def test_frames(line: str, frame: Frame | None) -> None:
    assert parse_ftrace_frame(line) == frame


def test_many_kinds_of_events_are_bounded(tmp_path: Path) -> None:
    lines = "".join(f"a-1 [000] .... 1.0: event{n}: x\n" for n in range(500))
    counts = counts_of(read_text(HEAD + lines + "a-1 [000] .... 1.0: " + FREE, tmp_path, IMPORTER))
    assert len(counts) == 101 and counts["other_events", "info"] == 400


def test_damage(tmp_path: Path) -> None:
    check_encodings(DATA / "kernel_6.18.txt", tmp_path, IMPORTER)
    for name in ("kernel_6.18.txt", "kernel_6.18_stacks.txt"):
        check_cuts(DATA / name, tmp_path, IMPORTER, "memory_events", COLUMNS)
    check_flips(DATA / "kernel_6.18.txt", tmp_path, IMPORTER, "memory_events", COLUMNS, rows_a_line=1, seeds=range(10))
    line = b"a-1 [000] .... 1.0: kmalloc: "
    check_junk(HEAD.encode() + line, tmp_path, IMPORTER, lambda chance: line + chance.randbytes(40))
