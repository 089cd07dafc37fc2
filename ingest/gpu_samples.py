"""Samples of GPU quantities on their way into `metrics`: cells become numbers in base units, the rest is counted."""

from __future__ import annotations

from functools import lru_cache

import orjson

from ingest.callpaths import clean_text
from ingest.gpu_series import UNITS, Unit, is_missing, parse_cell, unit_named
from ingest.numbers import INT32_MAX
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.units import unit_of

MAX_BYTES = 2**61
"""Beyond it, differences of two counters no longer fit 64 bits."""

_ROW = ("metric", "labels", "ts_ns", "value", "unit", "process_id", "device_index")


@lru_cache(maxsize=4096)
def _json(items: tuple[tuple[str, str], ...]) -> str:
    return orjson.dumps(dict(items), option=orjson.OPT_SORT_KEYS).decode()


def labels_json(labels: dict[str, str]) -> str | None:
    """Labels as a JSON object with sorted keys, empty ones left out; None when none is left."""
    items = tuple((key, clean_text(value)) for key, value in labels.items() if value)
    return _json(items) if items else None


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

        Its unit is the cell's own, else the header's, else `likely_unit` (a key of UNITS).
        """
        if is_missing(text):
            self._sink.count("missing_values", detail=f"{name}, first at line {line}")
            return False
        try:
            number, printed = parse_cell(text)
        except ValueError as error:
            self._sink.count("damaged_values", severity="data_loss", detail=f"{name}: {error}, first at line {line}")
            return False
        unit = unit_named(printed) if printed else (header_unit or UNITS[likely_unit])
        if unit is None:
            # Half a unit is a cut or damaged cell; its number may lack digits as well.
            detail = f"{name}: unit {printed[:20]!r}, first at line {line}"
            self._sink.count("damaged_values", severity="data_loss", detail=detail)
            return False
        return self.value(name, unit, unit.of(number), line, ts_ns, process_id, device_index, labels)

    def value(
        self,
        name: str,
        unit: Unit,
        value: float,
        line: int,
        ts_ns: int | None,
        process_id: int | None = None,
        device_index: int | None = None,
        labels: str | None = None,
    ) -> bool:
        """Write one sample of the series `name` + the unit's suffix, `value` in base units; False when it can't be."""
        impossible = None
        if unit.base == "ratio" and value > 1:
            impossible = f"{name} above 100 %"
        elif unit.base == "bytes" and value > MAX_BYTES:
            impossible = f"{name} beyond {MAX_BYTES} bytes"
        elif value < 0 and unit.base != "celsius":
            impossible = f"{name} below 0"
        elif device_index is not None and device_index > INT32_MAX:
            impossible = "device index beyond 32 bits"
        if impossible:
            self._sink.count("impossible_values", severity="data_loss", detail=f"{impossible}, first at line {line}")
            return False
        if ts_ns is None:
            self._sink.count("samples_without_time", detail=f"first at line {line}")
        metric = name if unit.suffix and name.endswith(unit.suffix) else name + unit.suffix
        self._batch.add(metric, labels, ts_ns, value, unit.base or unit_of(metric), process_id, device_index)
        return True

    def flush(self) -> None:
        """Write what is there, after the last row."""
        self._batch.flush()
