"""What the kernel's slab caches hold (kernel_caches.yaml), and which of them grow without being a leak."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import yaml

from pipeline.leaks.merging import SAME_FATE, Judged, jaccard
from pipeline.leaks.verdicts import Judgement

_FILE = Path(__file__).with_name("kernel_caches.yaml")
_GENERAL = re.compile(r"(?:dma-)?kmalloc-(?:\w+-)*?(\d+k?)")
ADVICE = "Find the caller that allocates these objects at the leaf of the leak path, and what should free them."
MEASURE = "Record kernel stacks of this cache's allocations (`leakpath collect ebpf slab`), and compare /proc/slabinfo."


@dataclass(frozen=True, slots=True)
class KernelCache:
    """A slab cache: what one object stands for, what to do about many, and why its growth may be no leak."""

    cache: str
    object: str
    advice: str = ADVICE
    measure: str = MEASURE
    reclaimable: bool = False
    follows: str | None = None


@cache
def _known() -> dict[str, KernelCache]:
    rows = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return {row["cache"]: KernelCache(**row) for row in rows}


def kernel_cache(name: str) -> KernelCache:
    """What is known of a cache; of one that is not listed its name alone, of kmalloc-N the size."""
    if name in _known():
        return _known()[name]
    if match := _GENERAL.fullmatch(name):
        return KernelCache(name, f"a buffer of up to {match[1]} bytes of the kernel's general allocator")
    return KernelCache(name, "an object that the list of known caches does not name")


def let_go(judged: list[Judged], object_name: Callable[[int], str | None]) -> list[Judged]:
    """Growing groups of kernel objects that are no suspects of their own become inconclusive, with the reason.

    Those that the kernel gives back under memory pressure, and those that come and go with each object of another
    cache, where that one grows in the same epochs. `object_name` gives the cache of a call path.
    """

    def name(item: Judged) -> str | None:
        key = item.group.key
        return object_name(key.path_key) if key.level == "host" and item.judgement.verdict == "growing" else None

    leads = [(name(item), item) for item in judged]

    def why(item: Judged) -> str | None:
        own = name(item)
        if own is None:
            return None
        known = kernel_cache(own)
        if known.reclaimable:
            return f"{own} ({known.object}) rises, and the kernel gives these back under memory pressure"
        for other, lead in leads:
            same = other == known.follows and lead.group.key[:4] == item.group.key[:4]
            if known.follows and same and jaccard(lead.group.epochs, item.group.epochs) >= SAME_FATE:
                return f"{own} ({known.object}) rises with {other}: each of those has its own, freed with it"
        return None

    return [
        item
        if (reason := why(item)) is None
        else replace(item, judgement=Judgement("inconclusive", reason, None, item.judgement.growth_bytes_per_epoch))
        for item in judged
    ]
