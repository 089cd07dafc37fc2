"""Events of the kernel's memory tracepoints, from the text that ftrace and perf print after the event's name.

`call_site=__alloc_skb+0x5a ptr=0xffff8881 bytes_req=704 bytes_alloc=704 gfp_flags=GFP_KERNEL node=-1 accounted=false`
https://github.com/torvalds/linux/blob/master/include/trace/events/kmem.h

Kernels differ: call sites are bare hexadecimal (before 5.6), a symbol with offset, its size and its module; pointers
are real (perf, kernels before 4.15) or 32-bit hashes that stay the same for one address; `node`, `accounted` and the
cache's `name` come with 6.x; page frames are decimal, later hexadecimal; libtraceevent puts `[FAILED TO PARSE]` before
the raw fields where it can't follow the kernel's format. Fields may come in any order, and unknown ones are kept.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ingest.numbers import UINT64_MAX

PAGE_BYTES = 4096
_MAX_ORDER = 32
_MAX_SIZE = 2**62

_ALLOC = ("kmalloc", "kmalloc_node", "kmem_cache_alloc", "kmem_cache_alloc_node")
_FREE = ("kfree", "kmem_cache_free")
# The kernel raises mm_page_free for every page of a batch too, so that a batched event is no free of its own; the
# others tell where a page came from or went to between the page allocator's own lists.
_PAGE_ALLOC = ("mm_page_alloc",)
_PAGE_FREE = ("mm_page_free", "mm_page_free_direct")
_PAGE_OTHER = (
    "mm_page_free_batched",
    "mm_pagevec_free",
    "mm_page_alloc_zone_locked",
    "mm_page_pcpu_drain",
    "mm_page_alloc_extfrag",
)

KMEM_CALLS: frozenset[str] = frozenset((*_ALLOC, *_FREE, *_PAGE_ALLOC, *_PAGE_FREE, *_PAGE_OTHER, "rss_stat"))
"""Names of the tracepoints, without `kmem:`, that `kmem_event` reads."""

_KEY = re.compile(r"(?:^|\s)([a-z_]\w*)=\s*", re.ASCII)
_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})", re.ASCII)
_SITE_ADDRESS = re.compile(r"0x[0-9a-fA-F]{1,16}|[0-9a-fA-F]{8,16}", re.ASCII)
_SITE = re.compile(r"(.+?)\+0x[0-9a-fA-F]+(?:/0x[0-9a-fA-F]+)?(?:\s+\[(\S+)(?: [0-9a-f]+)?\])?", re.ASCII)
_NULL = ("(null)", "(nil)", "NULL")
# What differs from one event to the next; the rest repeats and is parsed once.
_VARYING = re.compile(r"(?:ptr=(?:0x)?([0-9a-f]{8,16})|page=\S+ pfn=0x([0-9a-f]{1,13}))(?= |$)", re.ASCII)
_MAX_KNOWN = 20_000
_MAX_KNOWN_CHARACTERS = 500


class KmemEvent(NamedTuple):
    """One event. `address` of slab events is the object, of page events the frame number × 4096 (physical).

    `name` is the cache where the kernel gives one, else the call; `size_bytes` is bytes_alloc, or 4096 << order, or
    of rss_stat the counter's new value; `call_site` is the function without its offset, None where only
    `call_site_address` is known; `attributes` are the remaining fields as printed. `is_current` is rss_stat's word
    whether the counter is that of the running process. A failed allocation and the free of a null pointer are
    `other`. `damage` names the fields that could not be read: they are None, and without an address the action is
    `other`.
    """

    call: str
    action: Literal["alloc", "free", "other"]
    memory_kind: Literal["slab", "page", "unknown"]
    name: str
    address: int | None = None
    size_bytes: int | None = None
    requested_bytes: int | None = None
    call_site: str | None = None
    call_site_module: str | None = None
    call_site_address: int | None = None
    is_current: bool | None = None
    attributes: str | None = None
    damage: str | None = None


class _Fields:
    def __init__(self, text: str) -> None:
        keys = list(_KEY.finditer(text))
        ends = [*(key.start() for key in keys[1:]), len(text)]
        self.values = {key[1]: text[key.end() : end].strip() for key, end in zip(keys, ends, strict=False)}
        self.damage: list[str] = []

    def take(self, name: str) -> str | None:
        return self.values.pop(name, None)

    def number(self, name: str, *, is_needed: bool = True, limit: int = _MAX_SIZE) -> int | None:
        text = self.take(name)
        digits = (text or "").removesuffix("B")
        is_hex = digits.startswith("0x")
        if len(digits) <= 40 and (_HEX.fullmatch(digits) if is_hex else digits.isascii() and digits.isdecimal()):
            value = int(digits, 16 if is_hex else 10)
            if value <= limit:
                return value
        if text is not None or is_needed:
            self.damage.append(name)
        return None

    def pointer(self, name: str) -> int | None:
        """The pointer, 0 for null, None when the kernel hides it or it is missing."""
        text = self.take(name)
        if text in _NULL:
            return 0
        match = _HEX.fullmatch(text or "")
        if match is None:
            self.damage.append(name)
        return None if match is None else int(match[1], 16)


def kmem_event(name: str, fields_text: str) -> KmemEvent | None:
    """The event of tracepoint `name` (with or without `kmem:`) whose fields are `fields_text`.

    None when it is none of KMEM_CALLS. Never raises: see `KmemEvent.damage`.
    """
    match = _VARYING.search(fields_text) if len(fields_text) <= _MAX_KNOWN_CHARACTERS else None
    if match is None:
        return _parse(name, fields_text)
    address = int(match[1], 16) if match[1] else int(match[2], 16) * PAGE_BYTES
    key = (name, not address, fields_text[: match.start()], fields_text[match.end() :])
    if key not in _known:
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[key] = _parse(name, fields_text)
    known = _known[key]
    return known if known is None or known.address is None else known._replace(address=address)


_known: dict[tuple[str, bool, str, str], KmemEvent | None] = {}


def _parse(name: str, fields_text: str) -> KmemEvent | None:
    call = name.removeprefix("kmem:")
    if call not in KMEM_CALLS:
        return None
    fields = _Fields(fields_text)
    if call == "rss_stat":
        return _rss_stat(call, fields)
    if call in _ALLOC or call in _FREE:
        return _slab(call, fields)
    return _page(call, fields)


def _slab(call: str, fields: _Fields) -> KmemEvent:
    is_alloc = call in _ALLOC
    address = fields.pointer("ptr")
    size = fields.number("bytes_alloc", is_needed=is_alloc)
    requested = fields.number("bytes_req", is_needed=is_alloc)
    site, module, site_address = _call_site(fields.take("call_site"))
    name = fields.take("name") or call
    action: Literal["alloc", "free", "other"] = ("alloc" if is_alloc else "free") if address else "other"
    return KmemEvent(
        call, action, "slab", name, address, size, requested, site, module, site_address, None, *_rest(fields)
    )


def _page(call: str, fields: _Fields) -> KmemEvent:
    order = fields.number("order", is_needed=call in _PAGE_ALLOC + _PAGE_FREE, limit=_MAX_ORDER)
    frame = fields.number("pfn", limit=UINT64_MAX // PAGE_BYTES)
    action: Literal["alloc", "free", "other"] = "other"
    if frame and call not in _PAGE_OTHER:  # 0: the allocation failed
        action = "alloc" if call in _PAGE_ALLOC else "free"
    if frame is not None:
        fields.take("page")
    address = None if frame is None else frame * PAGE_BYTES
    size = None if order is None else PAGE_BYTES << order
    return KmemEvent(call, action, "page", call, address, size, None, None, None, None, None, *_rest(fields))


def _rss_stat(call: str, fields: _Fields) -> KmemEvent:
    """`mm_id=… curr=0|1 type=MM_ANONPAGES size=4096B`; before 5.18 `member=1` stands for the type."""
    size = fields.number("size")
    current = fields.number("curr", is_needed=False)
    member = fields.values.get("type") or fields.values.get("member")
    name = f"{call} {member}" if member else call
    is_current = None if current is None else bool(current)
    return KmemEvent(call, "other", "unknown", name, None, size, None, None, None, None, is_current, *_rest(fields))


def _rest(fields: _Fields) -> tuple[str | None, str | None]:
    attributes = " ".join(f"{key}={value}" for key, value in fields.values.items())
    return attributes or None, ", ".join(fields.damage) or None


def _call_site(text: str | None) -> tuple[str | None, str | None, int | None]:
    """Function, module and address of a call site; a symbol has no address, an address no symbol."""
    if not text or text in _NULL:
        return None, None, None
    if _SITE_ADDRESS.fullmatch(text):
        return None, None, int(text, 16) or None
    if match := _SITE.fullmatch(text):
        return match[1], match[2], None
    return text, None, None
