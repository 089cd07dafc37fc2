"""Self and total by call path and function, against plain Python over random stacks."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.hotspots.support import Row, hotspots, of_kind, paths, reasons


def _samples(weights: dict[int, int], **more: object) -> list[Row]:
    return [
        {
            "event": "cpu-clock",
            "call_path_id": path,
            "sample_count": 1,
            "weight": weight,
            "unit": "ns",
            "source": "perf",
        }
        | more
        for path, weight in weights.items()
    ]


@pytest.mark.parametrize("seed", range(6))
def test_self_and_total_of_random_stacks(tmp_path: Path, seed: int) -> None:
    """Deep, recursive and shared stacks: every row equals the sum over all stacks that have it, and nothing is lost."""
    chance = random.Random(seed)
    stacks = list({tuple(chance.choices(range(6), k=chance.randint(1, 9))) for _ in range(chance.randint(5, 80))})
    weights = {place: chance.randint(1, 1000) for place in range(len(stacks))}
    _, rows = hotspots(tmp_path, rows=7, stack_samples=_samples(weights), **paths(*stacks))
    whole = sum(weights.values())
    found = of_kind(rows, "cpu_path")
    assert sum(row["self_amount"] for row in found) == whole
    assert len(found) == min(len(stacks), 8)
    heaviest = sorted(weights.values(), reverse=True)[:7]
    assert [row["self_amount"] for row in found if not row["is_other"]] == heaviest
    for row in found:
        if row["is_other"]:
            continue
        stack = stacks[row["call_path_id"]]
        total = sum(w for place, w in weights.items() if stacks[place][: len(stack)] == stack)
        assert (row["self_amount"], row["total_amount"]) == (weights[row["call_path_id"]], total)
        assert row["total_ratio"] == pytest.approx(total / whole)
    own: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for place, weight in weights.items():
        own[f"f{stacks[place][-1]}"] += weight
        every |= Counter()
        for number in set(stacks[place]):
            every[f"f{number}"] += weight
    functions = {row["name"]: row for row in of_kind(rows, "cpu_function") if not row["is_other"]}
    assert {name: row["self_amount"] for name, row in functions.items()} == {name: own[name] for name in functions}
    assert {name: row["total_amount"] for name, row in functions.items()} == {name: every[name] for name in functions}
    assert set(functions) == set(every)


def test_functions_without_a_row_are_one(tmp_path: Path) -> None:
    _, rows = hotspots(
        tmp_path, rows=2, stack_samples=_samples({n: 10 - n for n in range(6)}), **paths(*[(9, n) for n in range(6)])
    )
    found = of_kind(rows, "cpu_function")
    assert [(row["name"], row["self_amount"], row["total_amount"]) for row in found] == [
        ("f0", 10, 10),
        ("f1", 9, 9),
        ("f9", 0, 45),
        (None, 26, 26),
    ]
    assert sum(row["self_ratio"] for row in found) == pytest.approx(1)


def test_lines_of_a_function_are_one_function(tmp_path: Path) -> None:
    given = paths((1,), (2,))
    given["frames"] = [{"frame_id": n, "function": "f", "file": "a.py", "line": n} for n in (1, 2)]
    _, rows = hotspots(tmp_path, stack_samples=_samples({0: 3, 1: 4}), **given)
    assert [(row["name"], row["self_amount"]) for row in of_kind(rows, "cpu_function")] == [("f", 7)]


def test_events_and_processes_are_apart_and_bytes_are_no_samples(tmp_path: Path) -> None:
    samples = [
        *_samples({0: 5}, process_id=1),
        *_samples({0: 7}, process_id=2),
        *_samples({0: 11}, process_id=1, event="cycles:u", unit="cycles"),
        *_samples({0: 99}, process_id=1, event="outstanding", unit="bytes", source="bcc"),
    ]
    _, rows = hotspots(tmp_path, stack_samples=samples, **paths((1,)))
    assert [
        (row["hotspot_event"], row["unit"], row["process_id"], row["self_amount"], row["self_ratio"])
        for row in of_kind(rows, "cpu_path")
    ] == [("cpu-clock", "ns", 1, 5, 1.0), ("cpu-clock", "ns", 2, 7, 1.0), ("cycles:u", "cycles", 1, 11, 1.0)]


def test_two_readings_of_one_recording_count_once(tmp_path: Path) -> None:
    """perf.data and its text, of which the text is cut."""
    samples = [
        row | {"file_id": file_id, "ts_ns": 100 + place}
        for file_id, count in ((0, 3), (1, 5))
        for place, row in enumerate(_samples({0: 10}) * count)
    ]
    _, rows = hotspots(tmp_path, stack_samples=samples, **paths((1,)))
    assert [row["self_amount"] for row in of_kind(rows, "cpu_path")] == [50]


def test_tracepoints_are_counted_and_missing_periods_are_one_sample(tmp_path: Path) -> None:
    samples = [
        *_samples({0: 4000}, event="sched:sched_switch", unit=None),
        *_samples({0: 9}, event="cycles", unit="cycles"),
        *({**row, "weight": None} for row in _samples({0: 9}, event="cycles", unit=None)),
    ]
    _, rows = hotspots(tmp_path, stack_samples=samples, **paths((1,)))
    assert [(r["hotspot_event"], r["unit"], r["self_amount"]) for r in of_kind(rows, "cpu_path")] == [
        ("cycles", "cycles", 10),
        ("sched:sched_switch", "samples", 1),
    ]


def test_weights_that_overflow_together_are_kept_at_the_end_of_the_range(tmp_path: Path) -> None:
    _, rows = hotspots(
        tmp_path, stack_samples=_samples({0: 2**62, 1: 2**62, 2: 2**62}), rows=1, **paths((1,), (1, 2), (1, 3))
    )
    assert [(row["self_amount"], row["total_amount"]) for row in of_kind(rows, "cpu_path")] == [
        (2**62, 2**63 - 1),
        (2**63 - 1, 2**63 - 1),
    ]


def test_nothing_recorded_is_not_known(tmp_path: Path) -> None:
    _, rows = hotspots(tmp_path)
    assert set(reasons(rows)) == {"cpu_path", "gpu_path", "rounding", "operand_type", "recomputation"}
    assert len(rows) == 5
    assert all(row["self_amount"] is None and row["call_count"] is None for row in rows)
