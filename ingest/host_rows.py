"""Rows of host memory on their way into `metrics`, and how the kernel's names become names of series."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ingest.gpu_samples import MAX_BYTES, labels_json
from ingest.numbers import NumberReader
from ingest.rowbatch import RowBatch
from ingest.sink import Sink

NO_LABELS: Mapping[str, str] = {}
_ROW = ("metric", "labels", "ts_ns", "value", "unit", "process_id")
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MAX_NAME = 120


@lru_cache(maxsize=4096)
def snake(key: str) -> str:
    """`VmRSS` → `vm_rss`, `Active(anon)` → `active_anon`, `HugePages_Total` → `huge_pages_total`."""
    return re.sub(r"[^a-z0-9]+", "_", _WORD_ENDS.sub("_", key[:_MAX_NAME]).lower()).strip("_")


@dataclass(slots=True)
class Place:
    """Where the lines being read come from: a file's path, its process, its cgroup; the time of the sample."""

    path: str = ""
    process_id: int | None = None
    cgroup: str = ""
    ts_ns: int | None = None


class HostRows:
    """Writes samples of one file, with the time and process of `place`."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.place = Place()
        self.numbers = NumberReader(sink)
        self._batch = RowBatch(sink, "metrics", _ROW)

    def text(
        self,
        metric: str,
        text: str,
        line: int,
        *,
        unit: str | None,
        scale: int = 1,
        labels: Mapping[str, str] = NO_LABELS,
    ) -> None:
        """One sample from a whole number as printed; `scale` is what one of it is in `unit`."""
        value = self.numbers.integer(text, metric, line)
        if value is not None:
            self.value(metric, value * scale, line, unit=unit, labels=labels)

    def value(
        self,
        metric: str,
        value: float | None,
        line: int,
        *,
        unit: str | None,
        labels: Mapping[str, str] = NO_LABELS,
    ) -> None:
        """One sample; None is a value that is known not to be a number (an unlimited limit)."""
        if value is not None and unit == "bytes" and value > MAX_BYTES:
            detail = f"{metric} beyond {MAX_BYTES} bytes, first at line {line}"
            self.sink.count("impossible_values", severity="data_loss", detail=detail)
            return
        place = self.place
        if place.ts_ns is None:
            self.sink.count("samples_without_time", detail=f"first at line {line}")
        labels = {**labels, "cgroup": place.cgroup}
        number: Any = None if value is None else float(value)
        self._batch.add(metric, labels_json(labels), place.ts_ns, number, unit, place.process_id)

    def damaged(self, name: str, what: str, line: int) -> None:
        """Count something lost."""
        self.sink.count(name, severity="data_loss", detail=f"{what}, first at line {line}")

    def flush(self) -> None:
        """Write what is there, after the last row."""
        self._batch.flush()
