"""The whole report as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from reports.models.allocator import AllocatorMoment, AllocatorState, read_allocator, read_moments
from reports.models.causes import Cause, read_causes
from reports.models.failures import CauseCheck, Failure, read_checks, read_failures
from reports.models.findings import Finding, read_findings
from reports.models.host import HostMemory, read_host
from reports.models.hotspots import Hotspots, read_hotspots
from reports.models.ledger import DeviceLedger, read_ledgers
from reports.models.method import MethodLine, read_method
from reports.models.quality import Quality, read_quality
from reports.models.requests import Requests, read_requests
from reports.models.stalls import Stalls, read_stalls
from reports.models.suspects import LetGo, Suspect, read_let_go, read_suspects
from reports.models.timeline import Timeline, read_timelines
from reports.models.verdict import Verdict, read_verdict
from reports.source import CaptureTables
from reports.text import duration_text, plural, tidy, utc_text


@dataclass(frozen=True, slots=True)
class Report:
    """Blocks in the order they are shown; `*_left_out` count what the bounds of the page left out."""

    title: str
    capture: str
    facts: tuple[str, ...]
    verdict: Verdict
    findings: tuple[Finding, ...]
    findings_left_out: int
    timelines: tuple[Timeline, ...]
    timelines_left_out: int
    suspects: tuple[Suspect, ...]
    suspects_rest: LetGo | None
    let_go: tuple[LetGo, ...]
    let_go_rest: LetGo | None
    other_causes: tuple[Cause, ...]
    other_causes_left_out: int
    cause_checks: tuple[CauseCheck, ...]
    failures: tuple[Failure, ...]
    failures_left_out: int
    ledgers: tuple[DeviceLedger, ...]
    ledgers_left_out: int
    allocator_moments: tuple[AllocatorMoment, ...]
    allocator: AllocatorState | None
    requests: Requests
    hotspots: Hotspots
    stalls: Stalls
    host: HostMemory
    quality: Quality
    method: tuple[MethodLine, ...]


def read_report(tables: CaptureTables, *, title: str | None = None) -> Report:
    """Read every block from the tables of one capture; `title` is its name unless given."""
    findings, findings_left_out = read_findings(tables)
    suspects, suspects_rest = read_suspects(tables)
    let_go, let_go_rest = read_let_go(tables)
    timelines, timelines_left_out = read_timelines(tables)
    other_causes, other_causes_left_out = read_causes(tables, None)
    failures, failures_left_out = read_failures(tables)
    ledgers, ledgers_left_out = read_ledgers(tables)
    is_judged = any(tables.states[name].state == "present" for name in ("leak_suspects", "findings"))
    return Report(
        title=tidy(title or tables.name, 120),
        capture=tidy(tables.name, 120),
        facts=_facts(tables, timelines),
        verdict=read_verdict(suspects, suspects_rest, let_go, let_go_rest, findings, is_judged=is_judged),
        findings=tuple(findings),
        findings_left_out=findings_left_out,
        timelines=tuple(timelines),
        timelines_left_out=timelines_left_out,
        suspects=tuple(suspects),
        suspects_rest=suspects_rest,
        let_go=tuple(let_go),
        let_go_rest=let_go_rest,
        other_causes=tuple(other_causes),
        other_causes_left_out=other_causes_left_out,
        cause_checks=read_checks(tables),
        failures=failures,
        failures_left_out=failures_left_out,
        ledgers=tuple(ledgers),
        ledgers_left_out=ledgers_left_out,
        allocator_moments=read_moments(tables),
        allocator=read_allocator(tables),
        requests=read_requests(tables, findings),
        hotspots=read_hotspots(tables),
        stalls=read_stalls(tables),
        host=read_host(tables),
        quality=read_quality(tables),
        method=tuple(read_method(tables)),
    )


def _facts(tables: CaptureTables, timelines: list[Timeline]) -> tuple[str, ...]:
    """When, how long, and how much there was to look at."""
    (counts,) = tables.rows(
        "SELECT (SELECT count(*) FROM capture_files) AS files, (SELECT count(*) FROM allocations) AS allocations,"
        " (SELECT count(*) FROM request_spans) AS requests,"
        " (SELECT count(DISTINCT process_id) FROM allocations) AS processes"
    )
    facts = []
    if timelines:
        start, end = min(t.start_ns for t in timelines), max(t.end_ns for t in timelines)
        facts += [utc_text(start), duration_text(end - start)]
    nouns = (("files", "file"), ("processes", "process"), ("requests", "request"), ("allocations", "allocation"))
    for key, noun in nouns:
        if counts[key]:
            facts.append(plural(counts[key], noun))
    return tuple(facts)
