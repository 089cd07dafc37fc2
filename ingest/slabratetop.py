"""Slab allocations of each interval by cache, as printed by slabratetop of bcc and of libbpf-tools.

A line `HH:MM:SS loadavg: …`, a header `CACHE ALLOCS BYTES` and a row a cache; only the top caches (20 unless told).
Codes that clear the screen, prose and command lines between the tables are passed over.
https://github.com/iovisor/bcc/blob/master/tools/slabratetop.py, …/libbpf-tools/slabratetop.c
"""

from __future__ import annotations

import re
from pathlib import Path

import orjson

from ingest.daytime import DayTimes
from ingest.loadavg import load_averages
from ingest.numbers import NumberReader
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines, open_lines

_ROW = ("metric", "labels", "ts_ns", "value", "unit")
_HEADER = re.compile(r"CACHE +ALLOCS +BYTES")
_TIME = re.compile(r"(\d{1,2}:\d{1,2}:\d{1,2}) loadavg: (.{1,100})")
_SCREEN_CODE = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]|\x1bc|\x0c")
_NAME_WIDTH = 33


def sniff(head: bytes, path: Path) -> bool:
    """The header of a table."""
    return any(_HEADER.fullmatch(_SCREEN_CODE.sub("", line)) for line in head_lines(head))


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._numbers = NumberReader(sink)
        self._times = DayTimes(sink)
        self._batch = RowBatch(sink, "metrics", _ROW)
        self._time: int | None = None
        self._table_time: int | None = None
        self._is_in_table = False

    def read(self, lines: TextLines) -> None:
        for number, raw in lines:
            line = _SCREEN_CODE.sub("", raw).rstrip()
            if not line:
                self._is_in_table = False
            elif match := _TIME.fullmatch(line):
                self._is_in_table = False
                self._time = self._times.ns(match[1])
                for metric, value in load_averages(match[2]):
                    self._batch.add(metric, None, self._time, value, None)
            elif _HEADER.fullmatch(line):
                self._is_in_table = True
                self._table_time, self._time = self._time, None
            elif self._is_in_table and line != "Detaching...":
                self._row(line, number, is_cut=lines.is_cut)
            else:
                self._sink.count("other_lines", detail=f"first at line {number}")
        self._batch.flush()

    def _row(self, line: str, number: int, *, is_cut: bool) -> None:
        fields = line.rsplit(maxsplit=2)
        if len(fields) < 3:
            self._lost("damaged_rows", number, f"{len(fields)} fields of 3")
            return
        if is_cut and len(line) < _NAME_WIDTH + 6 + 1 + 10:  # columns are this wide at least
            self._lost("cut_last_line", number, "no line end")
            return
        numbers = [self._numbers.integer(text, "slab", number, damage="damaged_rows") for text in fields[1:]]
        allocations, size = numbers
        if allocations is None or size is None:
            return
        labels = orjson.dumps({"cache": fields[0].strip()[:256]}).decode()
        self._batch.add("slab_allocations", labels, self._table_time, float(allocations), "count")
        self._batch.add("slab_allocated_bytes", labels, self._table_time, float(size), "bytes")

    def _lost(self, name: str, number: int, detail: str) -> None:
        self._sink.count(name, severity="data_loss", detail=f"{detail}, first at line {number}")


def read(path: Path, sink: Sink) -> None:
    """Read `metrics`: slab_allocations and slab_allocated_bytes of each interval by cache, and the load averages.

    `ts_ns` is the end of the interval as a time of day, see `daytime`.
    """
    with open_lines(path, sink) as lines:
        _Reader(sink).read(lines)


IMPORTER = Importer(
    name="slabratetop",
    priority=36,
    title="Slab allocations by cache and interval (slabratetop)",
    source="ebpf",
    clock="unknown",
    versions="bcc and libbpf-tools up to 0.36",
    produced_by="slabratetop",
    recipe="slabratetop-bpfcc -C -r 1000 1 60 > slabratetop.txt",
    left_out="numbers of running and all tasks, last pid",
    reference="https://github.com/iovisor/bcc/blob/master/tools/slabratetop.py",
    tables=("metrics",),
    sniff=sniff,
    read=read,
)
