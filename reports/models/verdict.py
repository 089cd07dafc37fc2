"""The verdict in one sentence, and the sentence under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reports.models.findings import Finding
from reports.models.suspects import LetGo, Suspect
from reports.text import bytes_text, plural, share_text

Tone = Literal["leak", "warning", "clean", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`headline` answers: is there a leak, of what, by whom, how fast. `detail` adds where and how sure."""

    tone: Tone
    headline: str
    detail: str


def read_verdict(
    suspects: list[Suspect],
    suspects_rest: LetGo | None,
    let_go: list[LetGo],
    let_go_rest: LetGo | None,
    findings: list[Finding],
    *,
    is_judged: bool,
) -> Verdict:
    """The verdict on a capture. `is_judged` says whether the analysis wrote its tables at all."""
    if suspects:
        return _leak(suspects, suspects_rest)
    if not is_judged:
        return Verdict(
            "unknown",
            "Not judged: this capture has not been analysed.",
            "Run `leakpath analyze`, then the report again.",
        )
    loud = [
        f for f in findings if f.severity != "info" and f.kind not in ("clock", "data_loss", "no_leak", "abstained")
    ]
    if loud:
        return Verdict("warning", loud[0].title, loud[0].advice)
    abstained = next((f for f in findings if f.kind == "abstained"), None)
    unsure = [group for group in let_go if group.verdict == "inconclusive"]
    if abstained or (unsure and not any(f.kind == "no_leak" for f in findings)):
        reason = (abstained.abstained_reason or abstained.title) if abstained else unsure[0].reason
        return Verdict("unknown", "Could not tell whether memory leaks.", reason[:1].upper() + reason[1:])
    none = next((f for f in findings if f.kind == "no_leak"), None)
    groups = len(let_go) + (let_go_rest.group_count if let_go_rest else 0)
    looked_at = f"{plural(groups, 'group')} of survivors looked at and let go." if groups else "Nothing survived."
    return Verdict("clean", none.title if none else "No leak found.", looked_at)


def _leak(suspects: list[Suspect], rest: LetGo | None) -> Verdict:
    first = suspects[0]
    where = f" in rank {first.rank}" if first.rank is not None else ""
    headline = (
        f"{first.cause}{where}: {plural(first.retained_count, first.noun)}, {bytes_text(first.retained_bytes)} kept"
    )
    if first.surviving_epochs_count is not None and first.epochs_count:
        headline += f" by {first.surviving_epochs_count:,} of {plural(first.epochs_count, first.epoch_noun)}"
    headline += _attribute(first)
    if first.growth_per_hour and first.growth_per_hour > 0:
        headline += f"; grows {bytes_text(first.growth_per_hour)}/h"
    detail = []
    if first.own_path:
        detail.append(f"Allocated in {first.own_frame}")
    elif first.range_path or first.own_frame:
        detail.append(f"Allocated under {' at '.join(filter(None, (first.range_path, first.own_frame)))}")
    if first.confidence is not None:
        detail.append(f"confidence {share_text(first.confidence)}")
    others = len(suspects) - 1 + (rest.group_count if rest else 0)
    if others:
        detail.append(f"{plural(others, 'more suspect')} below")
    return Verdict("leak", headline + ".", ", ".join(detail) + "." if detail else "")


def _attribute(suspect: Suspect) -> str:
    """How the attribute tells leaking requests apart, as strongly as the counts allow."""
    if not suspect.attribute:
        return ""
    row = suspect.attributes.chosen() if suspect.attributes else None
    if row is None or suspect.attributes is None:
        return f", told apart by {suspect.attribute}"
    if row.leaking_count == suspect.attributes.leaking_total:
        return (
            f", all with {suspect.attribute}" if suspect.attributes.leaking_total > 1 else f", with {suspect.attribute}"
        )
    return f", {row.leaking_count:,} of them with {suspect.attribute}"
