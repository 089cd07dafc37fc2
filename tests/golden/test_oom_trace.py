"""An out-of-memory of a published snapshot, dumped after unwinding: its state against a replay in plain Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ingest.torch_unpickle import load_plain
from tests.generate.judging import Verdicts, rows
from tests.golden.captures import ROOT, judge

SNAPSHOT = ROOT.parent / "corpus" / "torch_snapshot" / "Constructor-Sun+code_location" / "memory_snapshot.pickle"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    if not SNAPSHOT.is_file():
        pytest.skip("the published snapshot is not beside the checkout")
    return judge(SNAPSHOT.parent, tmp_path_factory.mktemp("oom") / "out")


def _rounded(size: int) -> int:
    return -(-size // 512) * 512


def _mapped(events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Address ranges mapped after the events, those that touch as one."""
    pieces: list[tuple[int, int]] = []
    for event in events:
        low, high = event["addr"], event["addr"] + event["size"]
        if event["action"] == "segment_map":
            pieces.append((low, high))
        else:
            cut = [part for a, b in pieces for part in ((a, min(b, low)), (max(a, high), b))]
            pieces = [(a, b) for a, b in cut if a < b]
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pieces):
        if merged and merged[-1][1] == low:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return merged


def _replayed() -> dict[str, Any]:
    """Sizes at the failure, from the trace alone."""
    [trace] = [t for t in load_plain(SNAPSHOT)["device_traces"] if any(e["action"] == "oom" for e in t)]
    [place] = [n for n, event in enumerate(trace) if event["action"] == "oom"]
    before = trace[:place]
    live: dict[int, dict[str, Any]] = {}
    for event in before:
        if event["action"] == "alloc":
            live[event["addr"]] = event
        elif event["action"] == "free_completed":
            del live[event["addr"]]
    segments = _mapped([event for event in before if event["action"].startswith("segment_")])
    gaps = []
    for low, high in segments:
        inside = sorted(address for address in live if low <= address < high)
        ends = [low, *(address + _rounded(live[address]["size"]) for address in inside)]
        gaps += [start - end for end, start in zip(ends, [*inside, high], strict=True) if start > end]
    held: Counter[str] = Counter()
    for event in live.values():
        for frame in event["frames"]:
            if frame["filename"].endswith("/train/models.py"):
                held[f"{frame['name']} ({frame['filename']}:{frame['line']})"] += _rounded(event["size"])
                break
    return {
        "event": trace[place],
        "reserved": sum(high - low for low, high in segments),
        "allocated": sum(_rounded(event["size"]) for event in live.values()),
        "gaps": gaps,
        "held": held,
    }


def test_the_state_at_the_failure_is_the_traces(found: Verdicts) -> None:
    wanted = _replayed()
    [event] = rows(found.out, "SELECT * FROM {oom_events}")
    assert (event["requested_bytes"], event["device_free_bytes"]) == (5_308_694_528, 95_682_560)
    assert event["requested_bytes"] == wanted["event"]["size"]
    [state] = rows(found.out, "SELECT * FROM {fragmentation} WHERE moment = 'oom'")
    assert (state["reserved_bytes"], state["allocated_bytes"]) == (wanted["reserved"], wanted["allocated"])
    assert state["inactive_bytes"] == sum(wanted["gaps"]) == 139_390_976
    assert state["free_block_count"] == len(wanted["gaps"]) == 23
    assert state["largest_free_bytes"] == max(wanted["gaps"])
    assert (state["pending_free_bytes"], state["private_reserved_bytes"]) == (0, 0)


def test_who_held_memory_and_why_no_setting_helps(found: Verdicts) -> None:
    wanted = _replayed()
    holders = rows(found.out, "SELECT * FROM {oom_holders} ORDER BY holder_rank")
    own = {row["holder"]: row["held_bytes"] for row in holders if "/train/models.py" in row["holder"]}
    assert own
    assert own == {who: size for who, size in wanted["held"].items() if who in own}
    assert max(own.values()) == max(wanted["held"].values())
    weighed = {row["remedy"]: row for row in rows(found.out, "SELECT * FROM {oom_remedies}")}
    assert weighed["expandable_segments"]["reason"] == "it is on already"
    assert {row["would_help"] for name, row in weighed.items() if name != "other_processes"} == {False}
    first = found.findings[0]
    assert first["finding_kind"] == "oom"
    assert first["title"].startswith("Out of memory on device 1: 5.31 GB asked for, 95.7 MB free on the device")
    assert "the allocator held 84.2 GB, 84.1 GB of it in use, 139 MB free in 23 blocks" in first["title"]
    assert "No allocator setting would have made room (expandable_segments: it is on already" in first["advice"]
    assert "update_nodes" in first["advice"]
