"""Words and references that findings share."""

from __future__ import annotations

import json
import re

LIBRARY_FRAME = re.compile(
    r"^\s*0x[0-9a-f]+\s*$|<built-in |"
    r"site-packages|dist-packages|/torch/|/lib/python|<frozen|\.so\b|\.cpp\b|\.h:|\.cu\b|\?\?:0|::"
)
"""A frame, as text, that is not of the user's own code."""


def bytes_text(value: float) -> str:
    """Bytes as people write them: 14.5 MB (decimal, three digits)."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 999.5:  # what three digits round to 1000 is one of the next unit
            return f"{value:.3g} {unit}" if unit != "B" else f"{value:.0f} B"
        value /= 1000
    return f"{value:.3g} TB"


def evidence_text(*parts: tuple[str, str]) -> str:
    """Rows that a finding rests on, as JSON: (table, SQL condition) each."""
    return json.dumps([{"table": table, "where": where} for table, where in parts])


def seconds_text(seconds: float) -> str:
    """Seconds in the unit that reads best: 1.8 s, 450 ms, 12.3 µs."""
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if abs(seconds) < limit * 0.9995:  # what three digits round to 1000 is one of the next unit
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.4g} s"


def quoted_text(value: object) -> str:
    """Text of a capture as a SQL literal, for the conditions of evidence."""
    return "'" + str(value).replace("'", "''") + "'"
