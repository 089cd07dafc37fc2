"""A comparison on the terminal: the verdict, the before/after table, the call paths that changed most."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from pipeline.compare_result import Result
from pipeline.progress import printable

_PATHS = 3


def summary_text(result: Result, written: Sequence[Path]) -> str:
    """The summary for people; nothing in it can steer a terminal."""
    from reports.models.compare import read_comparison

    page = read_comparison(msgspec.to_builtins(result))
    lines = [f"{page.title}: {page.headline}", f"  {page.detail}", ""]
    rows = [("", "baseline", "candidate", "change", "interval", "verdict")]
    rows += [(m.label, m.baseline, m.candidate, m.change, m.interval, m.verdict) for m in page.measures]
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    for row in rows:
        first, *rest, last = (
            text.ljust(w) if i in (0, 5) else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(f"  {first}  {'  '.join(rest)}  {last}".rstrip())
    for name, paths in (("grew", page.grew), ("shrank", page.shrank)):
        for path in paths[:_PATHS]:
            told = f"{path.line.baseline} → {path.line.candidate} {path.line.label}"
            lines.append(f"  {name}: {path.leaf} ({path.place}): {told}, {path.line.verdict}")
    lines += [f"  setting {line.label}: {line.baseline} → {line.candidate}" for line in page.settings]
    lines += ["", f"  gate: {page.gate} (exit code {page.gate_exit})"]
    lines += [f"    {reason}" for reason in page.gate_reasons[:5]]
    lines += [f"  {path}" for path in written[:1]]
    return "\n".join(printable(line) for line in lines) + "\n"
