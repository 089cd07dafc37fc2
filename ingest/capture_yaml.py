"""`capture.yaml`: what no file of a capture can know (rank, host, role, model, service levels, manual clock offsets)."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from ingest.errors import BadInput

NAME = "capture.yaml"
_KEYS = {"rank", "host", "role", "model", "slo", "files", "periods", "note"}
_FILE_KEYS = {"clock_offset_ns", "clock", "rank", "host", "process_id", "ignore"}


@dataclass(frozen=True, slots=True)
class CaptureNotes:
    """Parsed capture.yaml; `files` maps a glob of relative paths to facts about those files."""

    rank: int | None = None
    host: str | None = None
    role: str | None = None
    model: str | None = None
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, relative: str) -> dict[str, Any]:
        """Facts about one file: the capture's, overlaid by every matching glob in order."""
        facts: dict[str, Any] = {"rank": self.rank, "host": self.host}
        for pattern, extra in self.files.items():
            if fnmatch(relative, pattern):
                facts |= extra
        return facts


def _integer(value: Any, key: str, where: str) -> int | None:
    if value is None or (type(value) is int and abs(value) < 2**62):
        return value
    raise BadInput(f"{key} must be a whole number, not {str(value)[:60]!r}", where=where, todo="see docs/config.md")


def read_capture_yaml(root: Path) -> CaptureNotes:
    """Notes of the capture folder `root`, empty when it has none. Raises BadInput when they can't be used."""
    path = root / NAME
    if not path.is_file():
        return CaptureNotes()
    where = str(path)
    try:
        if path.stat().st_size > 1 << 20:
            raise BadInput("larger than 1 MiB", where=where, todo="see docs/config.md")
        notes = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise BadInput(
            f"not readable as YAML ({str(error).splitlines()[0][:120]})", where=where, todo="see docs/config.md"
        ) from None
    if notes is None:
        return CaptureNotes()
    if not isinstance(notes, dict) or (unknown := set(map(str, notes)) - _KEYS):
        names = ", ".join(sorted(unknown)) if isinstance(notes, dict) else "no mapping"
        raise BadInput(f"unknown keys: {names}", where=where, todo=f"known are {', '.join(sorted(_KEYS))}")
    files = notes.get("files") or {}
    if not isinstance(files, dict) or not all(
        isinstance(v, dict) and set(map(str, v)) <= _FILE_KEYS for v in files.values()
    ):
        raise BadInput(
            "`files` must map a file pattern to facts",
            where=where,
            todo=f"known facts are {', '.join(sorted(_FILE_KEYS))}",
        )
    for facts in files.values():
        for key in ("clock_offset_ns", "rank", "process_id"):
            _integer(facts.get(key), key, where)
    host = notes.get("host")
    return CaptureNotes(
        rank=_integer(notes.get("rank"), "rank", where),
        host=str(host) if host is not None else None,
        role=str(notes["role"]) if notes.get("role") is not None else None,
        model=str(notes["model"]) if notes.get("model") is not None else None,
        files={str(pattern): {str(k): v for k, v in facts.items()} for pattern, facts in files.items()},
    )
