"""A comparison as plain data for its page and for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reports.text import NOT_KNOWN, bytes_text, count_text, duration_text, tidy, tidy_middle

MAX_PATHS = 30
MAX_FRAMES = 40
MAX_SETTINGS = 60

_LABELS = {
    "leak_growth": "Leaked bytes an epoch",
    "leak_growth_per_hour": "Leaked bytes an hour",
    "peak_bytes": "Peak of allocated memory",
    "mean_epoch_peak_bytes": "Allocated, mean of the epochs' peaks",
    "reserved_peak_bytes": "Peak of reserved memory",
    "mean_epoch_reserved_peak_bytes": "Reserved, mean of the epochs' peaks",
    "device_peak_bytes": "Peak of the device's memory",
    "latency_p50": "Latency P50",
    "latency_p95": "Latency P95",
    "throughput": "Throughput",
    "token_throughput": "Token throughput",
    "end_bytes": "live at the end",
    "leaked_bytes": "leaked",
}
_VERDICTS = ("improved", "regressed", "unchanged", "inconclusive")
_GATES = {
    "pass": "pass",
    "regressed": "fail: regressed",
    "leak": "fail: the candidate leaks",
    "could_not_judge": "could not judge",
}
_HEADLINES = {
    "regressed": "Regressed",
    "improved": "Improved",
    "unchanged": "Unchanged",
    "inconclusive": "Could not tell",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One quantity in words. `verdict` is empty where no direction is better."""

    label: str
    baseline: str
    candidate: str
    change: str
    interval: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class PathLine:
    """One call path: frames root first, its leaf, and the line of its bytes at the end or of what leaked."""

    place: str
    leaf: str
    frames: tuple[str, ...]
    line: Line


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """The blocks in the order they are shown."""

    title: str
    tone: str
    headline: str
    detail: str
    baseline: str
    candidate: str
    is_same: bool
    gate: str
    gate_exit: int
    gate_reasons: tuple[str, ...]
    checks: tuple[Line, ...]
    measures: tuple[Line, ...]
    settings: tuple[Line, ...]
    grew: tuple[PathLine, ...]
    shrank: tuple[PathLine, ...]
    paths_left_out: int


def value_text(value: Any, unit: str | None) -> str:
    """A value in its unit; what is not known says so."""
    if value is None:
        return NOT_KNOWN
    if isinstance(value, str):
        return tidy_middle(value, 120)
    if unit == "bytes":
        return bytes_text(value)
    if unit == "bytes/h":
        return f"{bytes_text(value)}/h"
    if unit == "ns":
        return duration_text(value)
    if unit == "1/s":
        return f"{value:.3g}/s".replace("-", "−")
    return f"{value:,.4g}".replace("-", "−") if unit == "count" and value != int(value) else count_text(value)


def _signed(value: float, unit: str | None) -> str:
    text = value_text(value, unit)
    return f"+{text}" if value > 0 else text


def _line(row: dict[str, Any]) -> Line:
    unit, change = row["unit"], row["change"]
    told = "–"
    if change is not None:
        told = _signed(change, unit)
        if row["change_ratio"] is not None and change:
            told += f" ({row['change_ratio'] * 100:+.1f} %)".replace("-", "−")
    low, high = row["change_low"], row["change_high"]
    return Line(
        label=_LABELS.get(row["quantity"], tidy(row["quantity"], 80)),
        baseline=value_text(row["baseline"], unit),
        candidate=value_text(row["candidate"], unit),
        change=told,
        interval="–" if low is None or high is None else f"{_signed(low, unit)} to {_signed(high, unit)}",
        verdict=row["verdict"] if row["verdict"] in _VERDICTS else "",
        reason=tidy(row["reason"], 300),
    )


def _path(row: dict[str, Any]) -> PathLine:
    frames = [tidy_middle(frame, 160) for frame in row["call_path"]]
    if len(frames) > MAX_FRAMES:
        half = MAX_FRAMES // 2
        frames = [*frames[:half], f"[{len(frames) - 2 * half} frames]", *frames[-half:]]
    rank = f"rank {row['rank']}" if row["rank"] is not None else None
    places = [tidy(row["level"], 20), tidy(row["memory_kind"], 20), rank]
    line = _line(row)
    return PathLine(", ".join(filter(None, places)), _leaf(row["call_path"]), tuple(frames), line)


def _leaf(frames: list[str]) -> str:
    """The innermost frame of Python code, else the innermost one with a name."""
    inner = frames[::-1] or ["[no call path]"]
    python = next((frame for frame in inner if ".py)" in frame), None)
    named = next((frame for frame in inner if frame[:1] != "[" and frame != "0x#"), inner[0])
    return tidy_middle(python or named, 120)


def read_comparison(result: dict[str, Any]) -> ComparisonPage:
    """The page's data from a result document (schemas/comparison.schema.json)."""
    measures = tuple(_line(row) for row in result["measures"])
    changed = [row for row in result["paths"] if row["change"] and row["verdict"] != "unchanged"]
    grew = [_path(row) for row in changed if row["change"] > 0]
    shrank = [_path(row) for row in changed if row["change"] < 0]
    gate, leaks = result["gate"], result["candidate"]["leak_state"] == "leak"
    verdict = result["verdict"]
    base, candidate = (tidy(result[side]["capture"], 120) for side in ("baseline", "candidate"))
    digests = {result[side]["digest"] for side in ("baseline", "candidate")}
    return ComparisonPage(
        title=f"{candidate} against {base}",
        tone="leak"
        if leaks or verdict == "regressed"
        else {"improved": "clean", "unchanged": "clean"}.get(verdict, "unknown"),
        headline=_headline(verdict, measures, result, leaks),
        detail=_detail(result),
        baseline=base,
        candidate=candidate,
        is_same=len(digests) == 1 and "" not in digests,
        gate=_GATES.get(gate["verdict"], "could not judge"),
        gate_exit=gate["exit_code"],
        gate_reasons=tuple(tidy(reason, 400) for reason in gate["reasons"]),
        checks=tuple(_line(row) for row in result["checks"]),
        measures=measures,
        settings=tuple(_line(row) for row in result["settings"][:MAX_SETTINGS]),
        grew=tuple(grew[:MAX_PATHS]),
        shrank=tuple(shrank[:MAX_PATHS]),
        paths_left_out=result["paths_left_out"] + sum(max(0, len(found) - MAX_PATHS) for found in (grew, shrank)),
    )


def _headline(verdict: str, measures: tuple[Line, ...], result: dict[str, Any], leaks: bool) -> str:
    judged = [
        line
        for line, row in zip(measures, result["measures"], strict=True)
        if row["verdict"] == verdict and row["quantity"] in result["gate"]["quantities"]
    ]
    named = ", ".join(_told(line) for line in judged[:3])
    text = _HEADLINES.get(verdict, "Could not tell") + (f": {named}" if named and verdict != "unchanged" else "")
    return text + ("; the candidate leaks." if leaks else ".")


def _told(line: Line) -> str:
    name = f"{line.label[0].lower()}{line.label[1:]}"
    if line.baseline == line.candidate == NOT_KNOWN:
        return f"{name} {NOT_KNOWN}"
    return f"{name} {line.baseline} → {line.candidate}"


def _detail(result: dict[str, Any]) -> str:
    if not result["is_comparable"]:
        reasons = [row["reason"] for row in result["checks"] if row["verdict"] == "inconclusive"]
        return "Not comparable in everything: " + tidy("; ".join(filter(None, reasons)), 400) + "."
    unsure = [row for row in result["measures"] if row["verdict"] == "inconclusive"]
    names = ", ".join(_LABELS.get(row["quantity"], row["quantity"]) for row in unsure[:4])
    return f"Not told apart from chance, or not known: {names}." if unsure else "The workloads match."
