"""Record with bpftrace: CUDA driver allocations, kernel slab allocations, page faults."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from ingest.errors import BadInput, OutputError

from .ebpf_target import find_bpftrace
from .ebpf_wish import Wish, clock_pair_comment, read_or_empty, script_of

READY_S = 60
"""How long bpftrace may take to load its probes."""
QUIET_S = 5.0
"""After so long without a word from it they are taken for loaded: releases differ in what they say."""
SETTLE_S = 0.1
DRAIN_S = 20.0
IDLE_S = 0.3
STOP_S = 30
_CACHE_A_PROCESS = (0, 19)
_ATTACHED = re.compile(rb"Attached \d+ probe|^Running\.\.\.", re.MULTILINE)
_ANNOUNCED = re.compile(rb"Attaching (\d+) probes?\.\.\.")
_NAMED = re.compile(rb"(?m)^Attaching \w+(?::|$)")
_LOST = re.compile(rb"(?im)^lost (\d{1,15}) events")
_LOST_STACKS = b"failed to look up stack id"
_NO_ERRORS = (b"RLIMIT_MEMLOCK", _LOST_STACKS, b"perf event FD", b"PERF_EVENT_IOC")
_RECORD = {
    "cuda": re.compile(rb"(?m)^\d+ \d+ \d+ cu"),
    "slab": re.compile(rb"(?m)^\d"),
    "faults": re.compile(rb"(?m)^@"),
}
_READ_BYTES = 1024 * 1024
_ENVIRONMENT = {
    # Keys a map, by its name in old and in new releases, and buffer pages a CPU.
    "BPFTRACE_MAP_KEYS_MAX": "65536",
    "BPFTRACE_MAX_MAP_KEYS": "65536",
    "BPFTRACE_PERF_RB_PAGES": "512",
}


class EbpfRecorder:
    """bpftrace beside the program, from `with` to its end. Entry raises BadInput and OutputError."""

    def __init__(self, path: Path, wish: Wish) -> None:
        self.path, self.wish = path, wish
        self.failure: str | None = None
        self.records = self.lost_events = self.lost_stacks = 0
        self._done = threading.Event()

    def __enter__(self) -> EbpfRecorder:
        program, version = find_bpftrace()
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        # A file: of a script on its standard input bpftrace 0.17 loses stacks.
        self._script = tempfile.NamedTemporaryFile("w", suffix=".bt")
        self._script.write(script_of(self.wish))
        self._script.flush()
        try:
            self._process = subprocess.Popen(
                [program, "-v", "-o", str(self.path), self._script.name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=os.environ | _ENVIRONMENT | self._symbol_cache(version),
                start_new_session=True,  # Ctrl-C of the terminal is for the program, bpftrace is ended in order below
            )
        except OSError as error:
            raise BadInput(f"bpftrace can't be run: {error.strerror}", where=program) from None
        try:
            self._wait_until_attached()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        return self

    def _wait_until_attached(self) -> None:
        deadline = time.monotonic() + READY_S
        heard, heard_at = 0, time.monotonic()
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                self.path.unlink(missing_ok=True)
                todo = "the kernel may forbid BPF (lockdown, a container without CAP_BPF); see `--print` for the script"
                raise BadInput(f"bpftrace ended: {self._message()}", todo=todo)
            said = self._said()
            if len(said) > heard:
                heard, heard_at = len(said), time.monotonic()
            quiet_s = time.monotonic() - heard_at
            if (
                _ATTACHED.search(said)
                or (self._attaching(said) and quiet_s > SETTLE_S)
                or (heard and quiet_s > QUIET_S)
            ):
                return
            self._done.wait(0.05)
        raise BadInput(f"bpftrace has not attached its probes after {READY_S} s", todo="see `--print` for the script")

    def _attaching(self, said: bytes) -> bool:
        """Whether releases before 0.24 have named every probe; the one of END is attached when they end."""
        announced = _ANNOUNCED.search(read_or_empty(self.path).encode("latin-1")[:_READ_BYTES])
        return announced is not None and len(_NAMED.findall(said)) >= int(announced[1]) - 1

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._drain()
            self._process.send_signal(signal.SIGINT)
        else:
            self.failure = self._message()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self.failure = f"bpftrace did not end within {STOP_S} s, its last records may be missing"
        self.lost_stacks = self._said().count(_LOST_STACKS)
        self._errors.close()
        self._script.close()
        try:
            with self.path.open("ab") as file:
                lost = f"# lost_stacks={self.lost_stacks}\n" if self.lost_stacks else ""
                file.write(f"\n{lost}# {clock_pair_comment('end')}\n".encode())
            self._count()
        except OSError as problem:
            raise OutputError(problem.strerror or str(problem), where=str(self.path), todo="check the disk") from None

    def _symbol_cache(self, version: tuple[int, int]) -> dict[str, str]:
        """Without a cache bpftrace reads all symbols of a process anew for every frame of every stack.

        Before 0.19 it has one cache a program, which is right for one process of it at a time.
        """
        if version >= _CACHE_A_PROCESS:
            return {"BPFTRACE_CACHE_USER_SYMBOLS": "PER_PID"}
        return {"BPFTRACE_CACHE_USER_SYMBOLS": "1"} if self.wish.pid or self.wish.of_command else {}

    def _drain(self) -> None:
        """Wait until bpftrace has printed what it got: at its end it leaves the rest in the kernel's buffers."""
        is_over = self.wish.of_command or (self.wish.pid is not None and not Path(f"/proc/{self.wish.pid}").exists())
        deadline = time.monotonic() + (DRAIN_S if is_over else 1.0)
        used, since = self._cpu_ticks(), time.monotonic()
        while time.monotonic() < deadline and time.monotonic() - since < IDLE_S:
            time.sleep(0.05)
            if (now := self._cpu_ticks()) != used:
                used, since = now, time.monotonic()

    def _cpu_ticks(self) -> int:
        fields = read_or_empty(Path(f"/proc/{self._process.pid}/stat")).rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12]) if len(fields) > 12 else 0

    def watch(self, pid: int) -> None:
        """The script itself follows the processes that are started."""

    def wait(self, duration_s: float | None) -> None:
        """Until `stop`, until bpftrace ends, until the process to record ends, or for `duration_s` seconds."""
        deadline = None if duration_s is None else time.monotonic() + duration_s
        while self._process.poll() is None and (deadline is None or time.monotonic() < deadline):
            if self.wish.pid is not None and not Path(f"/proc/{self.wish.pid}").exists():
                return
            left = 0.2 if deadline is None else min(0.2, max(deadline - time.monotonic(), 0))
            if self._done.wait(left):
                return

    def stop(self) -> None:
        """End `wait`; safe in a signal handler."""
        self._done.set()

    def _count(self) -> None:
        """Count records and lost events in the file, piece by piece."""
        rest = b""
        with self.path.open("rb") as file:
            while data := file.read(_READ_BYTES):
                whole, newline, rest = (rest + data).rpartition(b"\n")
                text = whole + newline
                self.records += len(_RECORD[self.wish.kind].findall(text))
                self.lost_events += sum(map(int, _LOST.findall(text)))

    def _said(self) -> bytes:
        return os.pread(self._errors.fileno(), 16 * _READ_BYTES, 0)

    def _message(self) -> str:
        lines = [line for line in self._said().splitlines() if b"ERROR" in line or b"rror:" in line]
        known = [line for line in lines if not any(harmless in line for harmless in _NO_ERRORS)]
        text = b" ".join(known[:2]).decode("utf-8", "replace") or f"exit code {self._process.returncode}"
        return " ".join(text.split())[:300]
