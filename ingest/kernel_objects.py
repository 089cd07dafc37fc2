"""The kernel object behind a slab event, as the leaf frame of its call path: `filp (slab)` tells caches apart.

Size classes of kmalloc: https://github.com/torvalds/linux/blob/master/mm/slab_common.c (kmalloc_info)
"""

from __future__ import annotations

from ingest.callpaths import Frame
from ingest.kmem_fields import KmemEvent
from ingest.sink import Sink

MODULE = "slab"
"""Module of such a frame."""
MAX_CACHES = 10_000

_KIB = 1024
_LARGEST_CLASS = 8 * _KIB


class ObjectFrames:
    """Frame numbers of caches; caches beyond MAX_CACHES are counted and get none."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._known: dict[str, list[int]] = {}

    def of(self, cache: str | None) -> list[int]:
        """The frame in a list, empty where there is no cache: goes before a stack that is given leaf first."""
        if cache is None:
            return []
        if cache not in self._known:
            if len(self._known) >= MAX_CACHES:
                self._sink.count("caches_left_out", severity="data_loss", detail=f"more than {MAX_CACHES} slab caches")
                return []
            self._known[cache] = [self._sink.call_paths.frame(Frame(cache, module=MODULE))]
        return self._known[cache]


def cache_of(event: KmemEvent) -> str | None:
    """Cache of a tracepoint's object; None for pages and where nothing tells it.

    kmalloc does not name its cache, but the bytes that it took do: `kmalloc-64`, `kmalloc-2k`. Larger ones come from
    the page allocator.
    """
    if event.memory_kind != "slab":
        return None
    if event.name != event.call:
        return event.name[:256]
    size = event.size_bytes
    if event.call not in ("kmalloc", "kmalloc_node") or not size or size > _LARGEST_CLASS:
        return None
    return f"kmalloc-{size // _KIB}k" if size % _KIB == 0 else f"kmalloc-{size}"


def call_site(event: KmemEvent) -> list[Frame]:
    """The place that a tracepoint says it was called from, in a list; empty where it says none."""
    if event.call_site is None and event.call_site_address is None:
        return []
    return [Frame(event.call_site or "[unknown]", module=event.call_site_module, address=event.call_site_address)]
