"""Two captures compared: what changed, whether that is a regression, and what a CI gate answers (method 11)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from pipeline.compare_checks import Checks, check, setting_rows
from pipeline.compare_measures import measure_rows
from pipeline.compare_paths import path_rows
from pipeline.compare_summary import Summary
from pipeline.compare_verdicts import Compared, Verdict
from schemas.compare_settings import CompareSettings

GateVerdict = Literal["pass", "regressed", "leak", "could_not_judge"]
GATE_EXIT = {"pass": 0, "regressed": 1, "leak": 1, "could_not_judge": 2}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that was found. `measures` are the before/after table, `paths` the rows of call paths."""

    baseline: Summary
    candidate: Summary
    checks: Checks
    settings: tuple[Compared, ...]
    measures: tuple[Compared, ...]
    paths: tuple[Compared, ...]
    verdict: Verdict
    gate: GateVerdict
    gate_reasons: tuple[str, ...]

    @property
    def rows(self) -> tuple[Compared, ...]:
        """Rows of `comparison` in their order."""
        return (*self.checks.rows, *self.settings, *self.measures, *self.paths)

    @property
    def exit_code(self) -> int:
        """What `--gate` exits with."""
        return GATE_EXIT[self.gate]


def compare(baseline: Summary, candidate: Summary, settings: CompareSettings) -> Comparison:
    """Compare two summaries. Equal input gives equal output."""
    checks = check(baseline, candidate, settings)
    measures = tuple(measure_rows(baseline, candidate, checks, settings))
    judged = [row for row in measures if row.quantity in settings.gate_quantities]
    gate, reasons = _gate(candidate, judged, settings)
    return Comparison(
        baseline=baseline,
        candidate=candidate,
        checks=checks,
        settings=tuple(setting_rows(baseline, candidate)),
        measures=measures,
        paths=tuple(path_rows(baseline, candidate, checks, settings)),
        verdict=overall(judged),
        gate=gate,
        gate_reasons=tuple(reasons),
    )


def overall(judged: list[Compared]) -> Verdict:
    """One word for several quantities: a regression outweighs all, then what could not be judged, then gains."""
    found = Counter(row.verdict for row in judged)
    for verdict in ("regressed", "inconclusive", "improved"):
        if found[verdict]:
            return verdict
    return "unchanged" if judged else "inconclusive"


def _gate(candidate: Summary, judged: list[Compared], settings: CompareSettings) -> tuple[GateVerdict, list[str]]:
    """The gate's word and its reasons: a candidate that leaks fails, whatever the baseline does."""
    reasons = [f"the candidate leaks: {title}" for title in candidate.leaks.titles if candidate.leaks.state == "leak"]
    worse = [row for row in judged if row.verdict == "regressed"]
    reasons += [f"{row.quantity} regressed" + (f": {row.reason}" if row.reason else "") for row in worse]
    if reasons:
        return ("leak" if candidate.leaks.state == "leak" else "regressed"), reasons
    if candidate.leaks.state == "unknown":
        why = candidate.leaks.titles[0] if candidate.leaks.titles else "it was not judged"
        reasons.append(f"whether the candidate leaks is not known: {why}")
    reasons += [f"{row.quantity}: {row.reason}" for row in judged if row.verdict == "inconclusive"]
    unknown = sorted(set(settings.gate_quantities) - {row.quantity for row in judged})
    reasons += [f"{name}: no such quantity" for name in unknown]
    if not settings.gate_quantities:
        reasons.append("no quantity to judge by: name some in gate_quantities")
    return ("could_not_judge", reasons) if reasons else ("pass", [])
