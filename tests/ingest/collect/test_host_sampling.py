"""`leakpath collect host` on this machine: a process that grows, signals, a cgroup of plain files, what is missing."""

from __future__ import annotations

import errno
import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingest.collect.host import HostSampler
from ingest.collect.host_cgroup import find_cgroup
from ingest.collect.summary import of_host
from ingest.errors import OutputError
from ingest.host_samples import IMPORTER
from tests.ingest.support import counts_of, ingest_file, read_into
from tests.ingest.text_damage import rows_of

from .harness import ROOT, collect

COLUMNS = ("metric", "ts_ns", "value", "process_id", "labels")
GROW = """
    import os, subprocess, sys, time

    def rss():
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    held, said = [], []
    for _ in range(6):
        held.append(b"x" * (16 << 20))
        said.append((time.time_ns(), rss()))
        time.sleep(0.25)
        said.append((time.time_ns(), rss()))
    child.kill()
    with open("said.txt", "w") as file:
        print(os.getpid(), child.pid, file=file)
        for line in said:
            print(*line, file=file)
"""


def test_a_growing_process_and_its_child(tmp_path: Path) -> None:
    result = collect(tmp_path, "host", "-o", "h.txt.gz", "--interval", "0.05", "--", "PYTHON", "app.py", app=GROW)
    assert result.returncode == 0, result.stderr
    tables = ingest_file(tmp_path / "h.txt.gz", tmp_path, IMPORTER)
    assert {name for name, severity in counts_of(tables) if severity != "info"} == set()
    rows = rows_of(tables, "metrics", COLUMNS)
    first, *lines = (tmp_path / "said.txt").read_text().splitlines()
    parent, child = (int(pid) for pid in first.split())
    said = [(int(ts), int(rss)) for ts, rss in (line.split() for line in lines)]
    seen = [(row[1], row[2]) for row in rows if row[0] == "process_vm_rss_bytes" and row[3] == parent]
    # Between the two times it printed at one size, each sample must show that size.
    agree = 0
    for (start, low), (end, high) in zip(said[::2], said[1::2], strict=True):
        for ts_ns, rss in seen:
            if start <= int(str(ts_ns)) <= end:
                assert low - 2**20 <= float(str(rss)) <= high + 2**20
                agree += 1
    assert agree >= 3
    assert said[-1][1] - said[0][1] >= 80 << 20  # it did grow
    assert any(row[3] == child for row in rows)
    resident = dict(seen)
    rollup = {row[1]: row[2] for row in rows if row[0] == "process_rss_bytes" and row[3] == parent}
    assert rollup and all(abs(float(str(rollup[ts])) - float(str(resident[ts]))) < 40 << 20 for ts in rollup)
    metrics = {str(row[0]) for row in rows}
    assert {
        "host_mem_available_bytes",
        "host_vmstat_nr_free_pages",
        "process_pss_bytes",
        "process_numa_bytes",
    } <= metrics


def test_signals_and_ends_of_processes(tmp_path: Path) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    code = "from pipeline.cli import main; main()"
    arguments = ["host", "--pid", str(sleeper.pid), "--interval", "0.05", "--out"]

    def start(name: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", code, "collect", *arguments, str(tmp_path / name)]
        recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        deadline = time.monotonic() + 30
        while not ((tmp_path / name).exists() and b"/status" in (tmp_path / name).read_bytes()):
            assert time.monotonic() < deadline and recorder.poll() is None
            time.sleep(0.02)
        return recorder

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            recorder = start(f"{number}.txt")
            recorder.send_signal(number)
            assert recorder.communicate(timeout=20)[1].startswith("leakpath: host: ")
            assert recorder.returncode == 0
            assert (tmp_path / f"{number}.txt").read_text().splitlines()[-1].startswith("# end {")
        killed, ended = start("killed.txt"), start("ended.txt")
        killed.kill()
        killed.communicate(timeout=20)
    finally:
        sleeper.kill()
        sleeper.wait()
    assert ended.communicate(timeout=20)[1].startswith("leakpath: host: ")
    assert ended.returncode == 0
    rows = rows_of(ingest_file(tmp_path / "killed.txt", tmp_path, IMPORTER), "metrics", COLUMNS)
    assert {row[3] for row in rows if row[0] == "process_vm_rss_bytes"} == {sleeper.pid}  # nothing waited in a buffer


def test_a_cgroup(tmp_path: Path) -> None:
    """Plain files stand in for a cgroup of version 2, which this machine may not have."""
    group = tmp_path / "group"
    group.mkdir()
    for name, text in {
        "memory.current": "4096\n",
        "memory.max": "max\n",
        "memory.stat": "anon 1024\nfile 2048\n",
        "memory.events": "low 0\nhigh 0\nmax 0\noom 1\noom_kill 1\n",
        "memory.pressure": "some avg10=1.00 avg60=0.00 avg300=0.00 total=7\n",
    }.items():
        (group / name).write_text(text)
    with HostSampler(tmp_path / "h.txt", 0.01, cgroup=str(group)) as sampler:
        sampler.wait(0.1)
    assert 2 <= sampler.samples <= 100
    assert any("memory.swap.current" in note for note in sampler.notes)
    rows = rows_of(ingest_file(tmp_path / "h.txt", tmp_path, IMPORTER), "metrics", COLUMNS)
    ours = [row for row in rows if f'"cgroup":"{group}"' in str(row[4])]
    assert [row[2] for row in ours if row[0] == "cgroup_memory_current_bytes"] == [4096] * sampler.samples
    assert {row[2] for row in ours if row[0] == "cgroup_memory_max_bytes"} == {None}
    assert read_into(tmp_path / "h.txt", tmp_path / "again", IMPORTER).clock == "realtime"


def fake_proc(folder: Path, cgroup: str, mounts: str) -> Path:
    (folder / "self").mkdir(parents=True)
    (folder / "self/cgroup").write_text(cgroup)
    (folder / "self/mountinfo").write_text(mounts)
    return folder


def test_which_cgroup(tmp_path: Path) -> None:
    group = tmp_path / "mount/a/b"
    group.mkdir(parents=True)
    mounts = f"24 1 0:22 / {tmp_path}/mount rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
    only_v2 = fake_proc(tmp_path / "p1", "0::/a/b\n", mounts)
    assert find_cgroup("auto", None, only_v2) == (
        None,
        "no cgroup of version 2 with the memory controller: its files are not recorded",
    )
    for name in ("memory.stat", "memory.events"):
        (group / name).write_text("")
    assert find_cgroup("auto", None, only_v2) == (group, None)
    assert find_cgroup("none", None, only_v2) == (None, None)
    v1 = fake_proc(tmp_path / "p2", "4:memory:/a\n0::/\n", mounts)
    assert find_cgroup("auto", None, v1) == (
        None,
        "memory is counted by cgroup version 1 here, and only version 2 is recorded",
    )
    assert find_cgroup("auto", 99, v1)[0] is None


def test_what_is_wrong_is_said_in_a_line(tmp_path: Path) -> None:
    for arguments, code, text in (
        (("--pid", "4194305"), 3, "no such process"),
        (("--cgroup", "/no/such"), 3, "no such cgroup"),
        (("--pid", "1", "--", "true"), 2, "not both"),
        (("--out", "no/such/h.txt", "--", "true"), 4, "no such folder"),
    ):
        result = collect(tmp_path, "host", *arguments)
        assert (result.returncode, text in result.stderr) == (code, True), result.stderr
    assert not (tmp_path / "host.txt").exists()


def test_costly_files_are_read_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = HostSampler._copy

    def slow(self: HostSampler, path: Path, *, may_vanish: bool = False) -> str:
        if path.name == "smaps_rollup":
            time.sleep(0.02)
        return plain(self, path, may_vanish=may_vanish)

    monkeypatch.setattr(HostSampler, "_copy", slow)
    programs = [subprocess.Popen(["sleep", "60"]) for _ in range(20)]
    pids = [program.pid for program in programs]
    with HostSampler(tmp_path / "h.txt.gz", 0.01, pids, cgroup="none") as sampler:
        for _ in range(600):
            if sampler.samples >= 8:
                break
            sampler.wait(0.05)
    for program in programs:
        program.kill()
        program.wait()
    text = gzip.decompress((tmp_path / "h.txt.gz").read_bytes()).decode()
    assert len(pids) <= text.count("/smaps_rollup\n") < text.count("/status\n") / 2
    assert "smaps_rollup takes long to read: sampled less often" in sampler.notes


class FullDisk:
    """Takes so many bytes, then none; `bytes` is what it took."""

    def __init__(self, room: int) -> None:
        self.room, self.bytes, self.closed = room, b"", False

    def write(self, data: memoryview) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = bytes(data[: self.room])
        self.room -= len(taken)
        self.bytes += taken
        return len(taken)

    def close(self) -> None:
        self.closed = True


def test_a_full_disk_ends_the_series_not_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, plain = FullDisk(60_000), Path.open
    monkeypatch.setattr(Path, "open", lambda self, *how, **more: disk if how == ("xb",) else plain(self, *how, **more))
    with HostSampler(tmp_path / "h.txt", 0.01, cgroup="none") as sampler:
        sampler.wait(20)
    assert sampler.failure == "No space left on device" and disk.closed
    assert sampler.samples >= 1 and len(disk.bytes) == 60_000
    assert next(of_host(sampler)).endswith("sampling ended early: No space left on device")
    disk = FullDisk(10)
    with pytest.raises(OutputError, match="No space left on device"), HostSampler(tmp_path / "g.txt", 1, cgroup="none"):
        pass
