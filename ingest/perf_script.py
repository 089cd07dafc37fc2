"""Samples of Linux perf, as text printed by `perf script`.

A sample is a line (`perf_sample`), its stack leaf first, one frame a line (`perf_frames`), then a blank line; without
stacks a sample is one line. `--header` puts `# ` lines before them (`perf_header`), `--show-task-events` and alike put
PERF_RECORD_ lines among them. Format: https://github.com/torvalds/linux/blob/master/tools/perf/builtin-script.c

Times are of the kernel's local_clock unless the header names another. Tracepoints of kernel memory become
`memory_events` of level host as well (`perf_kmem`).
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from ingest.errors import BadInput
from ingest.perf_frames import INLINED, parse_frame
from ingest.perf_header import RULE
from ingest.perf_reader import PerfReader
from ingest.perf_sample import match_any, match_timed
from ingest.perf_tasks import PerfTasks
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.textblocks import open_blocks
from ingest.textlines import head_lines

_HEADER_FACT = re.compile(r"# (?:captured on|perf version|cmdline|event|os release)\s*:")
_SNIFFED_LINES = 200
_SNIFFED_CHARACTERS = 4096


def sniff(head: bytes, path: Path) -> bool:
    """perf's own header, or a sample's first line: with time and event, or with a frame below it."""
    lines = head_lines(head)
    if lines and lines[0].startswith(RULE):
        return any(_HEADER_FACT.match(line) for line in lines[:100])
    for line, following in pairwise([*lines[:_SNIFFED_LINES], ""]):
        if line.startswith("#") or len(line) > _SNIFFED_CHARACTERS:
            continue
        if "PERF_RECORD_" in line:
            return PerfTasks.is_record(line) and "]: PERF_RECORD_" not in line  # not the dump of `perf script -D`
        groups = match_any(f"{line} ")
        if groups is None or (parse_frame(line) is not None and not groups[4]):
            continue
        if match_timed(line) is not None and (groups[7] is not None or parse_frame(following) is not None):
            return True
        if _is_sure_frame(following):
            return True
    return False


def _is_sure_frame(line: str) -> bool:
    """Whether the line is a frame beyond doubt: with an object that is a path or a name in brackets, or inlined."""
    frame = parse_frame(line)
    if frame is None or not line.endswith(")"):
        return False
    return line.endswith("([unknown])") or (frame.module or "").startswith(("/", "[")) or frame.module == INLINED


def read(path: Path, sink: Sink) -> None:
    """Read `stack_samples`, `memory_events` of kmem tracepoints and `processes`; damage is counted by record.

    Raises BadInput when the file holds no sample.
    """
    reader = PerfReader(sink)
    with open_blocks(path, sink) as blocks:
        reader.read(blocks)
    if not reader.samples:
        raise BadInput("perf's text holds no sample", where=str(path), todo="record again, or check `perf script`")


IMPORTER = Importer(
    name="perf_script",
    priority=31,
    title="Samples and tracepoints of Linux perf (perf script text)",
    source="perf",
    clock="perf",
    versions="perf script of Linux 3.2 to 6.x, default and chosen fields (-F), with and without --header, --ns, -G",
    produced_by="perf script",
    recipe=(
        "perf record -g --sample-cpu -k CLOCK_MONOTONIC COMMAND && perf script --header --ns"
        " -F comm,pid,tid,cpu,time,period,event,trace,ip,sym,dso > perf.txt"
    ),
    left_out=(
        "fields of tracepoints other than kmem; addresses and offsets of frames with a symbol; registers, branch"
        " stacks, data sources; the recorded command line; the latency format (-L)"
    ),
    reference="https://github.com/torvalds/linux/blob/master/tools/perf/builtin-script.c",
    tables=("stack_samples", "memory_events", "processes", "frames", "call_paths", "clock_pairs"),
    sniff=sniff,
    read=read,
)
