"""The end of a run on the terminal: the verdict on each capture, its suspects, and where the report is."""

from __future__ import annotations

from typing import Any

import orjson

from pipeline.index import DATABASE, PAGE
from pipeline.running import RunResult
from pipeline.summary import CaptureSummary, SuspectLine, summarise

_SHOWN_SUSPECTS = 3
_SHOWN_MISSING = 3


def summary_data(result: RunResult) -> dict[str, Any]:
    """What a script wants to know of a run; `captures` in the order given, failed ones with `error`."""
    captures: list[dict[str, Any]] = []
    for name in result.captures:
        failed = result.failures.get(name)
        if failed is None:
            captures.append({**summarise(result.out / name).to_dict(), "error": None})
        else:
            error = {"stage": failed.stage, "message": failed.message, "exit_code": failed.exit_code}
            captures.append({"capture": name, "error": error})
    return {
        "out": str(result.out),
        "exit_code": result.exit_code,
        "jobs_count": result.jobs_count,
        "captures": captures,
    }


def summary_json(result: RunResult) -> str:
    """The summary as JSON text."""
    return orjson.dumps(summary_data(result), option=orjson.OPT_INDENT_2).decode()


def summary_text(result: RunResult) -> str:
    """The summary for people, a few lines a capture."""
    lines: list[str] = []
    for name in result.captures:
        failed = result.failures.get(name)
        if failed is None:
            lines += _capture(summarise(result.out / name), result)
        else:
            lines += ["", f"{name}: failed in {failed.stage}"]
    if not result.jobs_count:
        lines += ["", "Nothing had changed: these are the results of the run before."]
    if (result.out / PAGE).is_file():
        lines += ["", f"All captures: {result.out / PAGE}", f"All tables:   {result.out / DATABASE}"]
    return "\n".join(lines[1:]) + "\n"


def _capture(summary: CaptureSummary, result: RunResult) -> list[str]:
    if not (result.out / summary.capture).is_dir():
        return ["", f"{summary.capture}: done; its results are in the storage that the profile names"]
    lines = ["", f"{summary.capture}: {summary.headline}"]
    if summary.detail:
        lines.append(f"  {summary.detail}")
    lines += [f"  {_suspect(line)}" for line in summary.suspects[:_SHOWN_SUSPECTS]]
    if summary.suspects_count > _SHOWN_SUSPECTS:
        lines.append(f"  and {summary.suspects_count - _SHOWN_SUSPECTS} more suspects")
    lines.append(f"  {summary.findings_count} finding{'s' * (summary.findings_count != 1)}")
    for line in summary.missing[:_SHOWN_MISSING]:
        lines.append(f"  missing: {line}")
    if len(summary.missing) > _SHOWN_MISSING:
        lines.append(f"  missing: {len(summary.missing) - _SHOWN_MISSING} more, see the report")
    if summary.report:
        lines.append(f"  report: {result.out / summary.report}")
    return lines


def _suspect(line: SuspectLine) -> str:
    from reports.text import bytes_text

    kept = f"{line.retained_count:,} allocations, {bytes_text(line.retained_bytes)}"
    parts = [f"{line.rank}. {line.root_cause or 'unclassified'}: {kept}"]
    if line.growth_bytes_per_hour:
        parts.append(f"{bytes_text(line.growth_bytes_per_hour)} an hour")
    if line.attribute:
        parts.append(f"with {line.attribute}")
    text = ", ".join(parts)
    return f"{text}, at {line.place}" if line.place else text
