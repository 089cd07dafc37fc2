"""Words and references that findings share."""

from __future__ import annotations

import json
import re

LIBRARY_FRAME = re.compile(
    r"^\s*0x[0-9a-f]+\s*$|site-packages|dist-packages|/torch/|/lib/python|<frozen|\.so\b|\.cpp\b|\.h:|\.cu\b|\?\?:0|::"
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
