"""What was given back late from before the recorded window: no call path is known for it, only its size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import comb

from pipeline.database import Database

UNLIKELY = 0.01
LIKE_KEPT = 0.5


def load_older_frees(database: Database) -> dict[tuple[object, ...], dict[int, int]]:
    """Rows of `older_frees`: count by size, by process, device, level, memory kind and (kernel) object name."""
    found: dict[tuple[object, ...], dict[int, int]] = defaultdict(dict)
    for *place, size, count in database.rows(
        "SELECT process_id, device_index, level, memory_kind, object_name, size_key, freed_count FROM older_frees"
    ):
        found[tuple(place)][size] = count
    return dict(found)


def _between(freed: Mapping[int, int], sizes: Mapping[int, int]) -> int:
    low, high = min(sizes), max(sizes)
    return sum(count for size, count in freed.items() if low <= size <= high)


def at_most(hits: int, trials: int, chance: float) -> float:
    """Probability of at most so many hits (binomial)."""
    return sum(comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(hits + 1))


def freed_like(freed: Mapping[int, int], sizes: Mapping[int, int], path_sizes: Mapping[int, int], epochs: int) -> int:
    """How many older blocks were given back that may be of the same kind as a group's survivors.

    `sizes` counts the group's survivors by size, `path_sizes` all of its call path's; `epochs` is how many keep the
    group's. Where a path keeps many sizes (a cache as long as its prompts), one size alone may lack frees by chance:
    then those of all its sizes count, unless a cache would hardly ever have spared any one size. What an epoch keeps
    together goes together: epochs are the trials, not blocks.
    """
    if not sizes:
        return 0
    own, all_freed = _between(freed, sizes), _between(freed, path_sizes)
    kept, all_kept = sum(sizes.values()), sum(path_sizes.values())
    together = max(1, kept // max(1, epochs))
    spared = at_most(own // together, all_freed // together, kept / all_kept) * len(path_sizes)
    if all_freed < LIKE_KEPT * all_kept or spared < UNLIKELY:
        return own
    return all_freed
