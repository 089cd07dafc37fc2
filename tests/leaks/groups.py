"""Judged groups made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.leaks.histories import Group, PathKey, Survivors
from pipeline.leaks.merging import Judged
from pipeline.leaks.verdicts import Judgement, Verdict

MODES: dict[Verdict, Judgement] = {
    name: Judgement(name, name) for name in ("growing", "bounded", "one_time", "inconclusive")
}


def group(
    path: int,
    epochs: Iterable[int | None],
    *,
    size: int = 1024,
    count: int = 1,
    process: int | None = 1,
    device: int | None = 0,
    level: str = "tensor",
    kind: str = "device",
    sizes: Sequence[int] | None = None,
) -> Group:
    """Survivors of one call path: `count` of each size in each epoch."""
    rows = [Survivors(one, epoch, count, count * one, count * one) for epoch in epochs for one in (sizes or (size,))]
    return Group(PathKey(process, device, level, kind, path), rows)


def judged(
    verdict: Verdict, path: int, epochs: Iterable[int | None], *, root: int | None = 7, **facts: object
) -> Judged:
    """A group with a verdict."""
    return Judged(group(path, epochs, **facts), MODES[verdict], root)  # type: ignore[arg-type]
