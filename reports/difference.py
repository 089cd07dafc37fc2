"""Differential flame graphs: call paths whose bytes grew, and those whose bytes shrank, from one capture to another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reports.callstacks import StackFrame
from reports.models.timeline import LEVEL_LABELS
from reports.speedscope import Profile, write_speedscope
from reports.text import tidy

DIFFERENCES = {
    "end_bytes": "bytes live at the end",
    "peak_bytes": "bytes live at the peak",
    "allocated_bytes": "bytes allocated in the window",
}
MAX_DEPTH = 200
_LEVELS = ("tensor", "segment", "driver", "host")

Change = tuple[str, str | None, int | None, Sequence[str], str, int]
"""Level, kind of memory, rank, frames root first, quantity, bytes of the candidate less those of the baseline."""


def difference_graph(quantity: str, changes: Iterable[Change], name: str, version: str) -> bytes:
    """A speedscope file with two profiles a kind of memory: what grew and what shrank.

    The weights of what grew less those of what shrank are the difference of the two captures' sums.
    """
    kept = [change for change in changes if change[4] == quantity and change[5]]
    places = sorted({change[:3] for change in kept}, key=_order)
    profiles = []
    for place in places:
        for word, sign in (("grew", 1), ("shrank", -1)):
            stacks: dict[tuple[StackFrame, ...], int] = {}
            for change in kept:
                if change[:3] == place and change[5] * sign > 0:
                    stack = tuple(StackFrame(tidy(frame, 200)) for frame in change[3][:MAX_DEPTH])
                    stacks[stack] = stacks.get(stack, 0) + change[5] * sign
            if stacks:
                samples = sorted(stacks.items(), key=lambda item: [frame.name for frame in item[0]])
                profiles.append(
                    Profile(f"{DIFFERENCES[quantity]} that {word}: {_place(place)}", "bytes", tuple(samples))
                )
    return write_speedscope(f"Difference in {DIFFERENCES[quantity]}, {name}", profiles, f"leakpath {version}")


def _order(place: tuple[str, str | None, int | None]) -> tuple[int, str, str, int]:
    level, kind, rank = place
    return (_LEVELS.index(level) if level in _LEVELS else 9, level, kind or "", -1 if rank is None else rank)


def _place(place: tuple[str, str | None, int | None]) -> str:
    level, kind, rank = place
    label = LEVEL_LABELS.get(level, level).split(" (")[0]
    parts = [label, kind if kind and kind not in label else None, None if rank is None else f"rank {rank}"]
    return ", ".join(filter(None, parts))
