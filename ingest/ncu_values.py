"""Numbers and units as Nsight Compute prints them, and rows of `kernel_metrics` made from them.

Units and their scaling: https://docs.nvidia.com/nsight-compute/NsightComputeCli/index.html#command-line-options
(`--print-units`, `--print-metric-instances`). Scaled units (Kbyte, us, Ghz; older: usecond, cycle/nsecond) become the
base unit that `--print-units base` prints, so that two reports compare.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from ingest.callpaths import clean_text
from ingest.numbers import MISSING, to_real
from ingest.rowbatch import RowBatch
from ingest.sink import Sink

COLUMNS = (
    *("launch_index", "name", "process_id", "device_index", "context_id", "stream_id", "grid", "block"),
    *("section", "metric", "value", "unit", "text_value"),
)

_MISSING = MISSING | {"(!) n/a", "<n/a>"}
_PREFIXES = {"": 0, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_TIMES = {"ns": 0, "us": 3, "ms": 6, "s": 9, "nsecond": 0, "usecond": 3, "msecond": 6, "second": 9}
_RATES = {"cycle/second": 0, "cycle/msecond": 3, "cycle/usecond": 6, "cycle/nsecond": 9}
_SCALED = re.compile(r"\b([KMGTP])(byte|hz|inst|sector|thread|warp|block|register)\b")
_NUMBER_AND_INSTANCES = re.compile(r"([-+]?\d[\d.,'\u00a0\u202f]*)\s+(\(.*\)|\{.*\})", re.DOTALL)
_GROUPS = str.maketrans("", "", "'\u00a0\u202f ")
_POINT, _COMMA = (
    re.compile(
        rf"[-+]?(\d{{1,3}}([{group}]\d{{2,3}})*[{group}]\d{{3}}|\d+)([{mark}]\d+)?([eE][-+]?\d{{1,3}})?", re.ASCII
    )
    for group, mark in ((",", "."), (".", ","))
)
"""Numbers with a decimal point and with a decimal comma; `1,234` is both."""


def base_unit(unit: str) -> tuple[str | None, int]:
    """The base unit, None for none, and the power of ten that takes a printed value there.

    A prefix counts the same way below a fraction bar: the tool itself prints 2,234 %/byte as 2.234 %/Kbyte.
    """
    unit = unit.strip()
    if unit in _TIMES:
        return "ns", _TIMES[unit]
    if unit in _RATES:
        return "hz", _RATES[unit]
    power = 0
    if found := _SCALED.search(unit):
        power = _PREFIXES[found[1]]
        unit = unit[: found.start()] + unit[found.start() + 1 :]
    return unit.replace("/second", "/s").replace("Hz", "hz") or None, power


def has_decimal_comma(texts: Iterable[str]) -> bool:
    """Whether numbers were printed as 1.234,5: the tool follows the locale."""
    points = commas = 0
    for text in texts:
        is_point, is_comma = _POINT.fullmatch(text), _COMMA.fullmatch(text)
        points += bool(is_point and not is_comma)
        commas += bool(is_comma and not is_point)
    return commas > points


class MetricRows:
    """Writes metrics of launches to `kernel_metrics`.

    `launch` holds the columns from `launch_index` to `block` of the launch whose metrics follow.
    """

    def __init__(self, sink: Sink, *, decimal_comma: bool) -> None:
        self.launch: tuple[object, ...] = (0, *[None] * 7)
        self._sink, self._decimal_comma = sink, decimal_comma
        self._batch = RowBatch(sink, "kernel_metrics", COLUMNS)
        self._units: dict[str, tuple[str | None, int]] = {}

    def number(self, text: str, power: int = 0) -> float:
        """The printed number times 10 to `power`. Raises ValueError when it is none."""
        plain = text.translate(_GROUPS)
        if not (_COMMA if self._decimal_comma else _POINT).fullmatch(plain):
            if not (_POINT if self._decimal_comma else _COMMA).fullmatch(plain):
                raise ValueError(f"not a number: {text[:40]!r}")
            self._decimal_comma = not self._decimal_comma
        plain = plain.replace(".", "").replace(",", ".") if self._decimal_comma else plain.replace(",", "")
        value = to_real(plain)
        return float(Decimal(plain).scaleb(power)) if power else value

    def add(self, section: str | None, metric: str, text: str, unit: str, line: int) -> None:
        """One printed value; what is not a number is kept as text, what is not there is counted."""
        text = text.strip()
        if text.lower() in _MISSING:
            self._sink.count("missing_values", detail=f"{metric[:80]}, first at line {line}")
            return
        if unit not in self._units:
            self._units[unit] = base_unit(unit)
        base, power = self._units[unit]
        instances = _NUMBER_AND_INSTANCES.fullmatch(text) if text.endswith((")", "}")) else None
        try:
            value = self.number(instances[1] if instances else text, power)
        except ValueError:
            self.write(section, metric, None, unit.strip() or None, text)
        else:
            self.write(section, metric, value, base, instances[2] if instances else None)

    def write(self, section: str | None, metric: str, value: float | None, unit: str | None, text: str | None) -> None:
        """One metric as it goes into the table."""
        section = clean_text(section) if section else None
        self._batch.add(*self.launch, section, clean_text(metric), value, unit, clean_text(text) if text else None)

    def flush(self) -> None:
        """To be called after the last metric."""
        self._batch.flush()
