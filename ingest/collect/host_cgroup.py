"""Which folder of cgroup version 2 holds a process's memory counters.

https://docs.kernel.org/admin-guide/cgroup-v2.html: `0::/path` in /proc/PID/cgroup, below the mount of type cgroup2.
"""

from __future__ import annotations

from pathlib import Path

from ingest.errors import BadInput

MOUNT = Path("/sys/fs/cgroup")
_V1_NOTE = "memory is counted by cgroup version 1 here, and only version 2 is recorded"
_NONE_NOTE = "no cgroup of version 2 with the memory controller: its files are not recorded"


def find_cgroup(wanted: str, pid: int | None, proc: Path) -> tuple[Path | None, str | None]:
    """`(folder, None)`, or `(None, why there is none)`.

    `wanted` is a folder (or a path below the mount), "auto" for that of `pid` (None: this process), or "none". Raises
    BadInput when it is a folder that is not there.
    """
    if wanted == "none":
        return None, None
    if wanted == "auto":
        folder, has_v1 = _of_process(proc, "self" if pid is None else str(pid))
    else:
        folder, has_v1 = Path(wanted), False
        folder = folder if folder.is_dir() else MOUNT / wanted.lstrip("/")
        if not folder.is_dir():
            raise BadInput("no such cgroup", where=wanted, todo=f"give a folder below {MOUNT}, auto or none")
    if folder is not None and (folder / "memory.stat").is_file() and (folder / "memory.events").is_file():
        return folder, None
    has_v1 |= folder is not None and (folder / "memory.limit_in_bytes").is_file()
    return None, _V1_NOTE if has_v1 else _NONE_NOTE


def _of_process(proc: Path, pid: str) -> tuple[Path | None, bool]:
    """The process's folder, and whether memory is with version 1."""
    try:
        lines = (proc / pid / "cgroup").read_text().splitlines()
        mounts = [line.split() for line in (proc / "self" / "mountinfo").read_text().splitlines()]
    except OSError:
        return None, False
    has_v1 = any("memory" in line.split(":")[1:2] for line in lines)
    below = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    roots = [Path(words[4]) for words in mounts if "-" in words and words[words.index("-") + 1 :][:1] == ["cgroup2"]]
    return (roots[0] / below.lstrip("/") if roots and below is not None else None), has_v1
