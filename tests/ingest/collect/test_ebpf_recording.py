"""`leakpath collect ebpf` under bpftrace: a stand-in for libcuda, slab objects, page faults, what can be missing."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from ingest.bpftrace_cuda import IMPORTER as CUDA
from ingest.bpftrace_maps import IMPORTER as MAPS
from ingest.collect import ebpf_target
from ingest.collect.ebpf_script import TEMPLATES, build_script, probes_of, template, without_cache_names
from ingest.collect.ebpf_wish import Wish, script_of
from ingest.errors import BadInput
from ingest.slab_table import IMPORTER as SLAB
from tests.ingest.stack_text import paths_of
from tests.ingest.support import ingest_file, read_into
from tests.ingest.text_damage import data_loss, rows_of

PROGRAMS = Path(__file__).parent / "bpf_programs"
LEAKPATH = Path(sys.executable).parent / "leakpath"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="bpftrace needs root")


def collect(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(LEAKPATH), "collect", "ebpf", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the stand-in library and a program that uses it."""
    folder = tmp_path_factory.mktemp("built")
    gcc = ["gcc", "-g", "-O0", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]
    subprocess.run([*gcc, "-shared", "-fPIC", "-o", folder / "libcuda.so.1", PROGRAMS / "libcuda.c"], check=True)
    link = ["-o", folder / "driver", PROGRAMS / "driver.c", f"-L{folder}", "-l:libcuda.so.1", f"-Wl,-rpath,{folder}"]
    subprocess.run([*gcc, *link], check=True)
    return folder


@needs_root
def test_cuda_calls_are_what_the_program_printed(built: Path, tmp_path: Path) -> None:
    done = collect(
        "cuda", "--libcuda", built / "libcuda.so.1", "--runtime", built / "driver", "-o", "out.txt", "--",
        built / "driver", folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed = [line.split() for line in done.stdout.splitlines()]
    assert len(printed) == 25 * 6 + 13 + 1
    tables = ingest_file(tmp_path / "out.txt", tmp_path, CUDA)
    events = rows_of(tables, "memory_events", ("name", "address", "size_bytes", "return_code"))
    expected = Counter((call, int(p, 16), int(size) or None, int(result)) for call, p, size, result in printed)
    assert Counter(events) == expected
    assert f"{len(printed)} records" in done.stderr and "0 lost" in done.stderr
    assert data_loss(tables) == {}

    # Calls by the functions that made them; the runtime's are no events of their own beside the driver's.
    paths = paths_of(tables, "memory_events")
    callers: Counter[tuple[object, str]] = Counter()
    for (name, *_), path in zip(events, paths, strict=True):
        functions = [frame.split(" ")[0] for frame in path]
        assert "main" in functions, path
        callers[name, functions[functions.index("main") - 1]] += 1
    assert callers["cuMemAlloc_v2", "keep_buffer"] == 26 and callers["cuMemFree_v2", "use_buffer"] == 25
    actions = dict(tables["memory_events"].group_by("name").agg(pl.col("action").first()).rows())
    assert (actions["cudaMalloc"], actions["cuMemAlloc_v2"], actions["cuMemRelease"]) == ("other", "alloc", "release")
    sink = read_into(tmp_path / "out.txt", tmp_path / "sink", CUDA)
    assert sink.clock == "boottime" and [pair.clock_position for pair in sink.clock_pairs] == ["start", "end"]
    start, end = (pair.boottime_ns for pair in sink.clock_pairs)
    times = tables["memory_events"]["ts_ns"]
    assert start is not None and end is not None and start < times.min() < times.max() < end  # type: ignore[operator]


@needs_root
def test_slab_rows_show_the_files_that_a_program_keeps(tmp_path: Path) -> None:
    program = [sys.executable, "-S", str(PROGRAMS / "files.py"), "120", str(PROGRAMS / "files.py")]
    done = collect("slab", "--stacks", "-o", "out.txt", "--", *program, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    tables = ingest_file(tmp_path / "out.txt", tmp_path, SLAB)
    events = tables["memory_events"].filter(pl.col("name") == "filp")
    allocs, frees = (events.filter(pl.col("action") == action) for action in ("alloc", "free"))
    assert 240 <= allocs.height < 600, "120 files kept, 120 closed, and Python's own"
    # What is still there when the last file is kept: each open of /dev/null was closed again.
    live: set[int] = set()
    most = 0
    for action, address in events.sort("event_index").select("action", "address").rows():
        (live.add if action == "alloc" else live.discard)(address)
        most = max(most, len(live))
    assert 120 <= most < 140
    assert frees.height >= 120
    assert events["thread_id"].n_unique() == 1
    leaves = [path for path in paths_of(tables, "memory_events") if path]
    assert any("alloc_empty_file" in path for path in leaves)
    assert data_loss(tables) == {}


@needs_root
def test_faults_and_resident_memory(tmp_path: Path) -> None:
    code = "import time; held = bytearray(64 << 20); time.sleep(1.5)"
    done = collect("faults", "-o", "out.txt", "--", sys.executable, "-S", "-c", code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    tables = ingest_file(tmp_path / "out.txt", tmp_path, MAPS)
    samples = tables["stack_samples"].filter(pl.col("event") == "@page_faults")
    assert samples["sample_count"].sum() > 30
    anonymous = tables["metrics"].filter(
        (pl.col("metric") == "process_rss_bytes") & pl.col("labels").str.contains('"key3":"1"', literal=True)
    )
    largest = anonymous["value"].max()
    assert isinstance(largest, float) and 64 << 20 <= largest < 256 << 20
    assert anonymous["ts_ns"].null_count() == 0 and anonymous["unit"].unique().to_list() == ["bytes"]


@needs_root
def test_a_running_process_and_a_signal(built: Path, tmp_path: Path) -> None:
    code = f"import ctypes, time; c = ctypes.CDLL({str(built / 'libcuda.so.1')!r}); p = ctypes.c_uint64()\n"
    code += "while True: c.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(77)); time.sleep(0.02)"
    target = subprocess.Popen([sys.executable, "-S", "-c", code])
    try:
        command = [LEAKPATH, "collect", "ebpf", "cuda", "--pid", str(target.pid), "-o", "out.txt"]
        recorder = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not (tmp_path / "out.txt").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(2)
        recorder.send_signal(signal.SIGTERM)
        assert recorder.stderr is not None
        said = recorder.stderr.read()
        assert recorder.wait(60) == 0, said
    finally:
        target.kill()
        target.wait()
    events = rows_of(ingest_file(tmp_path / "out.txt", tmp_path, CUDA), "memory_events", ("process_id", "size_bytes"))
    assert len(events) >= 10 and set(events) == {(target.pid, 77)}
    assert f"{len(events)} records" in said


@needs_root
def test_print_shows_a_script_and_a_refusal_is_one_line(tmp_path: Path) -> None:
    script = collect("slab", "--print", folder=tmp_path)
    assert script.returncode == 0 and "tracepoint:kmem:kmem_cache_alloc" in script.stdout
    (tmp_path / "out.txt").write_text("mine")
    done = collect("slab", "-o", "out.txt", "--duration", "1", folder=tmp_path)
    assert done.returncode == 4
    assert "exists already" in done.stderr and len(done.stderr.splitlines()) == 1
    assert (tmp_path / "out.txt").read_text() == "mine"
    for wish, said in (
        (Wish("cuda", libcuda="nowhere.so"), "no such file"),
        (Wish("cuda", libcuda="/bin/cat"), "none of the functions to record is in it"),
        (Wish("slab", pid=4194304), "no process 4194304"),
    ):
        with pytest.raises(BadInput, match=said):
            script_of(wish)


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="bpftrace is not on the path; install it"):
        ebpf_target.find_bpftrace()
    fake = tmp_path / "bpftrace"
    fake.write_text("#!/bin/sh\necho bpftrace v0.9.4\n")
    fake.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BadInput, match="bpftrace needs root"):
        ebpf_target.find_bpftrace()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(BadInput, match=r"v0\.9\.4; install 0\.14 or newer"):
        ebpf_target.find_bpftrace()
    monkeypatch.setattr(ebpf_target, "TRACEFS", (tmp_path, tmp_path / "none"))
    with pytest.raises(BadInput, match="tracefs is not mounted; mount -t tracefs"):
        ebpf_target.tracefs()
    with pytest.raises(BadInput, match=r"no libcuda\.so\.1 here"):
        ebpf_target.find_libcuda(None)
    odd = tmp_path / "a b.so"
    odd.touch()
    with pytest.raises(BadInput, match="bpftrace can't name this path"):
        ebpf_target.checked_path(str(odd))


def test_scripts_have_only_probes_that_exist() -> None:
    names = {"cuMemAlloc_v2", "cuMemCreate", "cuMemMap"}
    script = build_script(
        template("cuda"), exists=lambda target, name: target == "sched" or name in names, header=['100% "x" \\'],
        paths={"LIBCUDA": "/lib/libcuda.so.1"}, traced=(5, 6), parent=7, clock="monotonic",
    )  # fmt: skip
    assert {name for target, name in probes_of(script.replace("/lib/libcuda.so.1", "L")) if target == "L"} == names
    lists = re.findall(r"^uretprobe:\S+,\n(?:uretprobe:\S+,\n)*uretprobe:[^,\n]+\n/@ts", script, re.MULTILINE)
    assert len(lists) == 1 and "APP" not in script and "clock=monotonic" in script
    assert 'printf("# 100_ _x_ _\\n")' in script
    assert "@traced[5] = 2; @traced[6] = 2; @traced[7] = 1; " in script and "$1" not in script
    with pytest.raises(ValueError, match="none of the functions"):
        build_script(template("cuda"), exists=lambda target, name: target == "sched", paths={}, header=[])
    old = without_cache_names(template("slab"), ["kmem_cache_free"])
    assert old.count("str(args->name)") == template("slab").count("str(args->name)") - 1
    assert all(template(kind).startswith("//") for kind in TEMPLATES)


def test_bpftrace_is_installed() -> None:
    assert shutil.which("bpftrace"), "install bpftrace (.ci/run does): the recordings can't be tested without it"
