"""What one recording with bpftrace is to record, and the script that does it on this machine."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from ingest.errors import BadInput

from .clock_pairs import read_clock_pair
from .ebpf_script import build_script, probes_of, template, without_cache_names
from .ebpf_target import (
    checked_path,
    descendants,
    find_bpftrace,
    find_libcuda,
    functions_of,
    has_all_processes,
    tracefs,
)

Kind = Literal["cuda", "slab", "faults"]
_BOOTTIME_KERNEL = (5, 8)
"""From this release on `nsecs` is the boot time, before it the monotonic clock."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What to record. `pid`: that process and its children; `of_command`: this process's children from now on."""

    kind: Kind
    pid: int | None = None
    of_command: bool = False
    libcuda: str | None = None
    runtime: str | None = None
    stacks: bool = False


def script_of(wish: Wish) -> str:
    """The script that records `wish` on this machine. Raises BadInput with what is missing."""
    program, version = find_bpftrace()
    events = tracefs() / "events"
    if (wish.pid or wish.of_command) and not has_all_processes():
        todo = "run it in the host's process namespace (docker run --pid=host)"
        raise BadInput("the kernel's process ids are not those of this container", todo=todo)
    text = template(wish.kind)
    paths: dict[str, str] = {}
    functions: set[tuple[str, str]] = set()
    if wish.kind == "cuda":
        paths["LIBCUDA"] = checked_path(wish.libcuda) if wish.libcuda else find_libcuda(wish.pid)
        if wish.runtime:
            paths["APP"] = checked_path(wish.runtime)
        for target, path in paths.items():
            names = {name for where, name in probes_of(text) if where == target}
            found = functions_of(program, path, names)
            if not found:
                raise BadInput("none of the functions to record is in it", where=path, todo="check the file")
            functions |= {(target, name) for name in found}
    elif wish.kind == "slab":
        formats = {folder.name: folder / "format" for folder in (events / "kmem").glob("kmem_cache_*")}
        text = without_cache_names(
            text, [name for name, file in formats.items() if " name;" not in read_or_empty(file)]
        )

    def exists(target: str, name: str) -> bool:
        return (target, name) in functions or (events / target / name).is_dir()

    release = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    header = [
        f"bpftrace {version[0]}.{version[1]}, kernel {platform.release()}",
        f"template sha256 {sha256(template(wish.kind).encode()).hexdigest()[:16]}",
        *(f"{name} {path}" for name, path in paths.items()),
        clock_pair_comment("start"),
    ]
    try:
        return build_script(
            text,
            exists=exists,
            paths=paths,
            header=header,
            traced=descendants(wish.pid) if wish.pid else (),
            parent=os.getpid() if wish.of_command else None,
            clock="boottime" if release >= _BOOTTIME_KERNEL else "monotonic",
            stacks=wish.stacks,
        )
    except ValueError as error:
        raise BadInput(f"nothing to record: {error}", todo="this kernel has no such tracepoints") from None


def clock_pair_comment(position: str) -> str:
    """A comment that ties the clocks of this host together, as `ingest.bpftrace_comments` reads it."""
    return f"clock_pair position={position} " + " ".join(f"{name}={value}" for name, value in read_clock_pair().items())


def read_or_empty(path: Path) -> str:
    """Text of a file of /proc, empty when it is gone."""
    try:
        return path.read_text("latin-1")
    except OSError:
        return ""
