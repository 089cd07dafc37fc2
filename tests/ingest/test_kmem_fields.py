"""Fields of kernel memory tracepoints as kernels from 2.6 to 6.x, ftrace and perf print them."""

from __future__ import annotations

import pytest

from ingest.kmem_fields import KMEM_CALLS, KmemEvent, kmem_event
from ingest.numbers import UINT64_MAX

SLAB = {
    # 3.x ftrace: bare hexadecimal
    (
        "kmalloc",
        "call_site=ffffffff8141abe8 ptr=ffff8800734f4cc0 bytes_req=168 bytes_alloc=192 gfp_flags=GFP_KERNEL|GFP_NOWARN",
    ): KmemEvent(
        "kmalloc", "alloc", "slab", "kmalloc", 0xFFFF8800734F4CC0, 192, 168, None, None, 0xFFFFFFFF8141ABE8,
        attributes="gfp_flags=GFP_KERNEL|GFP_NOWARN",
    ),
    # 5.x ftrace: symbol with offset and size, hashed pointer
    ("kmem_cache_free", "call_site=putname+0x47/0x50 ptr=00000000cef40c80"): KmemEvent(
        "kmem_cache_free", "free", "slab", "kmem_cache_free", 0xCEF40C80, call_site="putname"
    ),
    # 6.x perf: cache name, node, accounted
    (
        "kmem:kmem_cache_alloc",
        "call_site=mas_preallocate+0x3ef ptr=0xffff88810a25e500 name=maple_node bytes_req=256 bytes_alloc=256"
        " gfp_flags=GFP_KERNEL node=-1 accounted=false",
    ): KmemEvent(
        "kmem_cache_alloc", "alloc", "slab", "maple_node", 0xFFFF88810A25E500, 256, 256, "mas_preallocate",
        attributes="gfp_flags=GFP_KERNEL node=-1 accounted=false",
    ),
    # a module's call site, a cache whose name has a space, a field nobody knows yet
    (
        "kmem_cache_free",
        "call_site=ext4_free+0x12/0x34 [ext4] ptr=0xffff000012345678 name=my cache future=1",
    ): KmemEvent(
        "kmem_cache_free", "free", "slab", "my cache", 0xFFFF000012345678, call_site="ext4_free",
        call_site_module="ext4", attributes="future=1",
    ),
    # nothing to free, and an allocation that failed
    ("kfree", "call_site=c0123456 ptr=          (null)"): KmemEvent(
        "kfree", "other", "slab", "kfree", 0, call_site_address=0xC0123456
    ),
    (
        "kmalloc_node",
        "call_site=f+0x1/0x2 ptr=0000000000000000 bytes_req=8 bytes_alloc=8 gfp_flags=GFP_NOWAIT node=0",
    ): KmemEvent(
        "kmalloc_node", "other", "slab", "kmalloc_node", 0, 8, 8, "f", attributes="gfp_flags=GFP_NOWAIT node=0"
    ),
    # libtraceevent could not follow the kernel's print format
    (
        "kmem_cache_alloc_node",
        "[FAILED TO PARSE] call_site=0xffffffff812a ptr=0xffff88 bytes_req=0x20 bytes_alloc=64 gfp_flags=0xcc0 node=1",
    ): KmemEvent(
        "kmem_cache_alloc_node", "alloc", "slab", "kmem_cache_alloc_node", 0xFFFF88, 64, 32, None, None,
        0xFFFFFFFF812A, attributes="gfp_flags=0xcc0 node=1",
    ),
}  # fmt: skip

PAGES = {
    ("mm_page_alloc", "page=ffffea0001f5d280 pfn=2053962 order=3 migratetype=2 gfp_flags=GFP_KERNEL"): KmemEvent(
        "mm_page_alloc", "alloc", "page", "mm_page_alloc", 2053962 * 4096, 32768,
        attributes="migratetype=2 gfp_flags=GFP_KERNEL",
    ),
    ("kmem:mm_page_free", "page=0xffffea00047a1c40 pfn=0x11e871 order=0"): KmemEvent(
        "mm_page_free", "free", "page", "mm_page_free", 0x11E871 * 4096, 4096
    ),
    # the same page's mm_page_free is raised too
    ("mm_page_free_batched", "page=ffffea0001 pfn=17 order=0 cold=0"): KmemEvent(
        "mm_page_free_batched", "other", "page", "mm_page_free_batched", 17 * 4096, 4096, attributes="cold=0"
    ),
    ("mm_page_alloc", "page=          (null) pfn=0 order=9 migratetype=2 gfp_flags=GFP_NOWAIT"): KmemEvent(
        "mm_page_alloc", "other", "page", "mm_page_alloc", 0, 4096 << 9, attributes="migratetype=2 gfp_flags=GFP_NOWAIT"
    ),
    ("mm_page_alloc_extfrag", "page=00000000f00d pfn=9 alloc_order=1 fallback_order=3"): KmemEvent(
        "mm_page_alloc_extfrag", "other", "page", "mm_page_alloc_extfrag", 9 * 4096,
        attributes="alloc_order=1 fallback_order=3",
    ),
    ("rss_stat", "mm_id=1847 curr=1 type=MM_ANONPAGES size=176128B"): KmemEvent(
        "rss_stat", "other", "unknown", "rss_stat MM_ANONPAGES", size_bytes=176128, is_current=True,
        attributes="mm_id=1847 type=MM_ANONPAGES",
    ),
    ("rss_stat", "mm_id=1847 curr=0 member=1 size=4096B"): KmemEvent(
        "rss_stat", "other", "unknown", "rss_stat 1", size_bytes=4096, is_current=False,
        attributes="mm_id=1847 member=1",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("printed", "event"), [*SLAB.items(), *PAGES.items()], ids=lambda value: str(value)[:60])
def test_as_kernels_print_them(printed: tuple[str, str], event: KmemEvent) -> None:
    assert kmem_event(*printed) == event


def test_other_events_are_not_ours() -> None:
    assert kmem_event("sched:sched_switch", "prev_comm=a") is None
    assert kmem_event("kmem:new_event", "ptr=1") is None


@pytest.mark.parametrize(
    ("call", "text", "damage"),
    [
        ("kmalloc", "", "ptr, bytes_alloc, bytes_req"),
        ("kmalloc", "call_site=f+0x1 ptr=(____ptrval____) bytes_req=8 bytes_alloc=8", "ptr"),
        ("kmalloc", f"ptr=0x1 bytes_req={2**70} bytes_alloc=-8", "bytes_alloc, bytes_req"),
        ("kmalloc", f"ptr={'f' * 17} bytes_req={'9' * 10000} bytes_alloc=8", "ptr, bytes_req"),
        ("mm_page_alloc", "page=1 pfn=1 order=4000000", "order"),
        ("mm_page_free", f"page=1 pfn={UINT64_MAX} order=0", "pfn"),
        ("rss_stat", "mm_id=1 curr=1 type=MM_SWAPENTS size=-4096B", "size"),
    ],
)
def test_damage_is_named(call: str, text: str, damage: str) -> None:
    event = kmem_event(call, text)
    assert event is not None
    assert event.damage == damage
    assert event.action == ("other" if "ptr" in damage or "pfn" in damage or call == "rss_stat" else "alloc")


def test_junk_never_raises() -> None:
    for call in KMEM_CALLS:
        for text in ("=", "====", "ptr= pfn= order= size=", "ptr=\0", "é=1", "a=1 " * 10000, "ptr=0x pfn=0x order=0x"):
            assert kmem_event(call, text) is not None
