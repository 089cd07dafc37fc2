"""The recorded captures, where they lie beside the checkout, and what was planted in them."""

from __future__ import annotations

import gzip
import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.capture import capture_files
from pipeline.steps import analyze, ingest
from schemas.config import Config
from tests.generate.judging import Verdicts, read_verdicts, rows

ROOT = Path(__file__).resolve().parents[2].parent / "shared" / "captures"


@dataclass(frozen=True, slots=True)
class Planted:
    """Storages planted in one recording: (address, bytes) each."""

    storages: frozenset[tuple[int, int]]
    bytes: int
    requests: tuple[str, ...]

    @property
    def addresses(self) -> set[int]:
        return {address for address, _ in self.storages}


def planted(name: str, kind: str) -> Planted:
    """The fault of one kind, from the recording's truth.json (which the analysis never sees)."""
    truth = json.loads((ROOT / name / "truth.json").read_text())
    [fault] = [fault for fault in truth["planted"] if fault["kind"] == kind]
    storages = frozenset((address, size) for address, size in fault.get("storages", ()))
    return Planted(storages, fault.get("bytes", 0), tuple(map(str, fault.get("requests", ()))))


def truth(name: str) -> dict[str, Any]:
    """All of a recording's truth.json."""
    found: dict[str, Any] = json.loads((ROOT / name / "truth.json").read_text())
    return found


def snapshot(name: str) -> dict[str, Any]:
    """The recording's own snapshot, by Python's unpickler (the file is this project's own)."""
    [path] = (ROOT / name).glob("snapshot.pickle*")
    data = path.read_bytes()
    found: dict[str, Any] = pickle.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


def judge(capture: Path, out: Path) -> Verdicts:
    """Ingest and analyze a capture without its truth.json."""
    files = [path for path in capture_files(capture) if path.name != "truth.json"]
    ingest(files, capture, out)
    analyze(out, Config())
    return read_verdicts(out)


def evidence(found: Verdicts, suspect_id: int) -> set[tuple[int, int, int]]:
    """(address, requested bytes, allocated bytes) of the allocations that a suspect rests on."""
    return {
        (row["address"], row["requested_bytes"], row["allocated_bytes"])
        for row in rows(
            found.out,
            "SELECT a.address, a.requested_bytes, a.allocated_bytes FROM {leak_evidence} AS e"
            f" JOIN {{allocations}} AS a USING (allocation_id) WHERE e.suspect_id = {suspect_id}",
        )
    }
