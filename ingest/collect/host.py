"""Record the host's memory: copies of cgroup v2, /proc and NUMA files, word for word, once an interval.

The file is described in ingest/host_samples.py, which reads it: a first line `# leakpath-host 1 {…}` with the host's
clocks read together, then for each sample `# sample <realtime ns> <monotonic ns>` and each file's text below
`# file <path>`.
"""

from __future__ import annotations

import json
import platform
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from ingest.errors import BadInput, OutputError

from .clock_pairs import read_clock_pair
from .host_cgroup import find_cgroup

HEADER = "# leakpath-host 1 "
MAX_PROCESSES = 64
MAX_NOTES = 50
MAX_FILE_BYTES = 32 * 1024 * 1024
COSTLY_SHARE = 20
"""smaps_rollup and numa_maps walk page tables: each, over all processes, may take a twentieth of the time."""

_SYSTEM_FILES = ("meminfo", "vmstat", "pressure/memory")
_PROCESS_FILES = ("status",)
_COSTLY_FILES = ("smaps_rollup", "numa_maps")
_CGROUP_FILES = (
    *("memory.current", "memory.peak", "memory.max", "memory.high", "memory.low", "memory.min", "memory.events"),
    *("memory.stat", "memory.pressure", "memory.swap.current", "memory.swap.max", "memory.swap.events"),
)


class HostSampler:
    """Samples every `period_s` seconds on a thread, from `with` to its end.

    `pids` and their descendants are sampled until the last of them is gone; `watch` adds one. `cgroup` is a folder,
    "auto" for that of the first process (else of this one), or "none". Entry raises BadInput when a process or cgroup
    is not there, and OutputError. `notes` says in words what could not be recorded.
    """

    def __init__(
        self,
        path: Path,
        period_s: float,
        pids: Iterable[int] = (),
        cgroup: str = "auto",
        *,
        proc: Path = Path("/proc"),
        nodes: Path = Path("/sys/devices/system/node"),
    ) -> None:
        self.path, self.period_s = path, period_s
        self.samples = 0
        self.failure: str | None = None
        self.notes: list[str] = []
        self._pids, self._wanted_cgroup = list(dict.fromkeys(pids)), cgroup
        self._proc, self._nodes = proc, nodes
        self._done, self._wake = threading.Event(), threading.Event()
        self._costly_due: dict[str, float] = {}
        self._started: dict[int, str] = {}
        self._descendants: list[int] = []
        self._missing: set[str] = set()

    def __enter__(self) -> HostSampler:
        gone = [pid for pid in self._pids if not (self._proc / str(pid)).is_dir()]
        if gone:
            raise BadInput("no such process", where=f"--pid {gone[0]}", todo="check the process id")
        self._cgroup, note = find_cgroup(self._wanted_cgroup, self._pids[0] if self._pids else None, self._proc)
        if note:
            self._note(note)
        try:
            self._file = self.path.open("xb", buffering=0)
        except OSError as error:
            raise OutputError(error.strerror or str(error), where=str(self.path), todo="choose another name") from None
        self._packer = zlib.compressobj(wbits=31) if self.path.suffix == ".gz" else None  # 31: with gzip's header
        header = {
            "host": platform.node(),
            "kernel": platform.release(),
            "period_s": self.period_s,
            "pids": self._pids,
            "cgroup": str(self._cgroup) if self._cgroup else None,
            "clocks": read_clock_pair(),
        }
        self._write(HEADER + json.dumps(header) + "\n")
        if self.failure is not None:
            self._file.close()
            raise OutputError(self.failure, where=str(self.path), todo="choose another disk")
        self._thread = threading.Thread(target=self._sample_all, name="leakpath-host", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        self._thread.join()
        footer = {"samples": self.samples, "notes": self.notes, "clocks": read_clock_pair()}
        self._write(f"# end {json.dumps(footer)}\n", is_last=True)
        self._file.close()

    def watch(self, pid: int) -> None:
        """Sample `pid` and its descendants too."""
        self._pids.append(pid)
        self._wake.set()

    def wait(self, duration_s: float | None = None) -> None:
        """Sleep for `duration_s` seconds (None: until `stop`), until every process is gone, or sampling failed."""
        self._done.wait(duration_s)

    def stop(self) -> None:
        """End the wait; fit for a signal handler."""
        self._done.set()
        self._wake.set()

    def _sample_all(self) -> None:
        due = time.monotonic()
        while not self._done.is_set():
            self._wake.clear()
            processes = self._processes()
            if self._pids and not processes:
                break
            self._write("".join(self._sample(processes)))
            if self.failure is not None:
                break
            self.samples += 1
            due = max(due + self.period_s, time.monotonic())  # after a stall: go on, don't catch up
            self._wake.wait(due - time.monotonic())
        self._done.set()

    def _sample(self, processes: list[int]) -> Iterator[str]:
        yield f"# sample {time.time_ns()} {time.clock_gettime_ns(time.CLOCK_MONOTONIC)}\n"
        for name in _SYSTEM_FILES:
            yield self._copy(self._proc / name)
        for node in sorted(self._nodes.glob("node[0-9]*")):
            for name in ("meminfo", "numastat"):
                yield self._copy(node / name)
        if self._cgroup is not None:
            for name in _CGROUP_FILES:
                yield self._copy(self._cgroup / name)
        for pid in processes:
            folder = self._proc / str(pid)
            for name in _PROCESS_FILES:
                yield self._copy(folder / name, may_vanish=True)
        for name in _COSTLY_FILES:
            yield from self._costly(name, processes)

    def _costly(self, name: str, processes: list[int]) -> Iterator[str]:
        began = time.monotonic()
        if began < self._costly_due.get(name, 0.0):
            return
        for pid in processes:
            yield self._copy(self._proc / str(pid) / name, may_vanish=True)
        took = time.monotonic() - began
        self._costly_due[name] = began + took * COSTLY_SHARE
        if took * COSTLY_SHARE > self.period_s:
            self._note(f"{name} takes long to read: sampled less often")

    def _copy(self, path: Path, *, may_vanish: bool = False) -> str:
        try:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES)
        except OSError as error:
            is_end = may_vanish and (isinstance(error, ProcessLookupError) or not path.parent.exists())
            if not is_end and str(path) not in self._missing and len(self._missing) < MAX_NOTES:
                self._missing.add(str(path))
                self._note(f"{path}: {error.strerror or error}")
            return ""
        text = data.decode("utf-8", "replace")
        return f"# file {path}\n{text}" + ("" if text.endswith("\n") or not text else "\n")

    def _processes(self) -> list[int]:
        """The processes asked for that are alive, and their descendants."""
        now = time.monotonic()
        if now >= self._costly_due.get("children", 0.0):
            self._descendants = self._find_descendants()
            self._costly_due["children"] = now + (time.monotonic() - now) * COSTLY_SHARE
        found = dict.fromkeys([*self._pids, *self._descendants])
        alive = [pid for pid in found if not self._is_gone(pid)]
        if len(alive) > MAX_PROCESSES:
            self._note(f"more than {MAX_PROCESSES} processes: the rest is left out")
        return alive[:MAX_PROCESSES]

    def _find_descendants(self) -> list[int]:
        """A process lists its children by the thread that started them."""
        found: list[int] = []
        todo = list(self._pids)
        while todo and len(found) <= MAX_PROCESSES:
            for children in (self._proc / str(todo.pop())).glob("task/*/children"):
                try:
                    fresh = [int(word) for word in children.read_text().split()]
                except (OSError, ValueError):
                    continue
                found += fresh
                todo += fresh
        return found

    def _is_gone(self, pid: int) -> bool:
        """Whether the process has ended (one that only waits for its parent holds nothing), or is another by now."""
        try:
            words = (self._proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return True
        if len(words) < 20 or words[0] in "ZX":
            return True
        return self._started.setdefault(pid, words[19]) != words[19]

    def _note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(text)

    def _write(self, text: str, *, is_last: bool = False) -> None:
        """Write and flush, unless that failed before: a full disk ends the series, not the program."""
        if self.failure is not None:
            return
        data = text.encode("utf-8", "replace")
        if self._packer is not None:
            data = self._packer.compress(data) + self._packer.flush(zlib.Z_FINISH if is_last else zlib.Z_SYNC_FLUSH)
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self.failure = error.strerror or str(error)
