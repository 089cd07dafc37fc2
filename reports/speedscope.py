"""Sampled profiles in the speedscope file format.

Format: https://www.speedscope.app/file-format-schema.json, explained at
https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from reports.callstacks import StackFrame

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
Unit = Literal["bytes", "none", "nanoseconds", "microseconds", "milliseconds", "seconds"]


@dataclass(frozen=True, slots=True)
class Profile:
    """One sampled profile: stacks root first, each with its weight in `unit`."""

    name: str
    unit: Unit
    samples: tuple[tuple[tuple[StackFrame, ...], int], ...]


def write_speedscope(name: str, profiles: Iterable[Profile], exporter: str) -> bytes:
    """The file's bytes; equal input gives equal bytes. Without profiles the file has an empty one that says so."""
    frames: dict[StackFrame, int] = {}
    written = [_profile(profile, frames) for profile in profiles]
    if not written:
        written = [_profile(Profile(f"{name}: nothing to show", "none", ()), frames)]
    return orjson.dumps(
        {
            "$schema": SCHEMA,
            "exporter": exporter,
            "name": name,
            "activeProfileIndex": 0,
            "shared": {"frames": [_frame(frame) for frame in frames]},
            "profiles": written,
        }
    )


def _profile(profile: Profile, frames: dict[StackFrame, int]) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": profile.name,
        "unit": profile.unit,
        "startValue": 0,
        "endValue": sum(weight for _, weight in profile.samples),
        "samples": [[frames.setdefault(frame, len(frames)) for frame in stack] for stack, _ in profile.samples],
        "weights": [weight for _, weight in profile.samples],
    }


def _frame(frame: StackFrame) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": frame.name}
    if frame.file is not None:
        shown["file"] = frame.file
    if frame.line is not None:
        shown["line"] = frame.line
    return shown
