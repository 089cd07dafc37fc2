"""Verdicts and comparability: what each combination of change, interval and workload comes to."""

from __future__ import annotations

import msgspec
import pytest

from pipeline.compare import compare
from pipeline.compare_intervals import Interval
from pipeline.compare_summary import Epochs, Leaks, Memory, OtherRow, PathRow, Requests, Summary
from pipeline.compare_verdicts import Compared, judge
from schemas.compare_settings import CompareSettings

MS = 1_000_000
MIB = 1024 * 1024


def summary(
    *, epochs: int = 24, leaked: int = 0, state: str | None = None, latency_ms: float = 100, **changes: object
) -> Summary:
    """A server whose requests take `latency_ms` and a bit, and which leaks `leaked` bytes in each."""
    spread = [round((latency_ms + i % 5) * MS) for i in range(epochs)]
    found = Summary(
        schema="leakpath-baseline",
        version=1,
        leakpath="0",
        capture="a",
        digest="",
        devices=["NVIDIA H200"],
        settings={"expandable_segments": "False"},
        epochs=Epochs(
            kind="request",
            count=epochs,
            span_ns=sum(spread) or None,
            sizes=[1] * epochs,
            durations_ns=list(spread),
            allocated_peaks=[100 * MIB + leaked * i for i in range(epochs)],
            reserved_peaks=[120 * MIB] * epochs,
            leaked_bytes=[leaked] * epochs,
        ),
        requests=Requests(
            count=epochs,
            models=["m"],
            prompt_tokens=16 * epochs,
            output_tokens=4 * epochs,
            latencies_ns=list(spread),
            latencies_count=epochs,
            gaps_ns=list(spread),
            whole_counts=[1] * epochs,
            token_counts=[4] * epochs,
        ),
        memory=Memory(
            allocated_peak_bytes=100 * MIB + leaked * epochs, reserved_peak_bytes=120 * MIB, device_peak_bytes=None
        ),
        leaks=Leaks(
            state=state or ("leak" if leaked else "none"),  # type: ignore[arg-type]
            titles=["told"],
            suspects_count=bool(leaked),
            retained_bytes=leaked * epochs,
            growth_bytes_per_epoch=float(leaked),
            growth_bytes_per_hour=None,
        ),
        frames=["main", "store"],
        paths=[path(leaked * epochs, [(i, leaked) for i in range(epochs) if leaked])],
        others=[],
    )
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def path(end_bytes: int, kept: list[tuple[int, int]]) -> PathRow:
    return PathRow(
        level="tensor", memory_kind="device", rank=None, end_bytes=end_bytes, end_count=1, peak_bytes=end_bytes,
        peak_count=1, allocated_bytes=end_bytes, allocated_count=1, leaked_bytes=sum(size for _, size in kept),
        frames=[0, 1], lifetime_count=0, lifetime_p50_ns=None, lifetime_p95_ns=None, kept=kept, leaked=kept,
    )  # fmt: skip


def rows(baseline: Summary, candidate: Summary) -> dict[str, Compared]:
    found = compare(baseline, candidate, CompareSettings())
    return {row.quantity: row for row in (*found.paths[::-1], *found.measures)}


@pytest.mark.parametrize(
    ("change", "interval", "is_more_better", "verdict"),
    [
        (10, (8, 12), False, "regressed"),
        (10, (8, 12), True, "improved"),
        (-10, (-12, -8), False, "improved"),
        (3, (1, 4), False, "unchanged"),
        (3, (-4, 4), False, "unchanged"),
        (10, (-1, 20), False, "inconclusive"),
        (4, (1, 9), False, "inconclusive"),
        (5, (5, 5), False, "unchanged"),
        (10, None, False, "regressed"),
        (-10, None, False, "improved"),
        (5, None, False, "unchanged"),
    ],
)
def test_judge(change: float, interval: tuple[float, float] | None, is_more_better: bool, verdict: str) -> None:
    found, reason = judge(change, Interval(*interval) if interval else None, 5, is_more_better=is_more_better)
    assert found == verdict
    assert (reason is not None) == (interval is None or verdict == "inconclusive")


@pytest.mark.parametrize(
    ("baseline", "candidate", "verdict", "gate", "code"),
    [
        ({}, {}, "unchanged", "pass", 0),
        ({"leaked": MIB}, {"leaked": MIB}, "unchanged", "leak", 1),
        ({}, {"leaked": MIB}, "regressed", "leak", 1),
        ({"leaked": MIB}, {"leaked": 100 * MIB}, "regressed", "leak", 1),
        ({"leaked": MIB}, {}, "improved", "pass", 0),
        ({}, {"latency_ms": 130}, "regressed", "regressed", 1),
        ({"latency_ms": 130}, {}, "improved", "pass", 0),
        ({}, {"state": "unknown"}, "inconclusive", "could_not_judge", 2),
        ({"state": "unknown"}, {}, "inconclusive", "could_not_judge", 2),
        ({"state": "unknown"}, {"leaked": MIB}, "regressed", "leak", 1),
    ],
)
def test_the_whole(baseline: dict[str, int], candidate: dict[str, int], verdict: str, gate: str, code: int) -> None:
    found = compare(summary(**baseline), summary(**candidate), CompareSettings())  # type: ignore[arg-type]
    assert (found.verdict, found.gate, found.exit_code) == (verdict, gate, code)
    assert bool(found.gate_reasons) == (gate != "pass")


def test_values_of_the_before_and_after_table() -> None:
    found = rows(summary(leaked=MIB), summary(leaked=3 * MIB, latency_ms=200))
    assert (found["leak_growth"].baseline, found["leak_growth"].candidate) == (MIB, 3 * MIB)
    hours = sum(summary().epochs.durations_ns) / 3.6e12  # type: ignore[arg-type]
    assert found["leak_growth_per_hour"].baseline == pytest.approx(24 * MIB / hours)
    assert found["throughput"].baseline == pytest.approx(24 / (hours * 3600))
    assert found["token_throughput"].baseline == pytest.approx(96 / (hours * 3600))
    assert found["latency_p50"].change == pytest.approx(100 * MS)
    assert found["peak_bytes"].verdict == "regressed"
    assert found["device_peak_bytes"].verdict == "inconclusive"
    assert found["end_bytes"].interval == (48 * MIB, 48 * MIB)


def test_other_workloads_abstain_and_a_new_leak_is_told_all_the_same() -> None:
    few = summary(epochs=12, leaked=MIB)
    found = compare(summary(), few, CompareSettings())
    by_name = {row.quantity: row for row in found.measures}
    assert by_name["leak_growth"].verdict == "regressed"
    assert "requests: 24 against 12" in (by_name["peak_bytes"].reason or "")
    assert by_name["latency_p50"].verdict == "unchanged", "a rate does not depend on how many requests there were"
    assert {row.verdict for row in found.paths if row.verdict} == {"inconclusive"}
    assert {row.baseline for row in found.paths if row.quantity == "leaked_bytes"} == {0}, (
        "values are told all the same"
    )
    assert (found.gate, found.exit_code) == ("leak", 1)


@pytest.mark.parametrize("change", ["model", "device", "tokens", "epochs"])
def test_what_is_not_equal_blocks_what_rests_on_it(change: str) -> None:
    other = summary(leaked=MIB)
    requests = other.requests
    if change == "model":
        requests.models = ["another"]
    elif change == "device":
        other.devices = ["NVIDIA L4"]
    elif change == "tokens":
        requests.prompt_tokens = 2 * (requests.prompt_tokens or 0)
    else:
        other.epochs.kind = "step"
    found = rows(summary(leaked=MIB), other)
    blocked = {name for name, row in found.items() if (row.reason or "").startswith("not comparable")}
    everything = {"leak_growth", "leak_growth_per_hour", "peak_bytes", "latency_p50", "throughput", "end_bytes"}
    assert blocked & everything == (
        everything - {"leak_growth", "leak_growth_per_hour"} if change == "device" else everything
    )
    assert compare(summary(leaked=MIB), other, CompareSettings()).exit_code == 1


def test_known_on_one_side_alone_is_not_comparable() -> None:
    silent = summary()
    silent.requests = msgspec.structs.replace(silent.requests, prompt_tokens=None)
    found = compare(summary(), silent, CompareSettings())
    assert not found.checks.is_comparable
    assert (found.gate, found.exit_code) == ("could_not_judge", 2)
    assert compare(silent, silent, CompareSettings()).exit_code == 0, "what neither tells can't differ"


def test_too_few_epochs_and_requests_abstain() -> None:
    found = rows(summary(epochs=5, leaked=MIB), summary(epochs=5, leaked=2 * MIB, latency_ms=150))
    assert {found[name].verdict for name in ("leak_growth", "latency_p50", "throughput", "end_bytes")} == {
        "inconclusive"
    }
    found = rows(summary(epochs=12), summary(epochs=12, latency_ms=150))
    assert found["latency_p50"].verdict == "regressed"
    assert "12 requests in one of the captures, 20 are needed" in (found["latency_p95"].reason or "")


def test_a_leak_older_than_the_window_is_told_by_its_slope() -> None:
    old = summary(leaked=MIB)
    old.epochs.leaked_bytes = [0] * 20 + [MIB] * 4
    found = rows(old, summary(leaked=2 * MIB))["leak_growth"]
    assert (found.baseline, found.candidate, found.verdict) == (MIB, 2 * MIB, "inconclusive")
    assert "older than the recorded window" in (found.reason or "")
    assert rows(summary(), old)["leak_growth"].verdict == "regressed"


def test_a_peak_of_one_moment_is_no_regression() -> None:
    high = summary()
    high.memory.allocated_peak_bytes = 300 * MIB
    assert rows(summary(), high)["peak_bytes"].verdict == "inconclusive"


def test_a_path_that_is_summed_up_elsewhere_is_not_zero() -> None:
    lost = summary()
    sums = dict.fromkeys(
        ("end_bytes", "end_count", "peak_bytes", "peak_count", "allocated_bytes", "allocated_count"), 1
    )
    lost.paths = []
    lost.others = [OtherRow(level="tensor", memory_kind="device", rank=None, leaked_bytes=0, paths_count=9, **sums)]
    found = rows(summary(leaked=MIB), lost)["end_bytes"]
    assert (found.candidate, found.verdict) == (None, "inconclusive")
    lost.others = []
    found = rows(summary(leaked=MIB), lost)["end_bytes"]
    assert (found.candidate, found.reason) == (None, "no tensor allocations were recorded in the candidate")


def test_steps_stand_for_requests_and_windows_for_nothing() -> None:
    training, faster = summary(), summary(latency_ms=50)
    for side in (training, faster):
        side.requests = Requests(
            count=0, models=[], prompt_tokens=None, output_tokens=None, latencies_ns=[], latencies_count=0, gaps_ns=[],
            whole_counts=[], token_counts=[],
        )  # fmt: skip
        side.epochs.kind = "step"
    found = rows(training, faster)
    assert (found["throughput"].verdict, found["latency_p95"].verdict) == ("improved", "improved")
    assert found["throughput"].reason == "of epochs: no request is known"
    for side in (training, faster):
        side.epochs.kind = "time window"
    assert rows(training, faster)["throughput"].verdict == "inconclusive"


def test_settings_that_differ_are_listed() -> None:
    other = summary(settings={"expandable_segments": "True", "max_split_size": "-1"})
    found = compare(summary(), other, CompareSettings()).settings
    assert [(row.quantity, row.baseline_text, row.candidate_text) for row in found] == [
        ("expandable_segments", "False", "True"),
        ("max_split_size", None, "-1"),
    ]
    assert compare(summary(), summary(settings={}), CompareSettings()).settings == ()


def test_a_gate_without_anything_to_judge_never_passes() -> None:
    for names in ((), ("no_such",)):
        found = compare(summary(), summary(), CompareSettings(gate_quantities=names))
        assert found.exit_code == 2
