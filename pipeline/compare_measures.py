"""The before/after table: leak growth, peaks, latency and throughput of two captures, with intervals and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.compare_checks import Checks, Kind
from pipeline.compare_intervals import Floats, Interval, Statistic, change_interval, mean, quantile, ratio
from pipeline.compare_summary import Epochs, Summary
from pipeline.compare_verdicts import Compared, judge
from schemas.compare_settings import CompareSettings

_HOUR_NS = 3_600_000_000_000
_NO_WORK = (None, "idle window", "time window")
"""Epochs that are no piece of work: their durations do not say how fast it went."""


def measure_rows(baseline: Summary, candidate: Summary, checks: Checks, settings: CompareSettings) -> list[Compared]:
    """One row a quantity, the most important first."""
    both = (baseline, candidate)
    return [
        *(_growth(both, checks, settings, is_hourly) for is_hourly in (False, True)),
        *_peaks(both, checks, settings),
        *_speed(both, checks, settings),
    ]


def _floats(values: Sequence[int | None]) -> Floats:
    return np.array([value for value in values if value is not None], dtype=np.float64)


def _judged(
    row: Compared,
    samples: tuple[Floats, Floats],
    statistic: Statistic,
    settings: CompareSettings,
    *,
    least: int,
    noun: str,
    is_more_better: bool = False,
) -> Compared:
    """The row with interval and verdict, or why there is none."""
    if len(samples[0]) and np.array_equal(*samples):
        return replace(row, interval=Interval(0.0, 0.0), verdict="unchanged", reason=f"equal {noun} in both")
    few = min(map(len, samples))
    if few < least:
        return replace(row, verdict="inconclusive", reason=f"{few} {noun} in one of the captures, {least} are needed")
    assert row.change is not None and row.baseline is not None
    interval = change_interval(*samples, statistic, settings.confidence)
    margin = settings.min_change_ratio * abs(row.baseline)
    verdict, reason = judge(row.change, interval, margin, is_more_better=is_more_better)
    return replace(row, interval=interval, verdict=verdict, reason=reason or row.reason)


def _stopped(row: Compared, checks: Checks, kind: Kind) -> Compared | None:
    """The row without a verdict when a value is not known or the captures can't be compared in it."""
    if row.baseline is None or row.candidate is None:
        missing = [name for name, value in (("baseline", row.baseline), ("candidate", row.candidate)) if value is None]
        return replace(row, verdict="inconclusive", reason=f"not known in the {' and the '.join(missing)}")
    if kind in checks.blocked:
        return replace(row, verdict="inconclusive", reason=f"not comparable: {checks.blocked[kind]}")
    return None


def _rate(side: Summary, is_hourly: bool) -> tuple[float | None, Floats]:
    """Leaked bytes an epoch (or hour), and the units it is drawn from: (units, 2) of bytes and epochs."""
    epochs, leaks = side.epochs, side.leaks
    if leaks.state == "unknown" or (leaks.state == "leak" and not leaks.suspects_count):
        return None, np.empty((0, 2))
    scale = epochs.count * _HOUR_NS / epochs.span_ns if is_hourly and epochs.span_ns else 1.0
    if is_hourly and not epochs.span_ns:
        return (0.0 if leaks.state == "none" else leaks.growth_bytes_per_hour), np.empty((0, 2))
    bytes_in_epochs = sum(epochs.leaked_bytes)
    if leaks.retained_bytes and bytes_in_epochs * 2 < leaks.retained_bytes:  # most of it is older than the window
        return leaks.growth_bytes_per_hour if is_hourly else leaks.growth_bytes_per_epoch, np.empty((0, 2))
    units = np.column_stack((np.array(epochs.leaked_bytes) * scale, epochs.sizes)) if epochs.count else np.empty((0, 2))
    return bytes_in_epochs * scale / max(epochs.count, 1), units.astype(np.float64)


def _growth(both: tuple[Summary, Summary], checks: Checks, settings: CompareSettings, is_hourly: bool) -> Compared:
    name, unit = ("leak_growth_per_hour", "bytes/h") if is_hourly else ("leak_growth", "bytes")
    (before, first), (after, second) = (_rate(side, is_hourly) for side in both)
    row = Compared("capture", name, unit, before, after)
    states = [side.leaks.state for side in both]
    for side, state, named in zip(both, states, ("baseline", "candidate"), strict=True):
        if state == "unknown":
            why = side.leaks.titles[0] if side.leaks.titles else "not judged"
            return replace(row, verdict="inconclusive", reason=f"whether the {named} leaks is not known: {why}")
    if states == ["none", "leak"]:
        interval = (
            change_interval(first, second, ratio, settings.confidence) if "growth" not in checks.blocked else None
        )
        told = "the candidate leaks and the baseline does not"
        return replace(row, interval=interval, verdict="regressed", reason=told)
    if stopped := _stopped(row, checks, "growth"):
        return stopped
    if states == ["none", "none"]:
        return replace(row, verdict="unchanged", reason="neither leaks")
    if not len(first) or not len(second):
        told = "nothing to draw from: most of what leaks is older than the recorded window, or no epochs are known"
        return replace(row, verdict="inconclusive", reason=told)
    return _judged(row, (first, second), ratio, settings, least=settings.min_epochs, noun="epochs")


def _peaks(both: tuple[Summary, Summary], checks: Checks, settings: CompareSettings) -> list[Compared]:
    found = []
    for level, name in (("allocated", "peak_bytes"), ("reserved", "reserved_peak_bytes")):
        values = [getattr(side.memory, f"{level}_peak_bytes") for side in both]
        samples = tuple(_floats(getattr(side.epochs, f"{level}_peaks")) for side in both)
        means = [float(sample.mean()) if len(sample) else None for sample in samples]
        row = Compared("capture", f"mean_epoch_{name}", "bytes", means[0], means[1])
        average = _stopped(row, checks, "totals") or _judged(
            row, (samples[0], samples[1]), mean, settings, least=settings.min_epochs, noun="epochs"
        )
        row = Compared("capture", name, "bytes", values[0], values[1])
        found += [_stopped(row, checks, "totals") or _one_moment(row, average, settings), average]
    before, after = (side.memory.device_peak_bytes for side in both)
    row = Compared("capture", "device_peak_bytes", "bytes", before, after)
    if not (stopped := _stopped(row, checks, "totals")) and not _is_moved(row, settings):
        stopped = replace(row, verdict="unchanged")
    found.append(stopped or _one_moment(row, found[-1], settings))
    return found


def _is_moved(row: Compared, settings: CompareSettings) -> bool:
    return abs(row.change or 0) > settings.min_change_ratio * (row.baseline or 0)


def _one_moment(row: Compared, average: Compared, settings: CompareSettings) -> Compared:
    """A peak is one moment and has no interval: a change counts where the epochs' own peaks say so as well."""
    assert row.change is not None
    if row.change == 0:
        return replace(row, verdict="unchanged")
    if average.verdict == "inconclusive":
        return replace(row, verdict="inconclusive", reason=f"peaks of the epochs: {average.reason}")
    moved = _is_moved(row, settings)
    verdict = ("regressed" if row.change > 0 else "improved") if moved else "unchanged"
    if verdict == average.verdict:
        return replace(row, verdict=average.verdict, reason="so do the peaks of the epochs" if moved else None)
    return replace(
        row, verdict="inconclusive", reason=f"one moment alone: the peaks of the epochs are {average.verdict}"
    )


def _speed(both: tuple[Summary, Summary], checks: Checks, settings: CompareSettings) -> list[Compared]:
    if all(side.requests.latencies_ns for side in both) or any(side.requests.count for side in both):
        latencies = [_floats(side.requests.latencies_ns) for side in both]
        served = [_columns(side.requests.whole_counts, side.requests.gaps_ns) for side in both]
        tokens = [
            _columns(side.requests.token_counts if side.requests.output_tokens else [], side.requests.gaps_ns)
            for side in both
        ]
        noun, reason = "requests", None
    else:
        latencies = [_durations(side.epochs) for side in both]
        served = [
            _columns(side.epochs.sizes, side.epochs.durations_ns) if len(d) else np.empty((0, 2))
            for side, d in zip(both, latencies, strict=True)
        ]
        tokens, noun, reason = None, "epochs", "of epochs: no request is known"
    rows = []
    for share, name, least in (
        (0.5, "latency_p50", settings.min_epochs),
        (0.95, "latency_p95", settings.min_p95_count),
    ):
        values: list[Any] = [float(np.quantile(sample, share)) if len(sample) else None for sample in latencies]
        row = Compared("capture", name, "ns", values[0], values[1], reason=reason)
        rows.append(
            _stopped(row, checks, "speed")
            or _judged(row, (latencies[0], latencies[1]), quantile(share), settings, least=least, noun=noun)
        )
    for samples, name in ((served, "throughput"), (tokens, "token_throughput")):
        if samples is None or (not any(map(len, samples)) and name == "token_throughput"):
            continue
        rates = [float(ratio(sample[None])[0]) if len(sample) and sample[:, 1].sum() else None for sample in samples]
        row = Compared("capture", name, "1/s", rates[0], rates[1], reason=reason)
        rows.append(
            _stopped(row, checks, "speed")
            or _judged(
                row,
                (samples[0], samples[1]),
                ratio,
                settings,
                least=settings.min_epochs,
                noun=noun,
                is_more_better=True,
            )
        )
    return rows


def _durations(epochs: Epochs) -> Floats:
    """Duration of an epoch, by unit; none where the epochs are no pieces of work."""
    if epochs.kind in _NO_WORK or None in epochs.durations_ns:
        return np.empty(0)
    return _floats(epochs.durations_ns) / np.maximum(epochs.sizes, 1)


def _columns(counts: Sequence[int], times_ns: Sequence[int | None]) -> Floats:
    """(units, 2): how many, and the seconds they took."""
    if len(counts) != len(times_ns) or not len(counts):
        return np.empty((0, 2))
    return np.column_stack((np.array(counts, dtype=np.float64), _floats(times_ns) / 1e9))
