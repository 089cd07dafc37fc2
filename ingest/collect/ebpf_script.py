"""The bpftrace script of one recording, from the templates in `bpf/` and what this machine has."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files

TEMPLATES = {"cuda": "cuda_memory.bt", "slab": "kernel_slab.bt", "faults": "page_faults.bt"}
STACK_FRAMES = 32
_PROBE = re.compile(r"(uprobe|uretprobe|tracepoint):(\w+):(\w+)(.*)")
_SLAB_ROW = re.compile(r'(printf\("[^"]* (?:ALLOC|FREE) [^"]*)\\n", (.*)\); \}')
_CACHE_NAME = "str(args->name)"


def template(kind: str) -> str:
    """Text of the template of a kind of recording."""
    return (files("ingest.collect") / "bpf" / TEMPLATES[kind]).read_text("utf-8")


def probes_of(text: str) -> set[tuple[str, str]]:
    """(target, name) of the probes in a script: (LIBCUDA, cuMemAlloc_v2), (kmem, kmalloc), …"""
    return {(match[2], match[3]) for line in text.splitlines() if (match := _PROBE.match(line))}


def build_script(
    text: str,
    *,
    exists: Callable[[str, str], bool],
    paths: Mapping[str, str],
    header: Sequence[str],
    traced: Sequence[int] = (),
    parent: int | None = None,
    clock: str = "boottime",
    stacks: bool = False,
) -> str:
    """A script that bpftrace can run: only probes for which `exists(target, name)`, paths in place of their names.

    `traced` are processes to record with those they will start, `parent` one whose children alone are recorded;
    with neither, all processes are. `header` are comment lines for the output, after the one that names its kind.
    Raises ValueError when no probe of a record is left.
    """
    lines = [line for line in text.splitlines() if line and not line.startswith("//")]
    records = [line for line in _with_existing(lines, exists) if not line.startswith("tracepoint:sched:")]
    if not any(_PROBE.match(line) or line.startswith("software:") for line in records):
        raise ValueError("none of the functions to record is there")
    roots = "".join(f"@traced[{pid}] = 2; " for pid in traced) + (f"@traced[{parent}] = 1; " if parent else "")
    everybody = "0" if roots else "1"
    comments = "".join(f'printf("# {_quoted(line)}\\n"); ' for line in header)
    done = []
    for line in _with_existing(lines, exists):
        if line.startswith("BEGIN"):
            line = line.replace("clock=boottime", f"clock={clock}")
            line = line.replace("@traced[$1] = 2; ", roots or "@traced[0] = 0; ")
            line = line.replace("; ", f"; {comments}", 1)
        line = line.replace("$1 == 0", f"{everybody} == 1")
        if stacks:
            line = _SLAB_ROW.sub(rf'\1%s\\n", \2, kstack({STACK_FRAMES})); }}', line)
        for name, path in paths.items():
            line = line.replace(f":{name}:", f":{path}:")
        done.append(line)
    return "\n".join(done) + "\n"


def without_cache_names(text: str, events: Sequence[str]) -> str:
    """The slab template for a kernel whose tracepoints `events` give no cache's name."""
    return "\n".join(
        line.replace(_CACHE_NAME, '"kmem_cache"') if any(f":{event} " in line for event in events) else line
        for line in text.splitlines()
    )


def _with_existing(lines: Sequence[str], exists: Callable[[str, str], bool]) -> list[str]:
    """Lines without the probes that are not there; a list of probes goes with its action when none of it is left."""
    kept: list[str] = []
    listed: list[str] = []  # probes that share the action of a line below
    for line in lines:
        match = _PROBE.match(line)
        if match and match[4] == ",":
            if exists(match[2], match[3]):
                listed.append(line)
        elif match and line.startswith("uretprobe") and match[4] == "":
            if exists(match[2], match[3]):
                listed.append(line)
            kept += [probe.rstrip(",") + "," for probe in listed[:-1]] + [probe.rstrip(",") for probe in listed[-1:]]
            has_probes, listed = bool(listed), []
            kept.append("" if has_probes else "//")
        elif line.startswith("/") and kept and kept[-1] in ("", "//"):
            if kept.pop() == "":
                kept.append(line)
        elif not match or match[2] == "sched" or exists(match[2], match[3]):
            kept.append(line)
    return kept


def _quoted(text: str) -> str:
    """Text for bpftrace's printf: nothing in it ends the string or asks for an argument."""
    return re.sub(r'["\\%\x00-\x1f\x7f-\U0010ffff]', "_", text)[:200]
