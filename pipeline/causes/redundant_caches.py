"""`redundant_kv`: the same prompt's keys and values held more than once, where a prefix cache would hold them once."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from pipeline.causes.rows import Checked, process_text
from pipeline.database import Database
from pipeline.leaks.causes import Evidence
from pipeline.leaks.frame_rules import FrameReader
from pipeline.leaks.paths import CallPathReader
from pipeline.wording import bytes_text, evidence_text
from schemas.config import RootCauseSettings

_ADVICE = (
    "Share the common prefix: turn on prefix caching, or keep one cache a prompt and copy on write; send requests with"
    " one prompt to the replica that holds it."
)
_MEASURE = (
    "Log a hash of each prompt (prompt_hash) or of each block's contents (block_hash), and the prefix cache's hit rate."
)
_MISSING = (
    "nothing names what a cache holds: neither the request log (prompt_hash, prefix_hash) nor KV block events"
    " (block_hash)"
)


class _Prompts(NamedTuple):
    """Caches of one prompt held at once: one row of `prompt_copies`. Bytes."""

    process_id: int
    device_index: int
    ts_ns: int
    copied: int
    held: int
    prompts: int
    requests: int
    ended: int
    is_prefix: bool


class _Blocks(NamedTuple):
    """Blocks that hold what another holds: one row of `block_copies`."""

    file_id: int
    process_id: int | None
    peak: int
    peak_ns: int | None
    end: int
    contents: int
    copied_contents: int
    block_bytes: int | None


def _cache_paths(database: Database, paths: CallPathReader, settings: RootCauseSettings) -> int:
    """Create `cache_paths`, the call paths of tensors of requests that lie below a cache's frames."""
    frames = FrameReader(settings.kv_cache_frames)
    wanted = [
        row[0]
        for row in database.rows(
            "SELECT DISTINCT alloc_call_path_id FROM allocations WHERE level = 'tensor' AND request_id IS NOT NULL"
            " AND alloc_call_path_id IS NOT NULL ORDER BY 1"
        )
    ]
    paths.prefetch(wanted)
    found = [number for number in wanted if frames.has(paths.frames(number), "kv_cache")]
    rows = pa.table({"call_path_id": pa.array(found, pa.int64())})
    database.connection.register("_cache_path_rows", rows)
    database.connection.execute("CREATE OR REPLACE TEMP TABLE cache_paths AS FROM _cache_path_rows")
    database.connection.unregister("_cache_path_rows")
    return len(found)


def _prompt_evidence(found: _Prompts) -> Evidence:
    evidence = Evidence()
    evidence.add(
        True,
        f"{found.requests} requests with {found.prompts} prompt{'s' if found.prompts != 1 else ''} among them held"
        f" {bytes_text(found.held)} of caches at once, {bytes_text(found.copied)} of it what another held as well",
        "",
    )
    evidence.add(
        found.ended > 0,
        f"{found.ended} of these requests had ended",
        "all of these requests were still running: their copies go when they end",
    )
    evidence.add(
        not found.is_prefix, "", "only a prefix of the prompts is known to be equal: the bytes are an upper bound"
    )
    return evidence


def _check_prompts(database: Database, settings: RootCauseSettings, paths: CallPathReader, checked: Checked) -> bool:
    """Add causes by the requests' prompts; whether the requests name their prompts at all."""
    _cache_paths(database, paths, settings)
    database.run("causes", "named_prompts")
    database.run("causes", "prompt_copies")
    [(named, again)] = database.rows("SELECT count(*), count(DISTINCT prompt) FILTER (is_again) FROM named_prompts")
    if named:
        checked.reason = f"no two of {named:,} requests that name their prompt have the same"
    rows = [_Prompts(*row) for row in database.rows("SELECT * FROM prompt_copies ORDER BY copied_bytes DESC, 1, 2")]
    if again:
        checked.reason = f"{again:,} prompts came again, and no two of their caches lived at once"
    for found in rows:
        if found.copied < settings.redundant_kv_min_bytes:
            if found.copied:
                checked.reason = f"at most {bytes_text(found.copied)} were held twice"
            continue
        cause = _prompt_evidence(found).cause("redundant_kv", _ADVICE, _MEASURE)
        title = (
            f"The same prompt's KV cache is held more than once: {bytes_text(found.copied)} of copies in"
            f" {found.requests} requests of {process_text(found.process_id)}"
        )
        place = f"level = 'tensor' AND request_id IS NOT NULL AND process_id = {found.process_id}"
        checked.add(
            cause,
            (found.process_id, found.device_index),
            found.copied,
            title,
            evidence_text(("request_spans", "attributes IS NOT NULL"), ("allocations", place)),
        )
    return bool(named)


def _check_blocks(database: Database, settings: RootCauseSettings, checked: Checked) -> bool:
    """Add causes by the contents of KV blocks; whether the blocks name their contents at all."""
    database.run("causes", "block_copies")
    rows = [_Blocks(*row) for row in database.rows("SELECT * FROM block_copies ORDER BY peak_count DESC, 1, 2")]
    for found in rows:
        held = found.peak * found.block_bytes if found.block_bytes else None
        if not found.peak or (held is not None and held < settings.redundant_kv_min_bytes):
            checked.reason = (
                f"at most {bytes_text(held)} of blocks were held twice"
                if held
                else f"none of {found.contents:,} contents was held by two blocks at once"
            )
            continue
        evidence = Evidence()
        evidence.add(
            True,
            f"{found.copied_contents:,} of {found.contents:,} contents were held by several blocks at once,"
            f" {found.peak:,} blocks more than needed at the highest point",
            "",
        )
        evidence.add(
            found.end > 0, f"{found.end:,} such copies are held when the log ends", "no copy is left when the log ends"
        )
        evidence.add(held is not None, "", "the log does not tell how large a block is")
        cause = evidence.cause("redundant_kv", _ADVICE, _MEASURE)
        size = f", {bytes_text(held)}" if held is not None else ""
        checked.add(
            cause,
            (found.process_id, None),
            held,
            f"KV blocks hold the same contents more than once: {found.peak:,} copies at once{size}",
            evidence_text(("kv_block_events", f"kv_event = 'alloc' AND file_id = {found.file_id}")),
        )
    return bool(rows)


def check_redundant_caches(database: Database, settings: RootCauseSettings, paths: CallPathReader) -> Checked:
    """Copies of one prompt's cache, by the requests' prompts and by the contents of KV blocks."""
    checked = Checked("redundant_kv", next_measurement=_MEASURE)
    by_prompts = _check_prompts(database, settings, paths, checked)
    by_blocks = _check_blocks(database, settings, checked)
    if not (by_prompts or by_blocks):
        checked.reason, checked.abstained_reason = None, _MISSING
    return checked
