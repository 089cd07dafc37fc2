"""Which epochs are chosen, what tells of them, and which attributes describe a suspect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.leaks.judging import STEP, Row, epochs_of, life, rated, steps
from tests.sql.support import result

COUNT = 24


def _busy(count: int = COUNT) -> list[Row]:
    return [life(1, i + 0.2 + k / 10, i + 0.25 + k / 10) for i in range(count) for k in range(6)]


def _kind(tmp_path: Path, allocations: list[Row], **rows: list[Row]) -> list[tuple[object, ...]]:
    database = epochs_of(tmp_path, allocations, **rows)
    return result(database, "(SELECT epoch_kind, count(*) AS n FROM epochs GROUP BY ALL)", ("epoch_kind", "n"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ProfilerStep#{}", "step"), ("train_step {}", "step"), ("iteration {}", "step"),
        ("eval:{}", "range family"), ("batch {}", "range family"), ("shape:{}", "range family"),
        ("run one batch", "repeated range"),
    ],
)  # fmt: skip
def test_what_repeats_is_chosen_by_its_name(name: str, kind: str, tmp_path: Path) -> None:
    assert _kind(tmp_path, _busy(), ranges=steps(COUNT, name)) == [(kind, COUNT)]


def test_requests_go_before_steps_and_steps_before_others(tmp_path: Path) -> None:
    ranges = [*steps(COUNT), *steps(COUNT, "shape:{}", file_id=1)]
    assert _kind(tmp_path / "a", _busy(), ranges=ranges) == [("step", COUNT)]
    log = [
        {"request_id": f"r{i}", "start_ns": i * STEP, "end_ns": (i + 1) * STEP - 9, "is_request_id_inferred": False}
        for i in range(COUNT)
    ]
    assert _kind(tmp_path / "b", _busy(), ranges=ranges, request_spans=log) == [("request", COUNT)]


def test_bursts_between_idle_times_without_any_name(tmp_path: Path) -> None:
    rows = [life(1, 100 * i + 0.1 * k, 100 * i + 0.1 * k + 0.05) for i in range(14) for k in range(12)]
    assert _kind(tmp_path, rows) == [("idle window", 14)]


def test_equal_time_windows_where_nothing_pauses(tmp_path: Path) -> None:
    assert _kind(tmp_path, [life(1, 0.1 * k, 0.1 * k + 0.05) for k in range(400)]) == [("time window", 20)]


def _leak(when: range) -> list[Row]:
    return [life(2, i + 0.3) for i in when]


def test_the_number_in_a_ranges_name_tells_leaking_epochs(tmp_path: Path) -> None:
    """shape:4096 and shape:512 in turn: only the larger one is kept."""
    shapes = [dict(row) | {"name": f"shape:{4096 if i % 3 == 0 else 512}"} for i, row in enumerate(steps(36))]
    [suspect] = [
        r for r in rated(tmp_path, [*_busy(36), *_leak(range(0, 36, 3))], ranges=shapes) if r.association is not None
    ]
    assert suspect.epochs.kind == "range family"
    assert suspect.association is not None
    assert (suspect.association.attribute, suspect.association.is_perfect) == ("shape=4096", True)


@pytest.mark.parametrize(
    ("facts", "attribute"),
    [
        ({"domain": "retry"}, "domain=retry"),
        ({"attributes": '{"category": "beam"}'}, "category=beam"),
    ],
)
def test_domain_and_attributes_of_the_epochs_own_range(facts: Row, attribute: str, tmp_path: Path) -> None:
    own = [dict(row) | (facts if i % 3 == 0 else {}) for i, row in enumerate(steps(36))]
    found = rated(tmp_path, [*_busy(36), *_leak(range(0, 36, 3))], ranges=own)
    assert [item.association.attribute for item in found if item.association] == [attribute]


def test_ranges_around_and_within_epochs_describe_but_never_decide(tmp_path: Path) -> None:
    within = [
        {"name": "retry", "start_ns": i * STEP + 9, "end_ns": i * STEP + 99, "thread_id": 1} for i in range(0, 36, 3)
    ]
    ranges = [*steps(36), *within]
    found = rated(tmp_path / "many", [*_busy(36), *_leak(range(0, 36, 3))], ranges=ranges)
    assert [item.association.attribute for item in found if item.association] == ["range retry=present"]
    few = [*steps(36), *within[:3]]
    found = rated(tmp_path / "few", [*_busy(36), *_leak(range(0, 9, 3))], ranges=few)
    assert "growing" not in {item.suspect.judgement.verdict for item in found}


def test_labels_of_a_servers_metrics_that_change_over_epochs(tmp_path: Path) -> None:
    """A gauge that says which version serves, and counters of which one at a time rises."""
    metrics: list[Row] = []
    totals = {"a": 0, "b": 0}
    for i in range(36):
        serving, role = ("v2" if i % 3 == 0 else "v1"), ("a" if i % 2 else "b")
        totals[role] += 1
        at = {"source": "prometheus", "ts_ns": i * STEP + STEP // 2, "file_id": 4}
        metrics += [
            at | {"metric": "serving", "labels": f'{{"version": "{v}"}}', "value": float(v == serving)}
            for v in ("v1", "v2")
        ]
        metrics += [
            at | {"metric": "done_total", "labels": f'{{"role": "{r}"}}', "value": float(n)} for r, n in totals.items()
        ]
        metrics.append(at | {"metric": "up", "labels": "not json", "value": 1.0})
    found = rated(tmp_path, [*_busy(36), *_leak(range(0, 36, 3))], ranges=steps(36), metrics=metrics)
    [told] = [item.association for item in found if item.association]
    assert (told.attribute, told.leaking_with, told.with_count, told.leaking_without) == ("version=v2", 12, 12, 0)
    [role] = {item.epochs.context[5]["role"] for item in found}
    assert role == "a"
