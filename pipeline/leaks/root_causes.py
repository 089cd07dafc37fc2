"""Root causes of growing suspects (method 5): rules with evidence for and against, advice, and what to measure next."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.database import Database
from pipeline.leaks.causes import Evidence, RootCause
from pipeline.leaks.epochs import tokens_by_epoch
from pipeline.leaks.frame_rules import FrameReader
from pipeline.leaks.outside_causes import host_memory, outside_allocator
from pipeline.leaks.paths import CallPathReader
from pipeline.leaks.pools import processes_with_segments
from pipeline.leaks.suspects import Rated
from pipeline.leaks.tensor_causes import Facts, autograd_graph, bytes_below, graph_pool_tensors, kv_cache
from pipeline.wording import LIBRARY_FRAME
from schemas.config import RootCauseSettings

__all__ = ["RootCause", "causes_of_suspects", "root_causes"]


def _unclassified(rated: Rated, paths: CallPathReader, frames: FrameReader, facts: Facts) -> RootCause:
    """What is known of the holder, the path and the attributes of a leak that no rule fits."""
    suspect, found = rated.suspect, Evidence()
    members = len(suspect.members)
    found.add(
        True,
        f"{suspect.total('count')} allocations on {members} call path{'s' if members > 1 else ''} keep growing",
        "",
    )
    sizes = {s.size for group in suspect.groups for s in group.survivors}
    found.add(len(sizes) == 1, f"all are of one size, {max(sizes, default=0):,} bytes", "")
    if rated.association:
        found.add(True, f"epochs with {rated.association.attribute} keep them", "")
    path = paths.frames(suspect.groups[0].key.path_key)
    own = [frame.text() for frame in path if not LIBRARY_FRAME.search(frame.text())]
    found.add(bool(own), f"the innermost frame of the program's own is {own[-1] if own else ''}", "")
    found.add(bool(path), "", "no call path was recorded")
    found.add(
        rated.association is not None or not facts.request_count,
        "",
        "no attribute tells leaking requests from the rest",
    )
    share = bytes_below(rated, paths, frames, "kv_cache")
    found.add(not share, "", f"{share:.0%} of the bytes lie below a cache class's frames: too few for a KV cache leak")
    return RootCause(
        "unclassified",
        1 / 2,
        found.supports,
        "No rule names the holder: a list, a hook, a stored exception or a closure are the usual ones."
        + (f" Start at {own[-1]}." if own else " Start at the leaf of the leak path."),
        "Take gc.get_referrers of one of the leaked tensors in a debug run, or a snapshot with stacks='all'."
        if path
        else "Record call paths: torch.cuda.memory._record_memory_history(stacks='all'), or eBPF stacks.",
        found.contradicts,
    )


def root_causes(
    rated: Rated,
    paths: CallPathReader,
    settings: RootCauseSettings,
    tokens: Mapping[int, int],
    *,
    has_segments: bool,
    facts: Facts | None = None,
) -> list[RootCause]:
    """Rules that hold for a growing suspect, the one that wins first; `unclassified` when none does.

    `tokens` maps an epoch to its request's prompt and output tokens. A graph contains cache-shaped tensors too, so
    autograd_graph is asked before kv_cache.
    """
    frames, facts = FrameReader(settings.kv_cache_frames), facts or Facts()
    rules = [outside_allocator(rated, has_segments=has_segments), host_memory(rated, paths)]
    if rated.suspect.groups[0].key.level == "tensor":
        rules += [
            graph_pool_tensors(rated, paths, frames, facts),
            autograd_graph(rated, paths, frames),
            kv_cache(rated, paths, frames, tokens, facts),
        ]
    return [rule for rule in rules if rule is not None] or [_unclassified(rated, paths, frames, facts)]


def causes_of_suspects(
    database: Database, rated: list[Rated], paths: CallPathReader, settings: RootCauseSettings
) -> dict[int, list[RootCause]]:
    """Root causes of the growing suspects, by suspect number; `leak_evidence_made` is there."""
    database.run("causes", "suspect_facts")
    facts = {
        row[0]: Facts(*row[1:])
        for row in database.rows(
            "SELECT suspect_id, private_bytes, pool_count, request_count, ended_count FROM suspect_facts"
        )
    }
    tokens, with_segments = tokens_by_epoch(database), processes_with_segments(database)
    causes = {}
    for number, item in enumerate(rated):
        if item.suspect.judgement.verdict == "growing":
            process = item.suspect.groups[0].key.process_id
            causes[number] = root_causes(
                item,
                paths,
                settings,
                tokens.get(process, {}),
                has_segments=process in with_segments,
                facts=facts.get(number),
            )
    return causes
