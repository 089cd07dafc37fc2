"""Allocation histories of known truth as plain lives, without files: many of them are judged in a second.

A life has a call path, a size, the epoch in which it began (as a fraction, before 0: before the window) and ended.
`Story.leaks` says which survivors nobody would have given back; the rest is in use, a cache, or built once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

KIB = 1024
NEVER = float("inf")
WEIGHTS, WORKSPACE, CHURN, MAIN, TABLES = range(5)


class Life(NamedTuple):
    """One allocation. `owner` is the request that it belongs to where requests overlap, else None."""

    path: int
    size: int
    begin: float
    end: float
    is_leak: bool
    owner: int | None = None


@dataclass(slots=True)
class Story:
    """Lives over `epochs` epochs; `attributes` of each; what was allocated before `lost` is not in the recording."""

    epochs: int
    random: random.Random
    lives: list[Life] = field(default_factory=list)
    attributes: dict[int, dict[str, str]] = field(default_factory=dict)
    lost: float = -1.0

    def add(self, path: int, size: int, begin: float, end: float, leak: bool = False, owner: int | None = None) -> None:
        """Note one life; one that ends after the last epoch lives on."""
        self.lives.append(Life(path, size, begin, end if end < self.epochs else NEVER, leak, owner))


def background(seed: int, least: int = 5, most: int = 60) -> Story:
    """Weights, a workspace of the first epoch, tables built when first needed, and churn."""
    draw = random.Random(seed)
    epochs = round(least * (most / least) ** draw.random())
    story = Story(epochs, draw)
    for _ in range(draw.randint(2, 12)):
        story.add(WEIGHTS, draw.choice((512, 2048, 4096)) * KIB, -0.5, NEVER)
    story.add(WORKSPACE, 32768 * KIB, draw.choice((0, 0, 1)) + 0.3, NEVER)
    for _ in range(draw.randint(0, 2)):
        story.add(TABLES, draw.randrange(KIB, 64 * KIB), draw.random() ** 3 * epochs, NEVER)
    carry = draw.random() < 0.7
    for epoch in range(epochs):
        for _ in range(draw.randint(1, 6)):
            begin = epoch + 0.2 + 0.5 * draw.random()
            story.add(CHURN, draw.randrange(KIB, 4096 * KIB), begin, begin + 0.2 * draw.random())
        if carry:
            story.add(CHURN, draw.randrange(KIB, 32 * KIB), epoch + 0.9, epoch + 1.5)
        cancelled = draw.random() < 0.3
        story.attributes[epoch] = {
            "status": "499" if cancelled else "200",
            "model": draw.choice("ab"),
            "prompt_tokens": draw.choice(("64–127", "128–255", "256–511")),
        }
    return story


def sizes(draw: random.Random) -> Callable[[], int]:
    """One size always, or another each time."""
    fixed = draw.choice((4 * KIB, 512 * KIB, 3072 * KIB))
    return (lambda: fixed) if draw.random() < 0.6 else (lambda: draw.randrange(4 * KIB, 2048 * KIB))


def cache(story: Story, limit: int, *, oldest_first: bool = True, before: int = 0) -> None:
    """A cache of at most `limit` entries; `before` epochs of it ran before the window."""
    draw, size, held = story.random, sizes(story.random), list[tuple[float, int]]()
    ends: list[tuple[float, int, float]] = []
    for epoch in range(-before, story.epochs):
        held.append((epoch + 0.4, size()))
        if len(held) > limit:
            begin, bytes_ = held.pop(0 if oldest_first else draw.randrange(len(held)))
            ends.append((begin, bytes_, epoch + 0.5))
    for begin, bytes_, end in ends:
        if end > 0:
            story.add(MAIN, bytes_, begin, end)
    for begin, bytes_ in held:
        story.add(MAIN, bytes_, begin, NEVER)
