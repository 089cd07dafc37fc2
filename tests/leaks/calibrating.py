"""Judges generated histories, fits the confidence to what was right, and writes docs/calibration.md.

`python -m tests.leaks.calibrating --fit` counts anew into pipeline/leaks/calibration.yaml, `--fix` writes the page.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor
from pathlib import Path
from typing import NamedTuple

from pipeline.leaks.calibration import EDGES, bin_of
from pipeline.leaks.epochs import Epochs
from pipeline.leaks.histories import Change, PathKey, Survivors
from pipeline.leaks.path_groups import PathGroups
from pipeline.leaks.path_verdicts import judge_path
from schemas.config import LeakSettings
from tests.generate.lives import NEVER, Life, Story
from tests.generate.stories import CLEAN, LEAKING, OPEN
from tests.leaks.calibration_page import page

ROOT = Path(__file__).parents[2]
PAGE, COUNTS = ROOT / "docs" / "calibration.md", ROOT / "pipeline" / "leaks" / "calibration.yaml"
FAMILIES = CLEAN | OPEN | LEAKING
FIT = range(400)
HELD_OUT = range(100_000, 100_200)
FEW = range(100_000, 100_010)


class Outcome(NamedTuple):
    """One judged group: what was said, how surely, and whether that was right (None: nothing was said)."""

    family: str
    seed: int
    verdict: str
    rule: str
    evidence: int
    confidence: float | None
    is_leak: bool
    is_right: bool | None


def _epoch(time: float) -> int:
    return max(-1, floor(time))


def _changes(story: Story, lives: Sequence[Life]) -> list[Change]:
    """What each epoch did to the lives of one call path, by size where one of that size survives."""
    kept = {life.size for life in lives if life.end == NEVER}
    rows: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for life in lives:
        if life.begin < story.lost:
            continue
        size, start = life.size if life.size in kept else 0, _epoch(life.begin)
        age = _epoch(life.end) - start if life.end != NEVER else None
        row = rows[size, start]
        row[0] += life.size
        row[4] += age is None or age >= 2
        if age is not None:
            row = rows[size, _epoch(life.end)]
            row[1] += life.size
            row[2] += age >= 2
            row[3] = max(row[3], age if age >= 2 else 0)
    return [
        Change(size or None, epoch, taken, given, evicted, oldest or None, lasting)
        for (size, epoch), (taken, given, evicted, oldest, lasting) in sorted(rows.items())
    ]


def _survivors(story: Story, lives: Sequence[Life]) -> tuple[list[Survivors], dict[tuple[int, int | None], bool]]:
    """Survivors by size and epoch, and of each whether most of them are leaked."""
    found: dict[tuple[int, int | None], list[bool]] = defaultdict(list)
    for life in lives:
        if life.end == NEVER:
            own = _epoch(life.begin) if life.owner is None else life.owner
            found[life.size, None if life.begin < story.lost else own].append(life.is_leak)
    rows = [Survivors(size, epoch, len(n), len(n) * size, len(n) * size) for (size, epoch), n in found.items()]
    return sorted(rows, key=lambda s: (s.size, -1 if s.epoch is None else s.epoch)), {
        key: 2 * sum(flags) > len(flags) for key, flags in found.items()
    }


def outcomes(family: str, seed: int) -> Iterator[Outcome]:
    """Every verdict on one history, against its truth: a leak is growing, all else is not."""
    story, settings = FAMILIES[family](seed), LeakSettings()
    epochs = Epochs("request", story.epochs, 10**9, story.attributes)
    by_path: dict[int, list[Life]] = defaultdict(list)
    older = Counter[int]()
    for life in story.lives:
        by_path[life.path].append(life)
        if life.begin < story.lost and life.end != NEVER and life.end >= 2:
            older[life.size] += 1
    for number, lives in sorted(by_path.items()):
        survivors, truth = _survivors(story, lives)
        if not survivors:
            continue
        key = PathKey(1, 0, "tensor", "device", number)
        path = PathGroups(key, survivors, _changes(story, lives), story.epochs, older)
        for group, judgement in judge_path(path, epochs, settings):
            leaked = sum(s.count for s in group.survivors if truth[s.size, s.epoch])
            is_leak = 2 * leaked > group.total("count")
            right = None if judgement.confidence is None else (judgement.verdict == "growing") == is_leak
            yield Outcome(
                family,
                seed,
                judgement.verdict,
                judgement.rule,
                judgement.evidence,
                judgement.confidence,
                is_leak,
                right,
            )


def all_outcomes(seeds: Iterable[int]) -> list[Outcome]:
    """Outcomes of all families over seeds."""
    seeds = list(seeds)
    return [outcome for family in FAMILIES for seed in seeds for outcome in outcomes(family, seed)]


def fitted(found: Sequence[Outcome]) -> dict[str, list[list[int]]]:
    """Right verdicts and all verdicts by rule and bin of evidence."""
    counts: dict[str, list[list[int]]] = {}
    for outcome in found:
        if outcome.is_right is not None and outcome.rule:
            bins = counts.setdefault(outcome.rule, [[0, 0] for _ in range(len(EDGES) + 1)])
            bins[bin_of(outcome.evidence)][0] += outcome.is_right
            bins[bin_of(outcome.evidence)][1] += 1
    return dict(sorted(counts.items()))


def counts_text(counts: Mapping[str, Sequence[Sequence[int]]]) -> str:
    """pipeline/leaks/calibration.yaml."""
    lines = [
        "# Right verdicts and all verdicts of each rule, in five bins of evidence (calibration.py), on generated",
        f"# histories of known truth: seeds {FIT[0]} to {FIT[-1]} of {len(FAMILIES)} families.",
        "# Made by `python -m tests.leaks.calibrating --fit`; docs/calibration.md judges it on other seeds.",
    ]
    return "\n".join([*lines, *(f"{rule}: {[list(b) for b in bins]}" for rule, bins in counts.items())]) + "\n"


def made_page() -> str:
    """docs/calibration.md from the held-out seeds."""
    found = all_outcomes(HELD_OUT)
    few = [outcome for outcome in found if outcome.seed in FEW]
    return page(few, found, {"clean": CLEAN, "open": OPEN, "leaks": LEAKING}, FIT, FEW, HELD_OUT)


def main() -> int:
    """Exit code 1 when the page is stale and --fix is not given."""
    if "--fit" in sys.argv[1:]:
        COUNTS.write_text(counts_text(fitted(all_outcomes(FIT))), encoding="utf-8")
        return 0
    text = made_page()
    stale = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text
    if "--fix" in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
