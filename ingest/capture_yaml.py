"""`capture.yaml`: what no file of a capture can know (rank, host, role, model, manual clock offsets)."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from schemas.capture import NAME, capture_schema
from schemas.documents import read_document

__all__ = ["NAME", "CaptureNotes", "read_capture_yaml"]


@dataclass(frozen=True, slots=True)
class CaptureNotes:
    """Parsed capture.yaml; `files` maps a glob of relative paths to facts about those files."""

    rank: int | None = None
    host: str | None = None
    role: str | None = None
    model: str | None = None
    request_columns: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, relative: str) -> dict[str, Any]:
        """Facts about one file: the capture's, overlaid by every matching glob in order."""
        facts: dict[str, Any] = {"rank": self.rank, "host": self.host}
        if self.request_columns:
            facts["request_columns"] = self.request_columns
        for pattern, extra in self.files.items():
            if fnmatch(relative, pattern):
                facts |= extra
        return {key: int(value) if isinstance(value, float) else value for key, value in facts.items()}


def read_capture_yaml(root: Path) -> CaptureNotes:
    """Notes of the capture folder `root`, empty when it has none. Raises BadInput when they can't be used."""
    path = root / NAME
    if not path.is_file():
        return CaptureNotes()
    notes = read_document(path, capture_schema())
    return CaptureNotes(**{key: value for key, value in notes.items() if key != "note"})
