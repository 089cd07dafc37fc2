"""Root causes of growing memory outside the caching allocator: driver allocations and the host's memory."""

from __future__ import annotations

from pipeline.leaks.causes import Evidence, RootCause
from pipeline.leaks.kernel_caches import ADVICE, MEASURE, kernel_cache
from pipeline.leaks.paths import CallPathReader
from pipeline.leaks.suspects import Rated


def outside_allocator(rated: Rated, *, has_segments: bool) -> RootCause | None:
    """Device memory taken from the driver that no segment explains and nobody frees."""
    key = rated.suspect.groups[0].key
    if key.level != "driver" or key.memory_kind in ("pinned", "pageable"):
        return None
    found = Evidence()
    found.add(True, f"{rated.suspect.total('count')} driver allocations were never freed", "")
    found.add(
        has_segments,
        "no segment of the caching allocator lies in any of them",
        "no memory snapshot of the process: they may be the caching allocator's segments",
    )
    found.add(key.path_key >= 0, "their native call path is known", "no native call path was recorded")
    return found.cause(
        "outside_allocator",
        "Memory taken from the driver directly, by a native extension or ctypes: torch.cuda.empty_cache() can't give it"
        " back. Free it where the leak path allocates it.",
        "Where its frames are bare addresses, record again so that they have names: libraries not stripped, and the"
        " process alive when its stacks are printed."
        if key.path_key >= 0
        else "Record eBPF stacks of cuMemAlloc and cuMemFree over the same requests.",
    )


def host_memory(rated: Rated, paths: CallPathReader) -> RootCause | None:
    """Memory of the host: pinned or pageable, the process's heap, or objects and pages of the kernel."""
    key, count = rated.suspect.groups[0].key, rated.suspect.total("count")
    if key.level == "host":
        return _kernel_memory(rated, paths) if key.memory_kind in ("slab", "page") else _heap(rated, paths)
    if key.memory_kind not in ("pinned", "pageable"):
        return None
    found = Evidence()
    found.add(True, f"{count} allocations of {key.memory_kind} host memory were never freed", "")
    found.add(key.path_key >= 0, "their call path is known", "no call path was recorded")
    return found.cause(
        "host_memory",
        "Reuse pinned buffers, or let torch's pinned-memory cache hand them out.",
        "Sample RSS and the pinned allocations' call paths over the same requests.",
    )


def _kernel_memory(rated: Rated, paths: CallPathReader) -> RootCause:
    key, count = rated.suspect.groups[0].key, rated.suspect.total("count")
    name = paths.object_name(key.path_key)
    known = kernel_cache(name) if name else None
    what = f"{known.cache} objects" if known else "pages" if key.memory_kind == "page" else "objects of some cache"
    found = Evidence()
    found.add(True, f"{count} {what} were allocated and not freed{f'; each is {known.object}' if known else ''}", "")
    found.add(known is not None, "", "no cache names what they are")
    depth = max(len(paths.frames(group.key.path_key)) for group in rated.suspect.groups)
    found.add(depth > (0 if known is None else 1), "their caller is known", "no stack was recorded")
    return found.cause("host_memory", known.advice if known else ADVICE, known.measure if known else MEASURE)


def _heap(rated: Rated, paths: CallPathReader) -> RootCause:
    found = Evidence()
    found.add(True, f"{rated.suspect.total('count')} allocations of the process's heap were never freed", "")
    has_path = bool(paths.frames(rated.suspect.groups[0].key.path_key))
    found.add(has_path, "their call path is known", "no call path was recorded")
    return found.cause(
        "host_memory",
        "Free them where the leak path allocates them, or bound what holds them.",
        "Sample RSS over the same requests, and take a second heap profile after a longer run.",
    )
