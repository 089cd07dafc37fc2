"""`capture.yaml`: what no file of a capture can know (rank, model facts, objectives, periods, manual clock offsets)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ingest.callpaths import clean_text
from ingest.errors import BadInput
from ingest.request_fields import time_ns
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
    configuration: str | None = None
    models: dict[str, dict[str, float]] = field(default_factory=dict)
    slo: dict[str, float] = field(default_factory=dict)
    periods: list[dict[str, Any]] = field(default_factory=list)
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

    def rows(self) -> dict[str, list[Any]]:
        """Columns of `capture_notes`."""
        said = {"model": self.model, "configuration": self.configuration, "role": self.role}
        rows: list[tuple[str, str, float | None, str | None, int | None, int | None]] = [
            ("capture", name, None, text, None, None) for name, text in said.items() if text is not None
        ]
        rows += [("slo", name, float(value), None, None, None) for name, value in self.slo.items()]
        for model, facts in self.models.items():
            rows += [("model", name, float(value), model, None, None) for name, value in facts.items()]
        for one in self.periods:
            rows.append(("period", one["name"], None, one.get("kind", "degrade"), one["start"], one["end"]))
        names = ("fact", "name", "value", "text_value", "start_ns", "end_ns")
        columns: dict[str, list[Any]] = {name: [row[place] for row in rows] for place, name in enumerate(names)}
        for name in ("name", "text_value"):  # YAML can write characters that are none
            columns[name] = [text if text is None else clean_text(text) for text in columns[name]]
        return columns


def _timed(path: Path, period: dict[str, Any]) -> dict[str, Any]:
    """A period with its times in ns since 1970. Raises BadInput when they are no times or end before they start."""
    times = {}
    for key in ("start", "end"):
        try:
            times[key], _ = time_ns(period[key], None)
        except (ValueError, OverflowError) as error:
            where = f"{path}, period {period['name']}, {key}"
            raise BadInput(f"no time ({error})", where=where, todo="give a Unix time or a date with a time") from error
    if times["end"] < times["start"]:
        raise BadInput("ends before it starts", where=f"{path}, period {period['name']}", todo="correct it")
    return period | times


def read_capture_yaml(root: Path) -> CaptureNotes:
    """Notes of the capture folder `root`, empty when it has none. Raises BadInput when they can't be used."""
    path = root / NAME
    if not path.is_file():
        return CaptureNotes()
    notes = read_document(path, capture_schema())
    for name, value in [
        *notes.get("slo", {}).items(),
        *(f for m in notes.get("models", {}).values() for f in m.items()),
    ]:
        if not math.isfinite(value):
            raise BadInput("not a number", where=f"{path}, {name}", todo="correct it")
    if "periods" in notes:
        notes["periods"] = [_timed(path, period) for period in notes["periods"]]
    return CaptureNotes(**{key: value for key, value in notes.items() if key != "note"})
