"""Builds all reports of a capture from its tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path

from ingest.atomic import write_atomic
from ingest.errors import BadInput
from reports.callstacks import TITLES, Graph, Stacks, graphs_of, read_stacks
from reports.findings_file import write_findings
from reports.models.report import read_report
from reports.models.timeline import LEVEL_LABELS
from reports.models.verdict import Verdict
from reports.render import render_html
from reports.source import CaptureTables
from reports.speedscope import Profile, Unit, write_speedscope
from reports.text import place_text

_COUNTS: tuple[Graph, ...] = ("churn_count", "cpu_samples")


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """What `build_report` wrote, and the verdict it came to."""

    html: Path
    findings: Path
    flamegraphs: tuple[Path, ...]
    verdict: Verdict


def build_report(capture_dir: Path, *, title: str | None = None) -> ReportFiles:
    """Write report.html, findings.json and flamegraphs/ into `capture_dir`, from its tables/ folder.

    Absent, empty and unreadable tables are shown as such. The same tables give the same bytes. Raises
    BadInput when there is no tables folder and OutputError when a file can't be written.
    """
    version = _version()
    with CaptureTables(capture_dir) as tables:
        report = read_report(tables, title=title)
        html, findings = capture_dir / "report.html", capture_dir / "findings.json"
        flamegraphs, graphs = [], graphs_of(tables)
        for graph in graphs:
            path = capture_dir / "flamegraphs" / f"{graph}.speedscope.json"
            name = f"{TITLES[graph]}, {report.capture}"
            write_atomic(path, write_speedscope(name, _profiles(tables, graph), f"leakpath {version}"))
            flamegraphs.append(path)
        write_atomic(findings, write_findings(tables, report.verdict, version))
        write_atomic(html, render_html(report, version, graphs))
    return ReportFiles(html, findings, tuple(flamegraphs), report.verdict)


def capture_folders(out: Path) -> list[Path]:
    """Analysed captures under `out`, by name: `out` itself when it has tables, else its subfolders that do.

    The folder of a comparison is none of them. Raises BadInput when there is none.
    """
    if not out.is_dir():
        raise BadInput("no such folder", where=str(out), todo="give the OUT folder of `leakpath run`")
    if (out / "tables").is_dir():
        return [out]
    found = sorted(
        folder for folder in out.iterdir() if (folder / "tables").is_dir() and not (folder / "compare.html").is_file()
    )
    if not found:
        raise BadInput(
            "no analysed capture in here",
            where=str(out),
            todo="run `leakpath run CAPTURE --out OUT` first, then give OUT",
        )
    return found


def capture_folder(out: Path, name: str | None) -> Path:
    """The folder of one analysed capture under `out`. Raises BadInput when none or several can be meant."""
    found = [folder for folder in capture_folders(out) if name in (None, folder.name)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(folder.name for folder in capture_folders(out)[:20])
    what = "several captures in here" if found else f"no capture {name!r} in here"
    raise BadInput(what, where=str(out), todo=f"choose one with --capture: {known}")


def _profiles(tables: CaptureTables, graph: Graph) -> Iterator[Profile]:
    for stacks in read_stacks(tables, graph):
        unit: Unit = "nanoseconds" if graph == "gpu_time" else "none" if graph in _COUNTS else "bytes"
        yield Profile(_name(graph, stacks), unit, stacks.samples)


def _name(graph: Graph, stacks: Stacks) -> str:
    places = [LEVEL_LABELS.get(stacks.level, stacks.level).split(" (")[0]]
    places.append(place_text(process_id=stacks.process_id, device_index=stacks.device_index))
    return f"{TITLES[graph]}: {', '.join(filter(None, places))}" + (f" ({stacks.note})" if stacks.note else "")


def _version() -> str:
    try:
        return installed_version("leakpath")
    except PackageNotFoundError:
        return "not installed"
