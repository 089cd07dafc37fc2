"""Units of series whose name says it, after https://prometheus.io/docs/practices/naming/."""

from __future__ import annotations

_SUFFIXES = {
    "_bytes": "bytes",
    "_seconds": "seconds",
    "_ratio": "ratio",
    "_pct": "percent",
    "_percent": "percent",
    "_celsius": "celsius",
    "_watts": "watts",
    "_joules": "joules",
    "_hertz": "hertz",
    "_ns": "ns",
    "_ms": "ms",
}


def unit_of(name: str) -> str | None:
    """Unit of a series by its name, None when the name does not tell.

    `x_seconds_sum` is in seconds; `x_count` and `x_bucket` of a histogram count observations; `x_created` is
    a Unix time in seconds; a counter `x_total` without a unit counts events.
    """
    if name.endswith(("_count", "_bucket")):
        return "count"
    if name.endswith("_created"):
        return "seconds"
    base = name.removesuffix("_sum").removesuffix("_total")
    for suffix, unit in _SUFFIXES.items():
        if base.endswith(suffix):
            return unit
    return "count" if name.endswith("_total") else None
