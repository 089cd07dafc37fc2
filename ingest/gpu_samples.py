"""Samples of GPU quantities on their way into `metrics`: cells become numbers in base units, the rest is counted."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import orjson

from ingest.callpaths import clean_text
from ingest.gpu_series import UNITS, Unit, is_missing, parse_cell, unit_named
from ingest.numbers import INT32_MAX
from ingest.rowbatch import RowBatch
from ingest.sink import Severity, Sink
from ingest.units import unit_of

MAX_BYTES = 2**61
"""Beyond it, differences of two counters no longer fit 64 bits."""

_LONGEST_CELL = 200
_LONGEST_LABEL = 1000
_ROW = ("metric", "labels", "ts_ns", "value", "unit", "process_id", "device_index")


@lru_cache(maxsize=4096)
def _json(items: tuple[tuple[str, str], ...]) -> str:
    return orjson.dumps(dict(items), option=orjson.OPT_SORT_KEYS).decode()


def labels_json(labels: dict[str, str]) -> str | None:
    """Labels as a JSON object with sorted keys, empty ones left out; None when none is left."""
    items = tuple((key, clean_text(value[:_LONGEST_LABEL])) for key, value in labels.items() if value)
    return _json(items) if items else None


class _Sample(NamedTuple):
    metric: str
    value: float
    unit: str | None


class _Refused(NamedTuple):
    """Name of the counter, what to say, and whether something was lost."""

    counter: str
    detail: str
    is_loss: bool


@lru_cache(maxsize=16_384)
def _sample(name: str, text: str, likely_unit: str, header_unit: Unit | None) -> _Sample | _Refused:
    if len(text) > _LONGEST_CELL:
        return _Refused("damaged_values", f"{name}: a cell of {len(text)} characters", True)
    if is_missing(text):
        return _Refused("missing_values", name, False)
    try:
        number, printed = parse_cell(text)
    except ValueError as error:
        return _Refused("damaged_values", f"{name}: {error}", True)
    unit = unit_named(printed) if printed else (header_unit or UNITS[likely_unit])
    if unit is None:
        # Half a unit is a cut or damaged cell; its number may lack digits as well.
        return _Refused("damaged_values", f"{name}: unit {printed[:20]!r}", True)
    value = unit.of(number)
    metric = name if unit.suffix and name.endswith(unit.suffix) else name + unit.suffix
    if unit.base == "ratio" and value > 1:
        return _Refused("impossible_values", f"{name} above 100 %", True)
    if unit.base == "bytes" and value > MAX_BYTES:
        return _Refused("impossible_values", f"{name} beyond {MAX_BYTES} bytes", True)
    if value < 0 and unit.base != "celsius":
        return _Refused("impossible_values", f"{name} below 0", True)
    return _Sample(metric, value, unit.base or unit_of(metric))


class GpuSamples:
    """Writes rows of `metrics` from printed cells."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._batch = RowBatch(sink, "metrics", _ROW)

    def cell(
        self,
        name: str,
        text: str,
        line: int,
        ts_ns: int | None,
        *,
        likely_unit: str = "",
        header_unit: Unit | None = None,
        process_id: int | None = None,
        device_index: int | None = None,
        labels: str | None = None,
    ) -> bool:
        """Write the sample that `text` holds; False when there is none, which is counted.

        Its unit is the cell's own, else the header's, else `likely_unit` (a key of UNITS). Every text is read once: the
        few values that a series takes come again and again.
        """
        read = _sample if len(text) <= _LONGEST_CELL else _sample.__wrapped__
        found = read(name, text, likely_unit, header_unit)
        if device_index is not None and device_index > INT32_MAX and isinstance(found, _Sample):
            found = _Refused("impossible_values", "device index beyond 32 bits", True)
        if isinstance(found, _Refused):
            severity: Severity = "data_loss" if found.is_loss else "info"
            self._sink.count(found.counter, severity=severity, detail=f"{found.detail}, first at line {line}")
            return False
        if ts_ns is None:
            self._sink.count("samples_without_time", detail=f"first at line {line}")
        self._batch.add(found.metric, labels, ts_ns, found.value, found.unit, process_id, device_index)
        return True

    def flush(self) -> None:
        """Write what is there, after the last row."""
        self._batch.flush()
