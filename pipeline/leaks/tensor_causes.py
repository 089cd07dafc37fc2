"""Root causes of growing tensors: a key/value cache, a kept autograd graph, a graph's private pool."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pipeline.leaks.causes import Evidence, RootCause
from pipeline.leaks.frame_rules import FrameReader
from pipeline.leaks.paths import CallPathReader
from pipeline.leaks.suspects import Rated

CACHE_SHARE = 0.8
PRIVATE_SHARE = 0.8
GRAPH_PATHS = 6
PROPORTIONAL = 0.95
_OVERWRITTEN = -2


class Facts(NamedTuple):
    """What survivors are besides their sizes: bytes in private pools, these pools, requests with some, those ended."""

    private_bytes: int = 0
    pool_count: int = 0
    request_count: int = 0
    ended_count: int = 0


def bytes_below(rated: Rated, paths: CallPathReader, frames: FrameReader, kind: str) -> float:
    """Share of the retained bytes whose call path has a frame of that kind, 0 to 1."""
    total = rated.suspect.total("bytes")
    below = sum(
        g.total("bytes")
        for g in rated.suspect.groups
        if g.key.path_key >= 0 and frames.has(paths.frames(g.key.path_key), kind)
    )
    return below / total if total else 0.0


def _frameworks(rated: Rated, paths: CallPathReader, frames: FrameReader, kind: str) -> str:
    """Frameworks that frames of the kind are of, in words; a rule without one says nothing."""
    found: set[str] = set()
    for group in rated.suspect.groups:
        found |= frames.frameworks(paths.frames(group.key.path_key), kind)
    return ", ".join(sorted(found - {"any", "settings"}))


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


def kv_cache(
    rated: Rated, paths: CallPathReader, frames: FrameReader, tokens: Mapping[int, int], facts: Facts
) -> RootCause | None:
    """A finished request's keys and values are still held: by the frames of a cache, or by their shape alone."""
    share = bytes_below(rated, paths, frames, "kv_cache")
    sizes = _sizes_by_epoch(rated)
    pairs = all(n % 2 == 0 for by_size in sizes.values() for n in by_size.values())
    correlation = _token_correlation(sizes, tokens)
    follows = correlation is not None and correlation >= PROPORTIONAL
    if share < CACHE_SHARE and not (pairs and len(rated.suspect.groups) <= GRAPH_PATHS and follows):
        return None
    found = Evidence()
    whose = _frameworks(rated, paths, frames, "kv_cache")
    below = f"{share:.0%} of the bytes were allocated below a cache class's frames"
    found.add(share >= CACHE_SHARE, below + (f" ({whose})" if whose else ""), below)
    found.add(
        pairs,
        "tensors come in equal pairs (keys and values) in every leaking request",
        "tensors do not come in equal pairs in every leaking request",
    )
    if correlation is not None:
        text = f"bytes kept follow the request's tokens (correlation {correlation:.3f})"
        found.add(follows, text, f"bytes kept do not follow the request's tokens (correlation {correlation:.3f})")
    if facts.request_count:
        of = f"of {facts.request_count} requests that keep some"
        found.add(
            facts.ended_count == facts.request_count,
            f"all {of} have ended",
            f"{facts.request_count - facts.ended_count} {of} have no end: their caches may be in use",
        )
    if rated.association and rated.association.is_perfect:
        found.add(True, f"exactly the requests with {rated.association.attribute} keep theirs", "")
    return found.cause(
        "kv_cache",
        "Find who still holds the finished requests' caches: the session store, scheduler or callback that is told of"
        " normal ends only. Release the cache in a `finally`, on the path that leaking requests take.",
        "Log the cache's owner at request end (gc.get_referrers in a debug build), then compare with the fix.",
    )


def autograd_graph(rated: Rated, paths: CallPathReader, frames: FrameReader) -> RootCause | None:
    """A whole forward pass survives together: something that has its graph is stored."""
    groups = [g for g in rated.suspect.groups if g.key.path_key >= 0]
    stacks = [paths.frames(g.key.path_key) for g in groups]
    leaves = {(s[-1].file, s[-1].function) for s in stacks if s}
    share = bytes_below(rated, paths, frames, "kv_cache")
    unrecorded = bytes_below(rated, paths, frames, "no_grad")
    if len(groups) < GRAPH_PATHS or len(leaves) < 3 or share >= CACHE_SHARE or unrecorded >= CACHE_SHARE:
        return None
    losses = sum(frames.has(s, "loss") for s in stacks)
    backward = sum(frames.has(s, "backward") for s in stacks)
    found = Evidence()
    found.add(
        True,
        f"{len(groups)} call paths below one root keep {rated.suspect.total('count')} tensors, all in the same epochs",
        "",
    )
    found.add(True, f"they end in {len(leaves)} different functions, as a forward pass's saved tensors do", "")
    found.add(losses > 0, f"{losses} of the call paths lead through a loss", "no call path leads through a loss")
    found.add(
        not backward,
        "none was allocated in a backward pass",
        f"{backward} call paths were allocated in a backward pass",
    )
    if share:
        found.add(
            True, f"cache-shaped tensors hold {share:.0%} of the bytes: they are part of the graph, not the cause", ""
        )
    found.add(
        unrecorded < 0.005, "", f"{unrecorded:.0%} of the bytes lie below a torch.no_grad or inference_mode decorator"
    )
    return found.cause(
        "autograd_graph",
        "A tensor that still has its graph is stored, usually the loss: keep loss.item() or loss.detach(), or run the"
        " pass under torch.no_grad().",
        "Look for lists or metrics that grow by one tensor an epoch in the functions at the top of the leak path.",
    )


def graph_pool_tensors(rated: Rated, paths: CallPathReader, frames: FrameReader, facts: Facts) -> RootCause | None:
    """Growing tensors that lie in private pools: what CUDA graphs keep for their replays."""
    total = rated.suspect.total("bytes")
    share = facts.private_bytes / total if total else 0.0
    captured = bytes_below(rated, paths, frames, "graph_capture")
    if share < PRIVATE_SHARE:
        return None
    found = Evidence()
    pools = f"{facts.pool_count} private pool{'s' if facts.pool_count != 1 else ''}"
    found.add(True, f"{share:.0%} of the bytes lie in {pools} of the caching allocator", "")
    whose = _frameworks(rated, paths, frames, "graph_capture")
    found.add(
        captured >= PRIVATE_SHARE,
        f"{captured:.0%} were allocated while a CUDA graph was captured" + (f" ({whose})" if whose else ""),
        f"only {captured:.0%} have a frame of a CUDA graph's capture: the pool may be a torch.cuda.MemPool",
    )
    return found.cause("graph_pool", GRAPH_ADVICE, GRAPH_MEASURE)


GRAPH_ADVICE = (
    "Capture fewer shapes: round batch sizes and lengths up to a few buckets, share one pool between the graphs"
    " (pool=torch.cuda.graph_pool_handle()), and drop graphs of shapes that no longer come."
)
GRAPH_MEASURE = "Log each captured shape with torch.cuda.memory_reserved() before and after it."
