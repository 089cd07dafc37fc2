"""Files of a comparison: captures and summaries in, the table, the page, flame graphs and the gate's result out."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ingest.atomic import write_atomic
from ingest.errors import BadInput
from ingest.writer import ParquetFile, to_arrow
from pipeline.compare import Comparison
from pipeline.compare_reading import summarise_capture
from pipeline.compare_result import Result, result_bytes
from pipeline.compare_summary import SCHEMA, VERSION, Header, Summary
from pipeline.compare_verdicts import Compared
from pipeline.progress import say
from schemas.config import Config
from schemas.tables import TABLES

MAX_BYTES = 64 * 1024 * 1024
TABLE, PAGE, GATE = "tables/comparison.parquet", "compare.html", "gate.json"


def load_side(path: Path, config: Config) -> Summary:
    """The summary of what a command line names: an analysed capture's folder, an OUT with one, or a summary file.

    Raises BadInput when it is none of them.
    """
    if path.is_file():
        return load_summary(path)
    from reports.build import capture_folders

    found = capture_folders(path)
    if len(found) > 1:
        known = ", ".join(folder.name for folder in found[:20])
        raise BadInput("several captures in here", where=str(path), todo=f"give the folder of one of them: {known}")
    say(f"reading {found[0].name}")
    return summarise_capture(found[0], config)


def load_summary(path: Path) -> Summary:
    """A summary file. Raises BadInput with one line when it is damaged, too large, or of another version."""
    where = str(path)
    again = "write it again with `leakpath compare --save-baseline`"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(error.strerror or str(error), where=where, todo="check the path") from error
    if len(data) > MAX_BYTES:
        raise BadInput("larger than 64 MiB: no summary of a capture", where=where, todo=again)
    try:
        header = msgspec.json.decode(data, type=Header)
        if header.schema != SCHEMA:
            raise BadInput("no summary of a capture", where=where, todo=f"give an analysed capture, or {again}")
        if header.version != VERSION:
            told = f"version {header.version} of a summary; version {VERSION} is supported"
            raise BadInput(told, where=where, todo=again)
        summary = msgspec.json.decode(data, type=Summary)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else "nested too deeply"
        raise BadInput(f"a damaged summary ({reason})", where=where, todo=again) from error
    if problem := _contradiction(summary):
        raise BadInput(f"a damaged summary ({problem})", where=where, todo=again)
    return summary


def _contradiction(summary: Summary) -> str | None:
    """What types can't say: lists of one length, places that exist."""
    epochs, requests = summary.epochs, summary.requests
    units = len(epochs.sizes)
    if {units} != {
        len(epochs.durations_ns),
        len(epochs.allocated_peaks),
        len(epochs.reserved_peaks),
        len(epochs.leaked_bytes),
    }:
        return "epochs: lists of different lengths"
    if sum(epochs.sizes) != epochs.count or 0 in epochs.sizes:
        return "epochs: sizes that do not add up to the count"
    if not len(requests.gaps_ns) == len(requests.whole_counts) == len(requests.token_counts):
        return "requests: lists of different lengths"
    for row in summary.paths:
        if any(place >= len(summary.frames) for place in row.frames):
            return "paths: a frame that is not there"
        if any(unit >= units for unit, _ in (*row.kept, *row.leaked)):
            return "paths: an epoch that is not there"
    return None


def comparison_rows(rows: tuple[Compared, ...]) -> dict[str, list[object]]:
    """Columns of `comparison`."""
    return {
        "comparison_id": list(range(len(rows))),
        "comparison_scope": [row.scope for row in rows],
        "quantity": [row.quantity for row in rows],
        "unit": [row.unit for row in rows],
        "compared_level": [row.level for row in rows],
        "compared_kind": [row.memory_kind for row in rows],
        "rank": [row.rank for row in rows],
        "compared_path": [None if row.path is None else "\n".join(row.path) for row in rows],
        "baseline_value": [row.baseline for row in rows],
        "candidate_value": [row.candidate for row in rows],
        "baseline_text": [row.baseline_text for row in rows],
        "candidate_text": [row.candidate_text for row in rows],
        "change_value": [row.change for row in rows],
        "change_low": [row.interval.low if row.interval else None for row in rows],
        "change_high": [row.interval.high if row.interval else None for row in rows],
        "change_ratio": [row.change_ratio for row in rows],
        "change_verdict": [row.verdict for row in rows],
        "change_reason": [row.reason for row in rows],
    }


def write_comparison(found: Comparison, result: Result, out: Path, *, is_gate: bool) -> list[Path]:
    """Write everything below `out`; gives the files in the order to read them. Raises OutputError."""
    from reports.compare_page import render_comparison
    from reports.difference import DIFFERENCES, difference_graph

    table = TABLES["comparison"]
    file = ParquetFile(table, out / TABLE)
    if found.rows:
        file.write(to_arrow(table, comparison_rows(found.rows)))
    file.close()
    changes = [
        (row.level or "", row.memory_kind, row.rank, row.path or (), row.quantity, round(row.change))
        for row in found.paths
        if row.change and row.path
    ]
    graphs = []
    for quantity in DIFFERENCES:
        path = out / "flamegraphs" / f"difference_{quantity}.speedscope.json"
        write_atomic(path, difference_graph(quantity, changes, result.candidate.capture, result.leakpath))
        graphs.append(path)
    page = out / PAGE
    links = [str(path.relative_to(out)) for path in graphs]
    write_atomic(page, render_comparison(msgspec.to_builtins(result), links))
    written = [page, out / TABLE, *graphs]
    if is_gate:
        write_atomic(out / GATE, result_bytes(result))
        written.insert(1, out / GATE)
    return written
