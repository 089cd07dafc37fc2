"""Kernel caches: what is known of them, and which growth is no suspect of its own."""

from __future__ import annotations

import pytest

from pipeline.leaks.kernel_caches import kernel_cache, let_go
from tests.leaks.groups import judged

NAMES = {1: "filp", 2: "lsm_file_cache", 3: "dentry", 4: "filp", 5: "my_cache"}
OLD, OTHER = range(10), range(20, 40)


def _verdicts(*paths_and_epochs: tuple[int, range], verdict: str = "growing") -> dict[int, str]:
    items = [
        judged(verdict, path, epochs, level="host", kind="slab", process=0, device=None)  # type: ignore[arg-type]
        for path, epochs in paths_and_epochs
    ]
    return {item.group.key.path_key: item.judgement.verdict for item in let_go(items, NAMES.get)}


def test_what_the_kernel_gives_back_is_no_suspect() -> None:
    assert _verdicts((1, OLD), (3, OLD), (5, OLD)) == {1: "growing", 3: "inconclusive", 5: "growing"}
    assert _verdicts((3, OLD), verdict="bounded") == {3: "bounded"}


def test_companions_go_with_the_cache_that_they_follow() -> None:
    assert _verdicts((1, OLD), (2, OLD)) == {1: "growing", 2: "inconclusive"}
    assert _verdicts((1, OTHER), (2, OLD)) == {1: "growing", 2: "growing"}, "another fate"
    assert _verdicts((2, OLD), (5, OLD)) == {2: "growing", 5: "growing"}, "nothing to follow"


def test_tensors_are_left_alone() -> None:
    items = [judged("growing", 3, OLD)]
    assert let_go(items, NAMES.get) == items


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("filp", "an open file"),
        ("kmalloc-512", "512 bytes"),
        ("kmalloc-cg-2k", "2k bytes"),
        ("kmalloc-rnd-07-96", "96 bytes"),
        ("dma-kmalloc-8", "8 bytes"),
        ("kmalloc-", "does not name"),
        ("other", "does not name"),
    ],
)
def test_what_a_cache_holds(name: str, text: str) -> None:
    assert kernel_cache(name).cache == name
    assert text in kernel_cache(name).object
    assert kernel_cache(name).advice and kernel_cache(name).measure
