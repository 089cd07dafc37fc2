"""What the frames of a call path tell, by frame_rules.yaml: caches, graph captures, backward passes, losses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from pipeline.leaks.paths import PathFrame

KINDS = ("kv_cache", "graph_capture", "backward", "no_grad", "loss")
_FILE = Path(__file__).with_name("frame_rules.yaml")
_WORD = re.compile(r"[A-Za-z_]\w*")
_TEXTS = {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"type": "string", "minLength": 3}}
SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["kind", "framework"],
        "anyOf": [{"required": [name]} for name in ("files", "names", "parts")],
        "properties": {
            "kind": {"enum": list(KINDS)},
            "framework": {"type": "string", "minLength": 2},
            "files": _TEXTS | {"items": {"type": "string", "pattern": r"^[^/\s]\S*\.\w+$"}},
            "names": _TEXTS | {"items": {"type": "string", "pattern": r"^[A-Za-z_]\w{2,}$"}},
            "parts": _TEXTS | {"items": {"type": "string", "pattern": r"^[^A-Z\s]{3,}$"}},
        },
    },
}


@dataclass(frozen=True, slots=True)
class FrameRule:
    """One rule: a frame in one of the files, with one of the names, or containing one of the parts."""

    kind: str
    framework: str
    files: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    parts: tuple[str, ...] = ()

    def matches(self, function: str, file: str | None) -> bool:
        """Whether a frame is of this kind; `file` is its whole path."""
        if self.parts:
            text = f"{function} {file or ''}".lower()
            return any(part in text for part in self.parts)
        if self.files and not (file and any(file == end or file.endswith(f"/{end}") for end in self.files)):
            return False
        return not self.names or not self.names.isdisjoint(_WORD.findall(function.partition("(")[0]))


def checked_rules(rows: Any) -> tuple[FrameRule, ...]:
    """Rules of plain data; jsonschema.ValidationError when they are against the schema."""
    jsonschema.validate(rows, SCHEMA)
    return tuple(
        FrameRule(
            row["kind"],
            row["framework"],
            tuple(row.get("files", ())),
            frozenset(row.get("names", ())),
            tuple(row.get("parts", ())),
        )
        for row in rows
    )


@cache
def frame_rules() -> tuple[FrameRule, ...]:
    """The rules of the package."""
    return checked_rules(yaml.safe_load(_FILE.read_text(encoding="utf-8")))


@lru_cache(maxsize=65536)
def _told(function: str, file: str | None) -> frozenset[tuple[str, str]]:
    path = file.replace("\\", "/") if file else None
    return frozenset((rule.kind, rule.framework) for rule in frame_rules() if rule.matches(function, path))


class FrameReader:
    """Kinds of frames on call paths; `cache_parts` are the user's own parts of names of key/value caches, any case."""

    def __init__(self, cache_parts: Iterable[str] = ()) -> None:
        self._own = tuple(part.lower() for part in cache_parts)

    def frameworks(self, frames: Iterable[PathFrame], kind: str) -> set[str]:
        """Frameworks of which a frame is of that kind; empty when none is."""
        found = set()
        for frame in frames:
            found |= {framework for told, framework in _told(frame.function, frame.file) if told == kind}
            if kind == "kv_cache" and self._own:
                text = f"{frame.function} {frame.file or ''}".lower()
                found |= {"settings" for part in self._own if part in text}
        return found

    def has(self, frames: Iterable[PathFrame], kind: str) -> bool:
        """Whether one of the frames is of that kind."""
        return bool(self.frameworks(frames, kind))
