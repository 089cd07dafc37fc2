"""What a comparison comes to, as a document for scripts and CI (`leakpath-comparison`, version 1).

JSON Schema: schemas/comparison.schema.json. Keys are never taken away or given another meaning within a version; new
ones may come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from pipeline.compare import Comparison, GateVerdict
from pipeline.compare_summary import Summary
from pipeline.compare_verdicts import Compared, Verdict

MAX_PATH_ROWS = 200


class Side(Struct, kw_only=True):
    """One of the two captures. `digest` is that of its files; `leak_state` is leak, none or unknown."""

    capture: str
    digest: str
    leak_state: Literal["leak", "none", "unknown"]
    leaks: list[str]
    retained_bytes: int


class Gate(Struct, kw_only=True):
    """What `--gate` answers: exit code 0 only for `pass`. `reasons` is empty for `pass` alone."""

    verdict: GateVerdict
    exit_code: int
    reasons: list[str]
    quantities: list[str]


class ResultRow(Struct, kw_only=True):
    """One row of `comparison`; null is not known, a null verdict means that no direction is better."""

    quantity: str
    unit: str | None
    baseline: float | str | None
    candidate: float | str | None
    change: float | None
    change_low: float | None
    change_high: float | None
    change_ratio: float | None
    verdict: Verdict | None
    reason: str | None


class PathResult(ResultRow, kw_only=True):
    """One quantity of one call path, frames root first."""

    level: str
    memory_kind: str | None
    rank: int | None
    call_path: list[str]


class Result(Struct, kw_only=True):
    """The whole answer. `paths` are the judged rows of the call paths that changed most."""

    schema: Literal["leakpath-comparison"]
    version: Literal[1]
    leakpath: str
    baseline: Side
    candidate: Side
    verdict: Verdict
    is_comparable: bool
    gate: Gate
    checks: list[ResultRow]
    settings: list[ResultRow]
    measures: list[ResultRow]
    paths: list[PathResult]
    paths_left_out: int


def result_of(found: Comparison, quantities: Iterable[str]) -> Result:
    """The document of a comparison."""
    judged = [row for row in found.paths if row.verdict is not None]
    return Result(
        schema="leakpath-comparison",
        version=1,
        leakpath=found.candidate.leakpath,
        baseline=_side(found.baseline),
        candidate=_side(found.candidate),
        verdict=found.verdict,
        is_comparable=found.checks.is_comparable,
        gate=Gate(
            verdict=found.gate,
            exit_code=found.exit_code,
            reasons=list(found.gate_reasons),
            quantities=list(quantities),
        ),
        checks=[ResultRow(**_facts(row)) for row in found.checks.rows],
        settings=[ResultRow(**_facts(row)) for row in found.settings],
        measures=[ResultRow(**_facts(row)) for row in found.measures],
        paths=[
            PathResult(
                **_facts(row),
                level=row.level or "",
                memory_kind=row.memory_kind,
                rank=row.rank,
                call_path=list(row.path or ()),
            )
            for row in judged[:MAX_PATH_ROWS]
        ],
        paths_left_out=max(0, len(judged) - MAX_PATH_ROWS),
    )


def result_bytes(result: Result) -> bytes:
    """The document's JSON."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"


def _side(side: Summary) -> Side:
    return Side(
        capture=side.capture,
        digest=side.digest,
        leak_state=side.leaks.state,
        leaks=side.leaks.titles,
        retained_bytes=side.leaks.retained_bytes,
    )


def _facts(row: Compared) -> dict[str, Any]:
    return {
        "quantity": row.quantity,
        "unit": row.unit,
        "baseline": row.baseline if row.baseline_text is None else row.baseline_text,
        "candidate": row.candidate if row.candidate_text is None else row.candidate_text,
        "change": row.change,
        "change_low": row.interval.low if row.interval else None,
        "change_high": row.interval.high if row.interval else None,
        "change_ratio": row.change_ratio,
        "verdict": row.verdict,
        "reason": row.reason,
    }
