"""One prompt's cache held more than once: by the requests' prompts and by the contents of KV blocks."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.causes.redundant_caches import check_redundant_caches
from pipeline.causes.rows import Checked
from pipeline.leaks.paths import CallPathReader
from schemas.config import RootCauseSettings
from tests.causes.support import MIB, allocation, capture
from tests.sql.support import run, tables

CACHE = {
    "frames": [
        {"frame_id": 1, "function": "update", "file": "/lib/transformers/cache_utils.py", "line": 9},
        {"frame_id": 2, "function": "forward", "file": "/app/model.py", "line": 9},
    ],
    "call_paths": [
        {"call_path_id": 7, "frame_ids": [1], "depth_count": 1},
        {"call_path_id": 8, "frame_ids": [2], "depth_count": 1},
    ],
}


def _check(temp: Path, rows: list[dict[str, Any]], **given: Any) -> Checked:
    database = capture(temp, rows, **given)
    return check_redundant_caches(database, RootCauseSettings(), CallPathReader(database))


def _request(name: str, prompt: str | None, end: int, **more: Any) -> dict[str, Any]:
    attributes = json.dumps({"prompt_hash": prompt} if prompt else {"tier": "gold"})
    row = {"request_id": name, "start_ns": 0, "end_ns": end * 1_000_000, "attributes": attributes}
    return row | {"prompt_tokens": 75, "output_tokens": 25, "is_request_id_inferred": False} | more


def _cache(number: int, request: str, start: int, end: int | None, mebibytes: int = 8, path: int = 7) -> dict[str, Any]:
    return allocation(number, mebibytes, start, end, request_id=request, alloc_call_path_id=path)


def test_caches_of_one_prompt_that_live_at_once(tmp_path: Path) -> None:
    rows = [
        _cache(1, "a", 0, None),
        _cache(2, "b", 10, 90),
        _cache(3, "b", 11, 90, 4),
        _cache(4, "c", 10, 90),  # another prompt
        _cache(5, "b", 10, 90, 40, 8),  # no cache
        _cache(6, "d", 95, 99),  # the prompt again, later
    ]
    spans = [_request("a", "p", 5), _request("b", "p", 90), _request("c", "q", 90), _request("d", "q", 99)]
    [cause] = _check(tmp_path, rows, request_spans=spans, **CACHE).causes
    # of a's 8 and b's first 8 MiB one is enough, by the prompt's three quarters of the tokens
    assert (cause["root_cause"], cause["bytes"]) == ("redundant_kv", 6 * MIB)
    assert "2 requests with 1 prompt among them held 12.6 MB of caches at once, 6.29 MB" in cause["evidence_for"][0]
    assert cause["evidence_for"][1] == "1 of these requests had ended"
    assert cause["evidence_against"] == []


def test_a_common_prefix_gives_an_upper_bound_and_running_requests_a_doubt(tmp_path: Path) -> None:
    spans = [_request(name, None, 90, attributes='{"prefix_hash": "s"}') for name in "ab"]
    rows = [_cache(1, "a", 0, 80), _cache(2, "b", 5, 80)]
    [cause] = _check(tmp_path, rows, request_spans=spans, **CACHE).causes
    assert [line.split(":")[0] for line in cause["evidence_against"]] == [
        "all of these requests were still running",
        "only a prefix of the prompts is known to be equal",
    ]


@pytest.mark.parametrize(
    ("prompts", "lives", "reason"),
    [
        (("p", "q"), ((0, 90), (0, 90)), "no two of 2 requests"),
        (("p", "p"), ((0, 40), (50, 90)), "no two of their caches lived at once"),
    ],
)
def test_other_prompts_and_other_times_are_none(
    prompts: tuple[str, str], lives: tuple[tuple[int, int], ...], reason: str, tmp_path: Path
) -> None:
    spans = [_request(name, prompt, 90) for name, prompt in zip("ab", prompts, strict=True)]
    rows = [_cache(n, name, *life) for n, (name, life) in enumerate(zip("ab", lives, strict=True), 1)]
    checked = _check(tmp_path, rows, request_spans=spans, **CACHE)
    assert checked.causes == []
    assert checked.reason is not None
    assert reason in checked.reason


def test_without_hashes_it_abstains(tmp_path: Path) -> None:
    events = [{"kv_event": "alloc", "block_id": n, "attributes": "{}"} for n in range(3)]
    rows = [_cache(1, "a", 0, 90), _cache(2, "b", 0, 90)]
    spans = [_request(name, None, 90) for name in "ab"]
    checked = _check(tmp_path, rows, request_spans=spans, kv_block_events=events, **CACHE)
    assert (checked.causes, checked.reason) == ([], None)
    assert checked.abstained_reason is not None
    assert "prompt_hash" in checked.abstained_reason


def _event(kind: str, block: int, content: str | None = None, **more: Any) -> dict[str, Any]:
    attributes = json.dumps({"block_hash": content} if content else {})
    return {"kv_event": kind, "block_id": block, "size_bytes": MIB, "attributes": attributes} | more


def test_blocks_with_the_same_contents(tmp_path: Path) -> None:
    events = [_event("alloc", 1, "x"), _event("alloc", 2, "x"), _event("alloc", 3, "x"), _event("alloc", 4, "y")]
    events += [_event("free", 1), _event("free", 4), _event("alloc", 4, "x"), _event("free", 2), _event("free", 3)]
    [cause] = _check(tmp_path, [], kv_block_events=events).causes
    assert cause["bytes"] == 2 * MIB
    assert cause["evidence_for"] == [
        "1 of 2 contents were held by several blocks at once, 2 blocks more than needed at the highest point"
    ]
    assert cause["evidence_against"] == ["no copy is left when the log ends"]


def test_blocks_numbered_by_their_hashes_are_copies_when_stored_again(tmp_path: Path) -> None:
    stored = {"attributes": '{"parent_block_hash": null, "medium": "GPU"}', "size_bytes": None}
    events = [_event("alloc", 77, **stored), _event("alloc", 78, **stored), _event("alloc", 77, **stored)]
    [cause] = _check(tmp_path, [], kv_block_events=events).causes
    assert cause["bytes"] is None
    assert "the log does not tell how large a block is" in cause["evidence_against"]
    offloaded = stored | {"attributes": '{"parent_block_hash": null, "medium": "CPU"}'}
    checked = _check(tmp_path / "cpu", [], kv_block_events=[events[0], _event("alloc", 77, **offloaded)])
    assert checked.causes == []
    assert checked.reason == "none of 1 contents was held by two blocks at once"


def test_random_logs_agree_with_a_count_in_plain_python(tmp_path: Path) -> None:
    for seed in range(8):
        chance = random.Random(seed)
        held: dict[int, str] = {}
        events, peak, end = [], 0, 0
        for _ in range(120):
            block = chance.randrange(12)
            if block in held:
                del held[block]
                events.append(_event("free", block))
            else:
                held[block] = chance.choice("abcd")
                events.append(_event("alloc", block, held[block]))
            end = sum(count - 1 for count in Counter(held.values()).values())
            peak = max(peak, end)
        database = tables(tmp_path / str(seed), kv_block_events=events)
        run(database, "causes", "block_copies")
        assert database.rows("SELECT peak_count, end_count FROM block_copies") == [(peak, end)]
