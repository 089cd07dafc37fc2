"""Recordings of Linux perf (perf.data), through the user's own `perf script`.

Magic `PERFILE2` (or `PERFFILE` before Linux 2.6.36) in either byte order, of a file or of `perf record -o -`:
https://github.com/torvalds/linux/blob/master/tools/perf/Documentation/perf.data-file-format.txt

perf is run without its configuration, without scripts and without helpers: inlined functions are not looked up, since
that would start addr2line on whatever files the recording names.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from itertools import islice
from pathlib import Path

from ingest import perf_script
from ingest.errors import BadInput
from ingest.external_tools import run_tool
from ingest.opening import DAMAGED_STREAM, compression, open_bytes, read_head
from ingest.perf_sample import match_timed
from ingest.registry import Importer
from ingest.sink import Sink

_MAGICS = (b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP")
_PERFPARSER = b"QPERFSTREAM"
_FIELDS = "comm,pid,tid,cpu,time,period,event,trace,ip,sym,dso"
TODO = f"run `perf script --header --ns -F {_FIELDS} -i perf.data > perf.txt` where perf is, and pass perf.txt"
_COMMAND = ("perf", "--no-pager", "script", "--force", "--header", "--ns", "--no-inline")
_LINES = 100_000
_MAX_WARNINGS = 1000
# perf ends well on a recording that is cut or damaged: only its warnings tell.
_LOSS = re.compile(r"(?i)unexpected|\blost\b|corrupt|truncat|invalid|fail|can't|cannot|skip|out of order|not permitted")
# perf refuses fields that an event was recorded without (the processor, mostly) and options it does not know: what it
# would print by itself comes last.
_ATTEMPTS = (
    (*_COMMAND, "--show-lost-events", "-F", _FIELDS),
    (*_COMMAND, "--show-lost-events", "-F", _FIELDS.replace(",cpu", "")),
    (*_COMMAND, "--show-lost-events", "--show-task-events"),
    ("perf", "--no-pager", "script", "--force", "--header"),
)


def sniff(head: bytes, path: Path) -> bool:
    """The magic number; that of hotspot's perfparser too, which is refused with a reason."""
    return head.startswith((*_MAGICS, _PERFPARSER))


def read(path: Path, sink: Sink) -> None:
    """Let perf print the recording and read that text.

    Raises BadInput with the command to run where `perf` is not on the path, and with what perf says where it can't
    read the recording. Where perf stops on the way, what it printed is read.
    """
    if read_head(path, 64).startswith(_PERFPARSER):
        todo = "pass the perf.data that it was made from"
        raise BadInput("a profile of hotspot's perfparser, not a recording of perf", where=str(path), todo=todo)
    with tempfile.TemporaryDirectory(prefix=".perf-", dir=sink.parts) as name:
        folder = Path(name).resolve()
        recording, text = _plain(path, folder, sink), folder / "perf.txt"
        for attempt in _ATTEMPTS:
            warnings, failure = _print([*attempt, "-i", str(recording)], text, path)
            if _has_samples(text):
                break
        else:
            lost = next((line for line in warnings if _LOSS.search(line)), None)
            what = f"perf finds no sample in it{f' ({lost[:200]})' if lost else ''}"
            raise failure or BadInput(what, where=str(path), todo=TODO)
        perf_script.read(text, sink)
        if failure is not None:
            sink.count("perf_stopped_early", severity="data_loss", detail=failure.what)
        for line in warnings:
            sink.count("perf_warnings", severity="data_loss" if _LOSS.search(line) else "info", detail=line)


def _plain(path: Path, folder: Path, sink: Sink) -> Path:
    """The file itself, or an unpacked copy of it."""
    with path.open("rb") as file:
        if compression(file.read(4)) is None:
            return path.resolve()
    copy = folder / "perf.data"
    with open_bytes(path) as stream, copy.open("wb") as target:
        try:
            shutil.copyfileobj(stream, target, 1 << 20)
        except DAMAGED_STREAM:
            sink.count("truncated_stream", severity="data_loss", detail="the packed file is damaged or ends early")
    return copy


def _print(command: list[str], text: Path, capture: Path) -> tuple[list[str], BadInput | None]:
    """Run perf; its warnings, and what it says when it fails, perhaps after it printed a part."""
    try:
        said = run_tool(command, capture=capture, todo=TODO, stdout=text, variables={"PERF_CONFIG": os.devnull})
    except BadInput as error:
        return [], error
    lines = [line.strip() for line in said.splitlines()[:_MAX_WARNINGS]]
    return [line for line in lines if line and not line.endswith("Ignoring.")], None  # fields that it has not got


def _has_samples(text: Path) -> bool:
    """Whether a sample is among the first lines that perf printed, its header apart."""
    if not text.is_file():
        return False
    with text.open(encoding="utf-8", errors="replace") as lines:
        return any(
            match_timed(line.rstrip()) is not None and "PERF_RECORD_" not in line for line in islice(lines, _LINES)
        )


IMPORTER = Importer(
    name="perf_data",
    priority=32,
    title="Recordings of Linux perf (through `perf`)",
    source="perf",
    clock="perf",
    versions="every recording that the `perf` on the path can print; without it the message says the command to run",
    produced_by="`perf record`",
    recipe="perf record -g --sample-cpu -k CLOCK_MONOTONIC -o perf.data COMMAND",
    left_out=perf_script.IMPORTER.left_out + "; inlined functions; profiles of hotspot's perfparser",
    reference="https://github.com/torvalds/linux/blob/master/tools/perf/Documentation/perf.data-file-format.txt",
    tables=perf_script.IMPORTER.tables,
    sniff=sniff,
    read=read,
)
