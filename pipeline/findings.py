"""`findings`: what a person or a CI job reads first, in plain words, each with the rows it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.capture_findings import clock_findings, loss_findings
from pipeline.database import Database
from pipeline.fragmentation import Fragmented, fragmentation_finding
from pipeline.kv_blocks import kv_block_findings
from pipeline.leak_findings import context_finding, leak_finding, truncated_findings, verdict_without_leak
from pipeline.ranking import ranked
from schemas.config import Config

Row = dict[str, Any]


def build_findings(
    database: Database,
    suspects: Sequence[Mapping[str, Any]],
    causes: Sequence[Mapping[str, Any]],
    config: Config,
    fragmented: Sequence[Fragmented] = (),
    serving: Sequence[Row] = (),
) -> list[Row]:
    """Rows of `findings`, ranked (`pipeline.ranking`): what was found, or that no leak was found, and what was lost."""
    advice = {row["suspect_id"]: row["advice"] for row in reversed(causes) if row["suspect_id"] is not None}
    leaks = [leak_finding(s, advice.get(s["suspect_id"])) for s in suspects if s["verdict"] == "growing"]
    rows = leaks or [verdict_without_leak(database, suspects, config.leaks)]
    rows += kv_block_findings(database)
    rows += [fragmentation_finding(state) for state in fragmented]
    rows += [context_finding(row) for row in causes if row["root_cause"] == "cuda_context"]
    rows += serving
    rows += truncated_findings(suspects)
    rows += loss_findings(database)
    rows += clock_findings(database)
    return ranked(rows)
