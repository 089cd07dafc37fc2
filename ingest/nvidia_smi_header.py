"""Headers and rows of nvidia-smi's CSV queries: which line is a header, and where a row's cells end.

https://docs.nvidia.com/deploy/nvidia-smi/index.html, section "Selective Query Options".
"""

from __future__ import annotations

import re
from itertools import pairwise

from ingest.csvrows import split_line
from ingest.gpu_series import QUERY, Unit, unit_named

_FIELD = re.compile(r"([a-z][a-z0-9_.]{0,99})(?:\s*(\[[^\]]{1,12}\]))?", re.ASCII)
_OURS = re.compile(
    r"(memory|utilization|power|temperature|clocks|fan|pcie|ecc|enforced|encoder|inforom|retired_pages|remapped_rows|"
    r"clocks_throttle_reasons|clocks_event_reasons|protected_memory|mig|compute_mode)\.[a-z0-9_.]+",
    re.ASCII,
)
_APPS = frozenset(name for name in QUERY if "." not in name and name not in ("pstate", "time"))
_TIME = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}", re.ASCII)
_UNITS = re.compile(r"-?\d{1,20}(?:\.\d{1,6})? (?:MiB|%|W|MHz)", re.ASCII)
_HALVES = re.compile(r"[+-]?\d+", re.ASCII), re.compile(r"\d+(?:\s*[%A-Za-z/]+)?", re.ASCII)
_TIME_HALVES = re.compile(r".*T\d\d:\d\d:\d\d", re.ASCII), re.compile(r"\d{1,9}(?:Z|[+-]\d\d:?\d\d)?", re.ASCII)


def header_fields(line: str) -> tuple[str, list[tuple[str, Unit | None]]] | None:
    """Delimiter and (field, unit in brackets) of a header line, None for any other."""
    for delimiter in ",;\t":
        try:
            cells = [cell.strip().lower() for cell in split_line(line, delimiter)]
        except ValueError:
            continue
        matches = [_FIELD.fullmatch(cell) for cell in cells]
        fields = [match[1] for match in matches if match]
        if len(fields) != len(cells) or len(set(cells)) != len(cells):
            continue
        if any(_OURS.fullmatch(field) for field in fields) or ("pid" in fields and _APPS & set(fields)):
            return delimiter, [(m[1], unit_named(m[2]) if m[2] else None) for m in matches if m]
    return None


def is_bare_row(line: str) -> bool:
    """Whether the line is a row as only such a query prints it: its own sort of time, or two cells with units."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) < 2:
        return False
    return _TIME.fullmatch(cells[0]) is not None or sum(_UNITS.fullmatch(cell) is not None for cell in cells) >= 2


def row_cells(line: str, delimiter: str, width: int) -> list[str]:
    """The row's cells; where there are more than `width`, decimal commas are told from separators.

    Raises ValueError when a quote is left open.
    """
    cells = split_line(line, delimiter)
    if len(cells) <= width or delimiter != ",":
        return cells
    joined, skip = [], False
    for left, right in pairwise([*cells, ""]):
        if skip:
            skip = False
            continue
        # The tool puts a space behind each of its own commas.
        skip = any(a.fullmatch(left.strip()) and b.fullmatch(right) for a, b in (_HALVES, _TIME_HALVES))
        joined.append(f"{left},{right}" if skip else left)
    return joined if len(joined) == width else cells
