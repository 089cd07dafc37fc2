"""One setting of the analysis: its default with what docs/config.md and the JSON Schema say of it."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def setting(
    default: Any, sentence: str, *, unit: str = "", minimum: float | None = None, maximum: float | None = None
) -> Any:
    """A dataclass field; `minimum` and `maximum` bound what a settings file may give."""
    metadata = {"sentence": sentence, "unit": unit, "minimum": minimum, "maximum": maximum}
    if isinstance(default, tuple | dict):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)
