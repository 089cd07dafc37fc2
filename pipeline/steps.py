"""The steps of the pipeline as plain functions: paths in, paths out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ingest.errors import BadInput
from pipeline.causes.capture_causes import judge_causes
from pipeline.checks.step import check_findings, check_results
from pipeline.database import Database, open_capture, table_path
from pipeline.findings import build_findings
from pipeline.host import judge_host
from pipeline.hotspots import publish_hotspots
from pipeline.ingesting import IngestSummary, ingest
from pipeline.kernel_names import name_kernels
from pipeline.leaks.evidence import assign_evidence
from pipeline.leaks.paths import CallPathReader
from pipeline.leaks.root_causes import causes_of_suspects
from pipeline.leaks.suspects import judge_groups
from pipeline.leaks.tables import suspect_rows, write_rows
from pipeline.ledger import judge_ledger
from pipeline.objectives import missed_objectives
from pipeline.oom import MAX_EVENTS, explain_failures
from pipeline.serving import judge_serving
from pipeline.stall_findings import stall_findings
from pipeline.stalls import judge_stalls
from pipeline.symptoms import symptom_findings
from schemas.config import Config
from schemas.tables import TABLES

__all__ = ["IngestSummary", "analyze", "ingest"]

Progress = Callable[[str], None]
Row = dict[str, Any]
CLOCK_TOLERANCE_NS = 5_000_000
LEDGER_SAMPLES = 500
ALLOCATOR_MOMENTS = 100
ALLOCATOR_ROWS = 5_000_000


def _publish(database: Database, capture_dir: Path, name: str, relation: str) -> None:
    """Write a relation as a table and let later SQL read it under the table's name."""
    path = table_path(capture_dir, name)
    database.write(TABLES[name], path, relation=relation)
    database.view(TABLES[name], [path])


def _reconcile(database: Database, capture_dir: Path) -> None:
    """Append what the replay and the dump disagree on to `diagnostics` (a stage's rows are written once)."""
    database.run("lifetimes", "diagnostics_made")
    _publish(database, capture_dir, "diagnostics", "diagnostics_made")


def _rebuild(database: Database, capture_dir: Path, progress: Progress) -> None:
    progress("rebuilding lifetimes")
    for relation in (
        "tensor_lives",
        "segment_lives",
        "driver_sightings",
        "seen_twice",
        "driver_lives",
        "host_files",
        "host_lives",
    ):
        database.run("lifetimes", relation)
    progress("joining allocations with calls, ranges and requests")
    for relation in (
        "request_ranges",
        "request_spans_made",
        "range_nesting",
        "range_changes",
        "range_timeline",
        "thread_timeline",
        "request_timeline",
        "numbered_lives",
        "allocation_ranges",
        "allocation_parents",
        "allocations_made",
        "allocation_links_made",
    ):
        database.run("correlate", relation)
    _publish(database, capture_dir, "allocations", "allocations_made")
    _publish(database, capture_dir, "allocation_links", "allocation_links_made")
    _publish(database, capture_dir, "request_spans", "request_spans_made")
    name_kernels(database)
    database.run("correlate", "kernel_links_made")
    _publish(database, capture_dir, "kernel_links", "kernel_links_made")
    _reconcile(database, capture_dir)
    database.drop("allocations_made", kind="VIEW")
    for relation in (
        "tensor_lives",
        "segment_lives",
        "driver_lives",
        "host_lives",
        "numbered_lives",
        "allocation_links_made",
        "allocation_ranges",
        "allocation_parents",
    ):
        database.drop(relation)
    database.run("leaks", "live_bytes_made")
    _publish(database, capture_dir, "live_bytes", "live_bytes_made")


def _allocator(database: Database, capture_dir: Path, progress: Progress) -> None:
    progress("rebuilding the allocator's state over time")
    for relation in ("oom_events_made", "allocator_moments", "fragmentation_made", "oom_segments"):
        database.run("allocator", relation)
    _publish(database, capture_dir, "fragmentation", "fragmentation_made")
    _publish(database, capture_dir, "oom_events", "oom_events_made")


def _kv_blocks(database: Database, capture_dir: Path) -> None:
    database.run("kv", "kv_anomalies_made")
    _publish(database, capture_dir, "kv_anomalies", "kv_anomalies_made")


def _serving(database: Database, capture_dir: Path, config: Config, progress: Progress) -> None:
    progress("judging requests and tokens")

    def write(name: str, rows: list[Row]) -> None:
        write_rows(capture_dir, name, rows)
        database.view(TABLES[name], [table_path(capture_dir, name)])

    judge_serving(database, config, lambda name, relation: _publish(database, capture_dir, name, relation), write)


def _judge(database: Database, capture_dir: Path, config: Config, progress: Progress) -> None:
    progress("judging survivors")
    for relation in ("host_ends", "judged_moments", "judged_windows", "named_epochs", "unnamed_epochs", "epochs_made"):
        database.run("leaks", relation)
    _publish(database, capture_dir, "epochs", "epochs_made")
    judge_stalls(database, config.stalls, lambda name, made: _publish(database, capture_dir, name, made))
    judged = ("judged_allocations", "epoch_lives", "survivor_groups", "path_epochs", "older_frees", "request_levels")
    for relation in judged:
        database.run("leaks", relation)
    paths = CallPathReader(database)
    paths.prefetch(row[0] for row in database.rows("SELECT DISTINCT path_key FROM survivor_groups"))
    rated = judge_groups(database, config.leaks, paths)
    assign_evidence(database, rated)
    _publish(database, capture_dir, "leak_evidence", "leak_evidence_made")
    causes = causes_of_suspects(database, rated, paths, config.root_causes)
    progress("balancing the device's ledger")
    balance = judge_ledger(database, lambda name, made: _publish(database, capture_dir, name, made))
    suspects = suspect_rows(database, rated, causes, paths)
    caused = judge_causes(database, suspects, causes, config, paths)
    write_rows(capture_dir, "leak_suspects", suspects)
    write_rows(capture_dir, "root_causes", caused.rows)
    write_rows(capture_dir, "root_cause_checks", caused.checks)
    failures = explain_failures(database)
    write_rows(capture_dir, "oom_holders", failures.holders)
    write_rows(capture_dir, "oom_remedies", failures.remedies)
    progress("adding up time by call path")
    hot = publish_hotspots(database, suspects, config, lambda name, made: _publish(database, capture_dir, name, made))
    host = judge_host(database, capture_dir, config, lambda name, made: _publish(database, capture_dir, name, made))
    progress("checking the tables")
    check_results(database, capture_dir)
    serving = [*symptom_findings(database, config.symptoms), *missed_objectives(database, config.slo), *host]
    serving += balance + stall_findings(database, config.stalls)
    found = build_findings(
        database,
        suspects,
        caused.rows,
        config,
        caused.fragmented,
        [*serving, *hot, *caused.findings, *failures.findings],
    )
    write_rows(capture_dir, "findings", found)
    check_findings(database, capture_dir, found)


def analyze(capture_dir: Path, config: Config, progress: Progress = lambda line: None) -> None:
    """Raw tables of a capture to its core and out tables, all under `capture_dir/tables`.

    Raises BadInput when there are no raw tables, OutputError when the tables can't be written.
    """
    if not table_path(capture_dir, "capture_files").exists():
        raise BadInput("no tables in it", where=str(capture_dir), todo="run `leakpath ingest` first")
    temp = capture_dir / ".leakpath-duckdb"
    settings = {
        "clock_tolerance_ns": CLOCK_TOLERANCE_NS,
        "time_windows": config.leaks.time_windows,
        "max_points": config.series.max_points,
        "ledger_samples": LEDGER_SAMPLES,
        "context_min_bytes": config.root_causes.context_min_bytes,
        "allocator_moments": ALLOCATOR_MOMENTS,
        "oom_events_told": MAX_EVENTS,
        "allocator_rows": ALLOCATOR_ROWS,
    }
    try:
        with open_capture(capture_dir, temp, settings=settings) as database:
            _rebuild(database, capture_dir, progress)
            _allocator(database, capture_dir, progress)
            _kv_blocks(database, capture_dir)
            _serving(database, capture_dir, config, progress)
            _judge(database, capture_dir, config, progress)
    finally:
        shutil.rmtree(temp, ignore_errors=True)
