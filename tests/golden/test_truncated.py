"""Recorded captures whose history is cut to its last events, as a full ring buffer leaves it."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from tests.generate.judging import Verdicts
from tests.golden.captures import ROOT, evidence, judge, planted, snapshot


def _cut(name: str, folder: Path, entries: int, *, with_tokens: bool = True) -> Verdicts:
    """The capture's request-side files, and its snapshot with `entries` events left."""
    if not (ROOT / name).is_dir():
        pytest.skip(f"the recorded capture {name} is not beside the checkout")
    capture = folder / "capture"
    capture.mkdir()
    dump = snapshot(name)
    dump["device_traces"] = [trace[-entries:] for trace in dump["device_traces"]]
    first = min(trace[0]["time_us"] for trace in dump["device_traces"] if trace)
    dump["external_annotations"] = [note for note in dump["external_annotations"] if note["time_us"] >= first]
    (capture / "snapshot.pickle").write_bytes(pickle.dumps(dump))
    for file in ("requests.jsonl", "nvml.csv", *(["tokens.csv"] if with_tokens else [])):
        shutil.copy(ROOT / name / file, capture / file)
    return judge(capture, folder / "out")


@pytest.mark.parametrize("entries", [800, 2_000, 30_000])
def test_the_leak_is_read_from_the_level_at_each_request(entries: int, tmp_path: Path) -> None:
    """Of 78,080 events these are 1 %, 3 % and 38 %: less than a request, half of one, seven requests of 18."""
    found, leak = _cut("kv_leak", tmp_path, entries), planted("kv_leak", "kv_cache")
    [suspect] = found.growing
    assert (suspect["root_cause"], suspect["attribute"]) == ("kv_cache", "status=499")
    assert {address for address, _, _ in evidence(found, suspect["suspect_id"])} <= leak.addresses
    assert 0 < suspect["retained_bytes_low"] <= leak.bytes <= suspect["retained_bytes_high"]
    assert any("truncated" in row["title"] for row in found.findings)


@pytest.mark.parametrize("entries", [800, 2_000, 6_000, 30_000])
def test_a_cache_with_a_limit_is_no_suspect(entries: int, tmp_path: Path) -> None:
    found = _cut("clean", tmp_path, entries)
    assert found.growing == []
    assert found.findings[0]["finding_kind"] in ("no_leak", "abstained")


@pytest.mark.parametrize("name", ["kv_leak", "clean"])
def test_without_the_level_it_abstains(name: str, tmp_path: Path) -> None:
    found = _cut(name, tmp_path, 2_000, with_tokens=False)
    assert found.growing == []
    assert found.findings[0]["finding_kind"] == "abstained"
    assert "of 18 requests" in found.findings[0]["abstained_reason"]
