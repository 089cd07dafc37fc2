"""Load averages as /proc/loadavg gives them, `0.99 0.39 0.30 3/282 22724`.

https://www.kernel.org/doc/html/latest/filesystems/proc.html (loadavg); the series have the names that Prometheus's node
exporter gives them.
"""

from __future__ import annotations

import re

_LOADS = re.compile(r"\s*(\d{1,9}\.\d{1,4}) (\d{1,9}\.\d{1,4}) (\d{1,9}\.\d{1,4})\b", re.ASCII)
METRICS = ("node_load1", "node_load5", "node_load15")


def load_averages(text: str) -> tuple[tuple[str, float], ...]:
    """(series, value) of the last 1, 5 and 15 minutes; empty when the text holds none."""
    match = _LOADS.match(text)
    return tuple(zip(METRICS, map(float, match.groups()), strict=True)) if match else ()
