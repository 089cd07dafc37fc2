"""Hand-made histories: what an epoch allocates, keeps and evicts, in one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.leaks.verdicts import PathHistory


def history(
    epochs: int,
    kept: Mapping[int, int],
    *,
    size: int = 4096,
    evicted: Sequence[tuple[int, int]] = (),
    sizes: Mapping[int, int] | None = None,
    older_freed: int = 0,
) -> PathHistory:
    """`kept`: blocks that survive, by epoch. `evicted`: (allocated in, freed in) of one block each."""
    allocated, freed, evictions, lasting = (np.zeros(epochs, dtype=np.int64) for _ in range(4))
    oldest = 0
    for epoch, count in kept.items():
        allocated[epoch] += count * size
        lasting[epoch] += count
    for start, end in evicted:
        allocated[start] += size
        freed[end] += size
        if end - start >= 2:
            lasting[start] += 1
            evictions[end] += 1
            oldest = max(oldest, end - start)
    counted = Counter(sizes or {size: sum(kept.values())})
    return PathHistory(epochs, allocated, freed, evictions, lasting, oldest, 0, dict(kept), counted, older_freed)
