"""Headers of CSV files of measurements: which column is the time, and whether the rows below hold numbers."""

from __future__ import annotations

import re

from ingest.csvrows import DELIMITERS, split_line
from ingest.numbers import to_real
from ingest.request_fields import UNIT_NS, key_of, time_ns
from ingest.textlines import head_lines

MAX_COLUMNS = 4096
_SNIFFED_ROWS = 20
_TIME_NAMES = ("timestamp", "time", "ts", "datetime", "date_time", "unix_time", "epoch", "scrape_time", "collected_at")
_OTHERS = frozenset(("token_index", "kernel_name", "correlation_id", "corrid"))
_OTHER_SETS = (frozenset(("timestamp_ns", "device_index", "used_bytes")),)
_SMI_UNIT = re.compile(
    r"\[(MiB|%|W|MHz|C|us|J)\]$|^(memory|utilization|power|temperature|clocks|pcie)\.", re.IGNORECASE
)


def unit_of_time(name: str) -> int | None:
    """ns a unit of a time column by its name, None when the name does not tell."""
    return UNIT_NS.get(key_of(name).rpartition("_")[2])


def _time_column(names: list[str]) -> int | None:
    keys = ["" if "%" in name else key_of(name) for name in names]  # `Time (%)` is none
    for wanted in _TIME_NAMES:
        for place, key in enumerate(keys):
            if key == wanted or (key.startswith(f"{wanted}_") and key.removeprefix(f"{wanted}_") in UNIT_NS):
                return place
    return None


def header_of(head: bytes) -> tuple[str, list[str], int] | None:
    """Header line, its names, and where the time stands; None when the file has no such header."""
    line = next((line for line in head_lines(head) if not line.startswith("#")), "")
    for delimiter in DELIMITERS:
        try:
            names = [name.strip() for name in split_line(line, delimiter)]
        except ValueError:
            continue
        place = _time_column(names) if 1 < len(names) <= MAX_COLUMNS else None
        if place is not None and not any(is_number(name) for name in names):
            return line, names, place
    return None


def is_number(text: str) -> bool:
    """Whether a cell holds a finite number."""
    try:
        to_real(text.strip())
    except ValueError:
        return False
    return True


def _is_time(text: str, unit: int | None) -> bool:
    try:
        time_ns(text.strip(), unit)
    except (ValueError, OverflowError):
        return False
    return True


def has_measurements(head: bytes) -> bool:
    """Whether a header names a time and other columns, and rows below it hold a time and a number."""
    header = header_of(head)
    if header is None:
        return False
    line, names, place = header
    keys = {key_of(name) for name in names}
    if not _OTHERS.isdisjoint(keys) or any(keys >= others for others in _OTHER_SETS):
        return False
    if any(_SMI_UNIT.search(name) for name in names):  # nvidia-smi's own
        return False
    delimiter = next(delimiter for delimiter in DELIMITERS if [n.strip() for n in _split(line, delimiter)] == names)
    rows = [_split(row, delimiter) for row in head_lines(head) if row != line and not row.startswith("#")]
    rows = [row for row in rows[:_SNIFFED_ROWS] if len(row) == len(names)]
    unit = unit_of_time(names[place])
    return any(
        _is_time(row[place], unit) and any(is_number(cell) for at, cell in enumerate(row) if at != place)
        for row in rows
    )


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return split_line(line, delimiter)
    except ValueError:
        return []
