"""Families of histories: what does not leak, what may not be told, and what leaks."""

from __future__ import annotations

from collections.abc import Callable

from tests.generate.lives import CHURN, KIB, MAIN, NEVER, Story, background, cache, sizes


def steady(seed: int) -> Story:
    """Nothing but the background."""
    return background(seed)


def bounded_lru(seed: int) -> Story:
    """A cache that is full before half of the epochs, oldest entry out."""
    story = background(seed, least=8)
    cache(story, story.random.randint(1, max(1, story.epochs // 2 - 1)))
    return story


def random_eviction(seed: int) -> Story:
    """A cache that evicts any entry."""
    story = background(seed, least=12)
    cache(story, story.random.randint(1, max(1, story.epochs // 3)), oldest_first=False)
    return story


def ttl(seed: int) -> Story:
    """Entries live for a time, however many there are."""
    story = background(seed, least=8)
    draw, size = story.random, sizes(story.random)
    time = draw.uniform(1, story.epochs / 2.5)
    for epoch in range(story.epochs):
        for _ in range(draw.choice((0, 1, 1, 2))):
            story.add(MAIN, size(), epoch + 0.4, epoch + 0.4 + time)
    return story


def warm_up(seed: int) -> Story:
    """The first epochs, up to half of them, build something each."""
    story = background(seed, least=8)
    size = sizes(story.random)
    for epoch in range(story.random.randint(2, max(2, story.epochs // 2))):
        story.add(MAIN, size(), epoch + 0.3, NEVER)
    return story


def late_warm_up(seed: int) -> Story:
    """Building goes on for up to three quarters of the epochs, ever more rarely."""
    story = background(seed, least=12)
    draw, size = story.random, sizes(story.random)
    last = draw.uniform(0.5, 0.75) * story.epochs
    for epoch in range(int(last)):
        if draw.random() < 1 - epoch / last:
            story.add(MAIN, size(), epoch + 0.3, NEVER)
    return story


def sawtooth(seed: int) -> Story:
    """Epochs gather something that is given back together every so often."""
    story = background(seed, least=10)
    size, period = sizes(story.random), story.random.randint(2, max(2, story.epochs // 3))
    for epoch in range(story.epochs):
        story.add(MAIN, size(), epoch + 0.4, (epoch // period + 1) * period + 0.1)
    return story


def size_classes(seed: int) -> Story:
    """A pool keeps one block of each power of two that was ever asked for."""
    story = background(seed, least=8)
    for power in range(story.random.randint(3, 9)):
        story.add(MAIN, KIB << power, story.random.uniform(0, story.epochs), NEVER)
    return story


def full_cache_cut(seed: int) -> Story:
    """A cache that was full when the recorded window began."""
    story = background(seed, least=12)
    limit = story.random.randint(2, max(2, story.epochs // 2))
    cache(story, limit, before=limit + story.random.randint(1, 20))
    story.lost = 0.0
    return story


def interleaved_clean(seed: int) -> Story:
    """Requests of several workers overlap; each gives back what it took, later ones' epochs in between."""
    story = background(seed, least=10)
    workers = story.random.randint(2, 5)
    for epoch in range(story.epochs):
        for _ in range(3):
            begin = epoch + story.random.uniform(0, workers)
            story.add(MAIN, 32 * KIB, begin, epoch + workers, owner=epoch)
    return story


def unfilled_cache(seed: int) -> Story:
    """A cache whose limit lies beyond half of the epochs, or beyond all of them: it may not be told from a leak."""
    story = background(seed, least=8)
    cache(story, story.random.randint(story.epochs // 2, 3 * story.epochs // 2))
    return story


def growing(seed: int) -> Story:
    """Each epoch keeps something."""
    story = background(seed)
    size = sizes(story.random)
    for epoch in range(story.epochs):
        story.add(MAIN, size(), epoch + 0.4, NEVER, leak=True)
    return story


def now_and_then(seed: int) -> Story:
    """An epoch keeps something with a chance."""
    story = background(seed, least=10)
    size, chance = sizes(story.random), story.random.uniform(0.2, 0.9)
    for epoch in range(story.epochs):
        if story.random.random() < chance:
            story.add(MAIN, size(), epoch + 0.4, NEVER, leak=True)
    return story


def cancelled(seed: int) -> Story:
    """Cancelled requests keep theirs, all others give it back."""
    story = background(seed, least=8)
    size = sizes(story.random)
    for epoch in range(story.epochs):
        is_leak = story.attributes[epoch]["status"] == "499"
        story.add(MAIN, size(), epoch + 0.4, NEVER if is_leak else epoch + 0.6, leak=is_leak)
    return story


def rare_big(seed: int) -> Story:
    """One epoch in four to eight keeps much."""
    story = background(seed, least=24)
    every = story.random.randint(4, 8)
    for epoch in range(story.random.randrange(every), story.epochs, every):
        story.add(MAIN, 65536 * KIB, epoch + 0.4, NEVER, leak=True)
    return story


def slow_drip(seed: int) -> Story:
    """4 KiB an epoch or two, on the call path of all the churn."""
    story = background(seed, least=12)
    every = story.random.choice((1, 1, 2))
    for epoch in range(0, story.epochs, every):
        story.add(CHURN, 4 * KIB, epoch + 0.4, NEVER, leak=True)
    return story


def cache_and_leak(seed: int) -> Story:
    """A small cache, and of a few epochs an entry that nobody evicts, on one call path."""
    story = background(seed, least=16)
    chance = story.random.uniform(0.3, 0.9)
    cache(story, story.random.randint(1, max(1, story.epochs // 5)))
    for epoch in range(story.epochs):
        if story.random.random() < chance:
            story.add(MAIN, 96 * KIB, epoch + 0.45, NEVER, leak=True)
    return story


def late_start(seed: int) -> Story:
    """The leak begins after a third of the epochs."""
    story = background(seed, least=15)
    size = sizes(story.random)
    for epoch in range(story.epochs // 3, story.epochs):
        story.add(MAIN, size(), epoch + 0.4, NEVER, leak=True)
    return story


def growing_cut(seed: int) -> Story:
    """Each epoch keeps something, also before the recorded window began."""
    story = background(seed, least=10)
    size = sizes(story.random)
    for epoch in range(-story.random.randint(3, 30), story.epochs):
        story.add(MAIN, size(), epoch + 0.4, NEVER, leak=True)
    story.lost = 0.0
    return story


def interleaved_leak(seed: int) -> Story:
    """Requests of several workers overlap, and some keep what they took."""
    story = background(seed, least=12)
    workers, chance = story.random.randint(2, 5), story.random.uniform(0.3, 1.0)
    for epoch in range(story.epochs):
        is_leak = story.random.random() < chance
        for _ in range(3):
            begin = epoch + story.random.uniform(0, workers)
            story.add(MAIN, 32 * KIB, begin, NEVER if is_leak else epoch + workers, leak=is_leak, owner=epoch)
    return story


CLEAN: dict[str, Callable[[int], Story]] = {
    f.__name__: f
    for f in (
        steady, bounded_lru, random_eviction, ttl, warm_up, late_warm_up, sawtooth, size_classes, full_cache_cut,
        interleaved_clean,
    )
}  # fmt: skip
OPEN: dict[str, Callable[[int], Story]] = {f.__name__: f for f in (unfilled_cache,)}
LEAKING: dict[str, Callable[[int], Story]] = {
    f.__name__: f
    for f in (
        growing, now_and_then, cancelled, rare_big, slow_drip, cache_and_leak, late_start, growing_cut, interleaved_leak
    )
}  # fmt: skip
