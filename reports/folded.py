"""Folded stacks: one line a stack, `name;root;…;leaf count`, as stackcollapse-perf.pl writes them by the same options.

Its habits (https://github.com/brendangregg/FlameGraph) are kept here and nowhere else, so that flame graphs of both can
be compared line by line; the tables keep what perf printed.

- Counts are periods where perf printed them, else 1 a sample.
- Without an event only the first event of the capture is shown. Tracepoints and samples without a time are always
  shown, tracepoints by their number.
- `[unknown]` becomes the object's file name; `->` within a symbol separates inlined functions; `;` becomes `:`.
- Quotes, and everything from a parenthesis on, are dropped (not Go's `.(*T).`, not `(anonymous namespace)`); frames
  that begin with a parenthesis are left out; of the task named `java` the leading L of a class goes.
- Spaces in the task's name become `_`; lines are sorted by their bytes.

Samples of other producers than perf keep their frames as they are, but for `;`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ingest.errors import BadInput
from reports.source import CaptureTables, Row

_TRACEPOINT = re.compile(r"[A-Za-z_][\w-]*:(?![ukhGHIpPSDWebR]+$)[A-Za-z_]\w*")
_KERNEL = re.compile(r"^\[|vmlinux$")
_JIT = re.compile(r"/tmp/perf-\d+\.map")
_GO_METHOD = re.compile(r"\.\(.*\)\.")
_PARENTHESIS = re.compile(r"\((?!anonymous namespace\)).*", re.DOTALL)
_UNKNOWN = "[unknown]"


@dataclass(frozen=True, slots=True)
class FoldedOptions:
    """What stackcollapse-perf.pl calls --pid, --tid, --kernel, --jit, --addrs and --event-filter."""

    pid: bool = False
    tid: bool = False
    kernel: bool = False
    jit: bool = False
    addrs: bool = False
    event: str | None = None


def folded_lines(tables: CaptureTables, options: FoldedOptions) -> Iterator[str]:
    """The folded lines of a capture's `stack_samples`, sorted.

    Raises BadInput when there are no samples, or none of `options.event`.
    """
    samples = _chosen(tables.query("folded/samples"), options.event)
    paths = {row["call_path_id"]: row["frame_ids"] for row in tables.query("folded/paths")}
    frames = {row["frame_id"]: row for row in tables.query("folded/frames")}
    shown: dict[tuple[int, str], list[str]] = {}
    counts: dict[str, int] = {}
    for sample in samples:
        name = _task(sample, options)
        parts = [] if name is None else [name]
        for frame_id in paths.get(sample["call_path_id"]) or ():
            kind = "java" if name == "java" else sample["source"]
            if (frame_id, kind) not in shown:
                shown[frame_id, kind] = _names(frames.get(frame_id), options, kind)
            parts += shown[frame_id, kind]
        stack = ";".join(parts)
        counts[stack] = counts.get(stack, 0) + sample["count"]
    for stack in sorted(counts, key=lambda text: text.encode("utf-8")):
        yield f"{stack} {counts[stack]}"


def _chosen(samples: list[Row], event: str | None) -> list[Row]:
    """Samples of the event, with their `count`."""
    if not samples:
        raise BadInput("no stack samples in this capture", todo="record with perf, or another sampler")
    for sample in samples:
        is_bare = bool(_TRACEPOINT.fullmatch(sample["event"]))
        sample["is_free"] = sample["source"] == "perf" and (is_bare or not sample["has_time"])
        sample["count"] = sample["samples"] if is_bare and sample["source"] == "perf" else sample["weight"]
    if event is not None:
        chosen = [sample for sample in samples if sample["event"] == event]
        if not chosen:
            known = ", ".join(sorted({sample["event"] for sample in samples})[:20])
            raise BadInput(f"no samples of the event {event!r}", todo=f"choose one of {known}")
        return chosen
    first = next((sample["event"] for sample in samples if not sample["is_free"]), None)
    return [sample for sample in samples if sample["is_free"] or sample["event"] == first]


def _task(sample: Row, options: FoldedOptions) -> str | None:
    name = sample["process_name"]
    if name is None:
        return None
    process, thread = ("?" if sample[key] is None else str(sample[key]) for key in ("process_id", "thread_id"))
    if options.tid:
        name = f"{name}-{process}/{thread}"
    elif options.pid:
        name = f"{name}-{process}"
    return str(name).replace(" ", "_")


def _names(frame: Row | None, options: FoldedOptions, kind: str) -> list[str]:
    """Names of one frame; of perf (`kind` perf or java) the inlined ones after the one they are inlined into."""
    if frame is None:
        return []
    symbol, module = frame["function"], frame["module"] or _UNKNOWN
    if kind not in ("perf", "java"):
        return [_object(symbol, module, frame["address"], options).replace(";", ":")]
    if module.endswith(" (deleted)"):  # taken for the object by itself, with the path left at the symbol
        symbol, module = f"{symbol} ({module[: -len(' (deleted)')]}", "deleted)"
    if symbol.startswith("("):
        return []
    names: list[str] = []
    parts = symbol.split("->") if symbol else [" "]
    while parts and not parts[-1]:
        parts.pop()
    for part in parts:
        name = _tidy(_object(part, module, frame["address"], options), is_java=kind == "java")
        if names:
            name += "" if "_[i]" in name else "_[i]"
        elif options.kernel and _KERNEL.search(module) and "unknown" not in module:
            name += "_[k]"
        elif options.jit and _JIT.search(module):
            name += "" if "_[j]" in name else "_[j]"
        names.append(name)
    return names


def _object(symbol: str, module: str, address: int | None, options: FoldedOptions) -> str:
    """The symbol, or the object's file name when there is none."""
    if symbol != _UNKNOWN:
        return symbol
    name = "unknown" if module == _UNKNOWN else module.rsplit("/", 1)[-1]
    return f"[{name} <{address:x}>]" if options.addrs and address is not None else f"[{name}]"


def _tidy(name: str, *, is_java: bool) -> str:
    name = name.replace(";", ":")
    if not _GO_METHOD.search(name):
        name = _PARENTHESIS.sub("", name, count=1)
    name = name.replace('"', "").replace("'", "")
    return name[1:] if is_java and "/" in name and name.startswith("L") else name
