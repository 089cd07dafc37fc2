"""Root causes of growing suspects (method 5): rules with evidence for and against, advice, and what to measure next."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pipeline.leaks.kernel_caches import ADVICE, MEASURE, kernel_cache
from pipeline.leaks.paths import CallPathReader, PathFrame
from pipeline.leaks.suspects import Rated
from schemas.config import RootCauseSettings

CACHE_SHARE = 0.8
GRAPH_PATHS = 6
PROPORTIONAL = 0.95
_OVERWRITTEN = -2


@dataclass(slots=True)
class RootCause:
    """One rule's answer; `confidence` 0 to 1 by the share of its evidence that holds."""

    name: str
    confidence: float
    evidence_for: list[str]
    advice: str
    next_measurement: str
    evidence_against: list[str] = field(default_factory=list)


def _names_cache(frames: tuple[PathFrame, ...], names: tuple[str, ...]) -> bool:
    lowered = [name.lower() for name in names]
    return any(name in f"{frame.function} {frame.file or ''}".lower() for frame in frames for name in lowered)


def _names_loss(frames: tuple[PathFrame, ...]) -> bool:
    return any("loss" in frame.function.lower() or "cross_entropy" in frame.function.lower() for frame in frames)


def _sizes_by_epoch(rated: Rated) -> dict[int, Counter[int]]:
    """Survivors' sizes an epoch; those from before the window, whose epoch was overwritten, together."""
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for group in rated.suspect.groups:
        for s in group.survivors:
            if s.epoch is None:
                found[_OVERWRITTEN][s.size] += s.count
            elif s.epoch >= 0:
                found[s.epoch][s.size] += s.count
    return dict(found)


def _token_correlation(sizes: Mapping[int, Counter[int]], tokens: Mapping[int, int]) -> float | None:
    """Correlation of bytes kept with the tokens of the request, over at least three different token counts."""
    pairs = [(tokens[e], sum(size * n for size, n in by_size.items())) for e, by_size in sizes.items() if e in tokens]
    if len({t for t, _ in pairs}) < 3 or len({b for _, b in pairs}) < 2:
        return None
    return float(np.corrcoef(np.array(pairs, dtype=float).T)[0, 1])


def _kv_cache(
    rated: Rated, paths: CallPathReader, settings: RootCauseSettings, tokens: Mapping[int, int]
) -> RootCause | None:
    groups = rated.suspect.groups
    total = rated.suspect.total("bytes")
    cached = sum(
        g.total("bytes")
        for g in groups
        if g.key.path_key >= 0 and _names_cache(paths.frames(g.key.path_key), settings.kv_cache_frames)
    )
    share = cached / total if total else 0.0
    sizes = _sizes_by_epoch(rated)
    pairs = all(n % 2 == 0 for by_size in sizes.values() for n in by_size.values())
    correlation = _token_correlation(sizes, tokens)
    by_frames = share >= CACHE_SHARE
    by_shape = pairs and len(groups) <= GRAPH_PATHS and correlation is not None and correlation >= PROPORTIONAL
    if not (by_frames or by_shape):
        return None
    for_it: list[str] = []
    against: list[str] = []
    (for_it if by_frames else against).append(f"{share:.0%} of the bytes were allocated below a cache class's frames")
    (for_it if pairs else against).append(
        "tensors come in equal pairs (keys and values) in every leaking request"
        if pairs
        else "tensors do not come in equal pairs in every leaking request"
    )
    if correlation is not None:
        (for_it if correlation >= PROPORTIONAL else against).append(
            f"bytes kept follow the request's tokens (correlation {correlation:.3f})"
        )
    if rated.association and rated.association.is_perfect:
        for_it.append(f"exactly the requests with {rated.association.attribute} keep theirs")
    return RootCause(
        "kv_cache",
        (len(for_it) + 1) / (len(for_it) + len(against) + 2),
        for_it,
        "Find who still holds the finished requests' caches: the session store, scheduler or callback that is told of"
        " normal ends only. Release the cache in a `finally`, on the path that leaking requests take.",
        "Log the cache's owner at request end (gc.get_referrers in a debug build), then compare with the fix.",
        against,
    )


def _autograd_graph(rated: Rated, paths: CallPathReader, settings: RootCauseSettings) -> RootCause | None:
    groups = [g for g in rated.suspect.groups if g.key.path_key >= 0]
    stacks = [paths.frames(g.key.path_key) for g in groups]
    leaves = {(s[-1].file, s[-1].function) for s in stacks if s}
    total = rated.suspect.total("bytes")
    cached = sum(
        g.total("bytes") for g, s in zip(groups, stacks, strict=True) if _names_cache(s, settings.kv_cache_frames)
    )
    share = cached / total if total else 0.0
    if len(groups) < GRAPH_PATHS or len(leaves) < 3 or share >= CACHE_SHARE:
        return None
    losses = sum(_names_loss(s) for s in stacks)
    backward = sum(any("backward" in frame.function.lower() for frame in s) for s in stacks)
    for_it = [
        f"{len(groups)} call paths below one root keep {rated.suspect.total('count')} tensors, all in the same epochs",
        f"they end in {len(leaves)} different functions, as a forward pass's saved tensors do",
    ]
    against: list[str] = []
    (for_it if losses else against).append(
        f"{losses} of the call paths lead through a loss" if losses else "no call path leads through a loss"
    )
    (for_it if not backward else against).append(
        "none was allocated in a backward pass"
        if not backward
        else f"{backward} call paths were allocated in a backward pass"
    )
    if cached:
        for_it.append(f"cache-shaped tensors hold {share:.0%} of the bytes: they are part of the graph, not the cause")
    return RootCause(
        "autograd_graph",
        (len(for_it) + 1) / (len(for_it) + len(against) + 2),
        for_it,
        "A tensor that still has its graph is stored, usually the loss: keep loss.item() or loss.detach(), or run the"
        " pass under torch.no_grad().",
        "Look for lists or metrics that grow by one tensor an epoch in the functions at the top of the leak path.",
        against,
    )


def _outside_allocator(rated: Rated, has_segments: bool) -> RootCause | None:
    key = rated.suspect.groups[0].key
    if key.level != "driver" or key.memory_kind in ("pinned", "pageable"):
        return None
    for_it = [f"{rated.suspect.total('count')} driver allocations were never freed"]
    against: list[str] = []
    if has_segments:
        for_it.append("no segment of the caching allocator lies in any of them")
    else:
        against.append("no memory snapshot of the process: they may be the caching allocator's segments")
    (for_it if key.path_key >= 0 else against).append(
        "their native call path is known" if key.path_key >= 0 else "no native call path was recorded"
    )
    return RootCause(
        "outside_allocator",
        (len(for_it) + 1) / (len(for_it) + len(against) + 2),
        for_it,
        "Memory taken from the driver directly, by a native extension or ctypes: torch.cuda.empty_cache() can't give it"
        " back. Free it where the leak path allocates it.",
        "Where its frames are bare addresses, record again so that they have names: libraries not stripped, and the"
        " process alive when its stacks are printed."
        if key.path_key >= 0
        else "Record eBPF stacks of cuMemAlloc and cuMemFree over the same requests.",
        against,
    )


def _host_memory(rated: Rated, paths: CallPathReader) -> RootCause | None:
    key = rated.suspect.groups[0].key
    if key.level == "host":
        return _kernel_memory(rated, paths) if key.memory_kind in ("slab", "page") else _heap(rated)
    if key.memory_kind not in ("pinned", "pageable"):
        return None
    return RootCause(
        "host_memory",
        2 / 3,
        [f"{rated.suspect.total('count')} allocations of {key.memory_kind} host memory were never freed"],
        "Reuse pinned buffers, or let torch's pinned-memory cache hand them out.",
        "Sample RSS and the pinned allocations' call paths over the same requests.",
    )


def _kernel_memory(rated: Rated, paths: CallPathReader) -> RootCause:
    key, count = rated.suspect.groups[0].key, rated.suspect.total("count")
    name = paths.object_name(key.path_key)
    known = kernel_cache(name) if name else None
    what = f"{known.cache} objects" if known else "pages" if key.memory_kind == "page" else "objects of some cache"
    for_it = [f"{count} {what} were allocated and not freed{f'; each is {known.object}' if known else ''}"]
    against = [] if known else ["no cache names what they are"]
    depth = max(len(paths.frames(group.key.path_key)) for group in rated.suspect.groups)
    has_callers = depth > (0 if known is None else 1)
    (for_it if has_callers else against).append("their caller is known" if has_callers else "no stack was recorded")
    return RootCause(
        "host_memory",
        (len(for_it) + 1) / (len(for_it) + len(against) + 2),
        for_it,
        known.advice if known else ADVICE,
        known.measure if known else MEASURE,
        against,
    )


def _heap(rated: Rated) -> RootCause:
    return RootCause(
        "host_memory",
        2 / 3,
        [f"{rated.suspect.total('count')} allocations of the process's heap were never freed"],
        "Free them where the leak path allocates them, or bound what holds them.",
        "Sample RSS over the same requests, and take a second heap profile after a longer run.",
    )


def _unclassified(rated: Rated) -> RootCause:
    members = len(rated.suspect.members)
    known = [
        f"{rated.suspect.total('count')} allocations on {members} call path{'s' if members > 1 else ''} keep growing"
    ]
    if rated.association:
        known.append(f"epochs with {rated.association.attribute} keep them")
    return RootCause(
        "unclassified",
        1 / 2,
        known,
        "No rule names the holder: a list, a hook, a stored exception or a closure are the usual ones."
        " Start at the leaf of the leak path.",
        "Take gc.get_referrers of one of the leaked tensors in a debug run, or a snapshot with stacks='all'.",
    )


def root_causes(
    rated: Rated, paths: CallPathReader, settings: RootCauseSettings, tokens: Mapping[int, int], *, has_segments: bool
) -> list[RootCause]:
    """Rules that hold for a growing suspect, the one that wins first; `unclassified` when none does.

    `tokens` maps an epoch to its request's prompt and output tokens. A graph contains cache-shaped tensors too, so
    autograd_graph is asked before kv_cache.
    """
    rules = (
        _outside_allocator(rated, has_segments),
        _host_memory(rated, paths),
        _autograd_graph(rated, paths, settings) if rated.suspect.groups[0].key.level == "tensor" else None,
        _kv_cache(rated, paths, settings, tokens) if rated.suspect.groups[0].key.level == "tensor" else None,
    )
    return [rule for rule in rules if rule is not None] or [_unclassified(rated)]
