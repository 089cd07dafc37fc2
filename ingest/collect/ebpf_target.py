"""What a recording with bpftrace needs of the machine: rights, tracefs, libcuda, functions in a file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from ingest.errors import BadInput

OLDEST_BPFTRACE = (0, 14)
TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
LIBCUDA = "libcuda.so.1"
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
_SAFE_PATH = re.compile(r"/[\w./+@%=-]{1,1000}", re.ASCII)
_TIMEOUT_S = 60


def find_bpftrace() -> tuple[str, tuple[int, int]]:
    """Path and version of bpftrace. Raises BadInput when it is missing or too old, or this is not root."""
    program = shutil.which("bpftrace")
    if program is None:
        raise BadInput("bpftrace is not on the path", todo="install it (apt install bpftrace, dnf install bpftrace)")
    if os.geteuid() != 0:
        raise BadInput("bpftrace needs root", todo="run the same command with sudo")
    said = _output([program, "--version"])
    match = re.search(r"v?(\d+)\.(\d+)", said)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version < OLDEST_BPFTRACE:
        oldest = ".".join(map(str, OLDEST_BPFTRACE))
        raise BadInput(f"bpftrace is of version {said.strip() or 'unknown'}", todo=f"install {oldest} or newer")
    return program, version


def tracefs() -> Path:
    """Where the kernel's tracepoints are described. Raises BadInput when tracefs is not mounted."""
    for folder in TRACEFS:
        if (folder / "events").is_dir():
            return folder
    raise BadInput("tracefs is not mounted", todo=f"mount -t tracefs nodev {TRACEFS[0]}")


def has_all_processes() -> bool:
    """Whether process ids here are those the kernel's probes see."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    """`pid` and the processes it has started that still live. Raises BadInput when there is no such process."""
    if not Path(f"/proc/{pid}").is_dir():
        raise BadInput(f"no process {pid}", todo="check the process id")
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = int((folder / "stat").read_text("latin-1").rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue  # ended meanwhile
            children.setdefault(parent, []).append(int(folder.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def find_libcuda(pid: int | None) -> str:
    """Path of the CUDA driver library that process `pid` has loaded, or else the system's. Raises BadInput."""
    if pid is not None:
        loaded = _mapped(pid)
        if loaded:
            return loaded
    listed = [line.strip().partition(" => ") for line in _output(["ldconfig", "-p"]).splitlines()]
    found = [(name, path) for name, _, path in listed if name.startswith(LIBCUDA) and Path(path).exists()]
    for _, path in sorted(found, key=lambda one: "64" not in one[0]):  # the 32-bit library last
        return checked_path(str(Path(path).resolve()))
    raise BadInput(f"no {LIBCUDA} here", todo="name it with --libcuda, or a process that has loaded it with --pid")


def checked_path(path: str) -> str:
    """The path, if it can stand in a bpftrace script. Raises BadInput."""
    if not Path(path).is_file():
        raise BadInput("no such file", where=path, todo="check the path")
    if not _SAFE_PATH.fullmatch(path):
        raise BadInput("bpftrace can't name this path", where=path, todo="make a link to it under a plainer name")
    return path


def functions_of(program: str, path: str, names: set[str]) -> set[str]:
    """Those of `names` that bpftrace can probe in the file `path`."""
    prefixes = {name[:4] for name in names}  # cuMe, cuda
    found = set()
    for prefix in sorted(prefixes):
        for line in _output([program, "-l", f"uprobe:{path}:{prefix}*"]).splitlines():
            found.add(line.rpartition(":")[2].strip())
    return names & found


def _mapped(pid: int) -> str | None:
    """libcuda in the process's maps, by a path that also leads into its container."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
    except OSError:
        return None
    for line in maps.splitlines():
        path = line.split(maxsplit=5)[5] if line.count(" ") >= 5 and "/" in line else ""
        if re.search(r"/libcuda\.so(?:\.[\d.]+)?$", path):
            inside = f"/proc/{pid}/root{path}"
            return checked_path(path if Path(path).exists() and Path(path).samefile(inside) else inside)
    return None


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
