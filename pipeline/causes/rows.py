"""What a rule over the whole capture answers: causes with findings, or why none holds or it could not be judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.leaks.causes import RootCause

Row = dict[str, Any]


@dataclass(slots=True)
class Checked:
    """One root cause looked for: rows of `root_causes` and `findings` without numbers, or what to say of none.

    `abstained_reason` says what is missing when the rule could not be asked; `reason` why it does not hold.
    """

    root_cause: str
    causes: list[Row] = field(default_factory=list)
    findings: list[Row] = field(default_factory=list)
    reason: str | None = None
    abstained_reason: str | None = None
    next_measurement: str | None = None

    def add(
        self, cause: RootCause, place: tuple[int | None, int | None], held: int | None, title: str, evidence: str
    ) -> None:
        """A cause that holds for a (process, device), with bytes held and the finding's title and evidence rows."""
        self.causes.append(cause_row(cause, place, held))
        self.findings.append(
            {
                "finding_kind": cause.name,
                "severity": "warning",
                "confidence": cause.confidence,
                "bytes": held,
                "title": title,
                "evidence": evidence,
                "advice": cause.advice,
            }
        )


def process_text(process_id: int | None) -> str:
    """A process as a sentence names it; files that name none have numbers below 0."""
    if process_id is None or process_id >= 0:
        return "a process that is not known" if process_id is None else f"process {process_id}"
    return f"unnamed process {-process_id}"


def cause_row(
    cause: RootCause, place: tuple[int | None, int | None], held: int | None, suspect_id: int | None = None
) -> Row:
    """A row of `root_causes` without a number; `place` is the process and the device."""
    return {
        "suspect_id": suspect_id,
        "root_cause": cause.name,
        "confidence": cause.confidence,
        "process_id": place[0],
        "device_index": place[1],
        "bytes": held,
        "evidence_for": cause.evidence_for,
        "evidence_against": cause.evidence_against,
        "advice": cause.advice,
        "next_measurement": cause.next_measurement,
    }


def root_cause_rows(
    suspects: Sequence[Row], causes: Mapping[int, Sequence[RootCause]], others: Sequence[Row] = ()
) -> list[Row]:
    """Rows of `root_causes`: those of each suspect by its number, the one that wins first, then `others`."""
    rows = [
        cause_row(
            cause, (suspect["process_id"], suspect["device_index"]), suspect["retained_bytes"], suspect["suspect_id"]
        )
        for suspect in suspects
        for cause in causes.get(suspect["suspect_id"], ())
    ]
    return [{"root_cause_id": number} | row for number, row in enumerate([*rows, *others])]
