"""Growth of the allocator's level at each request: what a truncated history still shows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pipeline.leaks.levels import Growth, growth, is_level, without_own_share
from schemas.config import LeakSettings

SETTINGS = LeakSettings()
MIB = 1024 * 1024


def _served(seed: int, count: int, kept: list[int], a_token: int = 28_000) -> tuple[list[int], list[int | None]]:
    """Levels of requests that each hold their own prompt's share on top of what earlier ones kept."""
    draw = random.Random(seed)
    tokens: list[int | None] = [draw.choice((64, 128, 256, 384, 512)) for _ in range(count)]
    base = 90 * MIB
    levels = [base + sum(kept[:i]) + a_token * (tokens[i] or 0) + draw.randrange(4096) for i in range(count)]
    return levels, tokens


def _of(levels: list[int], tokens: list[int | None], cancelled: set[int]) -> Growth | None:
    attributes = {i: {"status": "499" if i in cancelled else "200"} for i in range(len(levels))}
    return growth(levels, tokens, attributes, SETTINGS)


@pytest.mark.parametrize("seed", range(10))
def test_cancelled_requests_that_keep_theirs_are_found(seed: int) -> None:
    draw = random.Random(seed)
    cancelled = {i for i in range(30) if i % 3 == 2}
    kept = [draw.randrange(MIB // 2, 6 * MIB) if i in cancelled else 0 for i in range(30)]
    found = _of(*_served(seed, 30, kept), cancelled)
    assert found is not None
    assert found.leaking == frozenset(cancelled - {29})  # what the last one keeps shows in no later level
    assert found.association is not None
    assert found.association.attribute == "status=499"
    assert found.bytes == pytest.approx(sum(kept[:29]), abs=found.noise_bytes + 8192)


@pytest.mark.parametrize("seed", range(20))
def test_a_cache_that_fills_and_levels_off_is_not_growth(seed: int) -> None:
    draw = random.Random(seed)
    limit, entries, kept = 2 + seed % 13, list[int](), list[int]()
    for _ in range(30):
        before = sum(entries)
        entries = [*entries, draw.randrange(MIB, 6 * MIB)][-limit:]
        kept.append(sum(entries) - before)
    assert _of(*_served(seed, 30, kept), {i for i in range(30) if i % 3 == 2}) is None


@pytest.mark.parametrize("seed", range(20))
def test_level_noise_is_not_growth(seed: int) -> None:
    assert _of(*_served(seed, 40, [0] * 40), {2, 5, 8}) is None


def test_too_few_requests_abstain() -> None:
    assert _of([MIB, 2 * MIB, 3 * MIB], [1, 1, 1], set()) is None


def test_a_requests_own_share_is_taken_off() -> None:
    levels, tokens = _served(1, 20, [0] * 20)
    assert np.ptp(without_own_share(np.array(levels, dtype=float), tokens)) <= 3 * 4096
    assert np.ptp(levels) > MIB


@pytest.mark.parametrize("tokens", [[None] * 6, [64] * 6, [1, 2, None, 4, 5, 6]])
def test_levels_are_left_alone_where_lengths_say_nothing(tokens: list[int | None]) -> None:
    levels = np.array([5.0, 1.0, 4.0, 2.0, 6.0, 3.0])
    assert without_own_share(levels, tokens).tolist() == levels.tolist()


def test_level_noise_is_mostly_level_and_a_leak_never_is() -> None:
    seeds = range(60)
    noise = [is_level(*_served(seed, 40, [4096 * (-1) ** i for i in range(40)]), SETTINGS) for seed in seeds]
    leaks = [is_level(*_served(seed, 40, [MIB // 4] * 40), SETTINGS) for seed in seeds]
    assert sum(noise) > 0.7 * len(seeds)
    assert not any(leaks)


def test_one_leak_of_few_requests_is_neither_growth_nor_level() -> None:
    levels, tokens = [MIB, MIB, MIB, MIB, MIB, 2 * MIB], [64] * 6
    assert growth(levels, tokens, {}, SETTINGS) is None
    assert not is_level(levels, tokens, SETTINGS)
    assert not is_level([MIB] * 3, [64] * 3, SETTINGS)
    assert is_level([MIB] * 6, [64] * 6, SETTINGS)
