"""A comparison's summary of an analysed capture, from its tables."""

from __future__ import annotations

import hashlib
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from ingest.errors import BadInput
from pipeline.compare_path_reading import read_others, read_paths
from pipeline.compare_summary import (
    MAX_DEPTH,
    MAX_REQUESTS,
    MAX_SUSPECTS,
    MAX_UNITS,
    SCHEMA,
    VERSION,
    Epochs,
    Leaks,
    Memory,
    Requests,
    Summary,
)
from pipeline.database import Database, open_capture, table_path
from pipeline.progress import printable
from pipeline.serving import set_targets
from schemas.config import Config

_RELATIONS = (
    "compare_ranks",
    "compare_units",
    "compare_path_names",
    "compare_levels",
    "compare_peaks",
    "compare_unit_peaks",
    "compare_kept",
    "compare_paths",
    "compare_requests",
)


def summarise_capture(folder: Path, config: Config) -> Summary:
    """The summary of an analysed capture's folder. Raises BadInput when it was not analysed."""
    if not table_path(folder, "leak_suspects").exists():
        raise BadInput("not analysed yet", where=str(folder), todo="run `leakpath run` on the capture first")
    settings = {"compare_units": MAX_UNITS, "compare_depth": MAX_DEPTH}
    with (
        tempfile.TemporaryDirectory(prefix="leakpath-compare-") as temp,
        open_capture(folder, Path(temp), settings=settings) as database,
    ):
        return summarise(database, folder.resolve().name, config)


def summarise(database: Database, capture: str, config: Config) -> Summary:
    """The summary of the capture whose tables are the database's views."""
    set_targets(database, config.slo)
    database.run("latency", "served_requests")
    for relation in _RELATIONS:
        database.run("compare", relation)
    units = (database.rows("SELECT max(unit) + 1 FROM compare_units")[0][0]) or 0
    frames: dict[str, int] = {}
    paths = read_paths(database, frames)
    return Summary(
        schema=SCHEMA,
        version=VERSION,
        leakpath=_version(),
        capture=_text(capture),
        digest=_digest(database),
        devices=[
            _text(row[0])
            for row in database.rows("SELECT DISTINCT name FROM devices WHERE name <> '' ORDER BY 1 LIMIT 1000")
        ],
        settings=_settings(database),
        epochs=_epochs(database, units),
        requests=_requests(database),
        memory=_memory(database),
        leaks=_leaks(database),
        frames=[_text(name) for name in frames],
        paths=paths,
        others=read_others(database),
    )


def _version() -> str:
    try:
        return version("leakpath")
    except PackageNotFoundError:
        return "not installed"


def _text(value: object, limit: int = 1000) -> str:
    return printable(str(value))[:limit]


def _digest(database: Database) -> str:
    """Of the digests of the capture's files: equal for equal files, whatever they are called."""
    rows = database.rows("SELECT digest FROM capture_files WHERE digest IS NOT NULL ORDER BY digest")
    return hashlib.blake2b("\n".join(row[0] for row in rows).encode(), digest_size=16).hexdigest() if rows else ""


def _settings(database: Database) -> dict[str, str]:
    """Allocator settings by name; where processes differ, each value once."""
    rows = database.rows(
        "SELECT name, string_agg(DISTINCT setting, ' | ' ORDER BY setting) FROM allocator_settings"
        " GROUP BY name ORDER BY name LIMIT 1000"
    )
    return {_text(name, 200): _text(setting) for name, setting in rows}


def _by_unit(rows: list[tuple[Any, ...]], units: int, empty: int | None) -> list[Any]:
    found: list[Any] = [empty] * units
    for unit, value in rows:
        found[unit] = value
    return found


def _epochs(database: Database, units: int) -> Epochs:
    kinds = database.rows("SELECT epoch_kind, count(*) FROM compare_units GROUP BY 1 ORDER BY 2 DESC, 1")
    [(span,)] = database.rows(
        "SELECT max(span)::BIGINT FROM ("
        " SELECT max(until_ns) - min(start_ns) AS span FROM compare_units GROUP BY process_id)"
    )
    peaks = {
        level: _by_unit(
            database.rows("SELECT unit, peak_bytes FROM compare_unit_peaks WHERE level = ? ORDER BY unit", [level]),
            units,
            None,
        )
        for level in ("tensor", "segment")
    }
    return Epochs(
        kind=kinds[0][0] if kinds else None,
        count=sum(row[1] for row in kinds),
        span_ns=span if span and span > 0 else None,
        sizes=_by_unit(database.rows("SELECT unit, count(*) FROM compare_units GROUP BY unit"), units, 0),
        durations_ns=_by_unit(
            database.rows("SELECT unit, sum(duration_ns)::BIGINT FROM compare_units GROUP BY unit"), units, None
        ),
        allocated_peaks=peaks["tensor"],
        reserved_peaks=peaks["segment"],
        leaked_bytes=_by_unit(
            database.rows(
                "SELECT unit, sum(bytes)::BIGINT FROM compare_kept WHERE is_leak AND unit IS NOT NULL GROUP BY unit"
            ),
            units,
            0,
        ),
    )


def _requests(database: Database) -> Requests:
    [(count, prompt, output)] = database.rows(
        "SELECT count(*), sum(prompt_tokens)::BIGINT, sum(output_tokens)::BIGINT FROM requests"
        " WHERE source IN (SELECT source FROM compare_requests)"
    )
    [(seen, known)] = database.rows("SELECT count(*), count(latency_ns) FROM compare_requests")
    latencies = database.rows(
        "SELECT latency_ns FROM (SELECT latency_ns, row_number() OVER (ORDER BY at_ns, request_id) - 1 AS place"
        " FROM compare_requests WHERE latency_ns IS NOT NULL) WHERE $known <= $most OR place = 0"
        " OR place * $most // $known <> (place - 1) * $most // $known ORDER BY place",
        {"known": known, "most": MAX_REQUESTS},
    )
    groups = database.rows(
        "SELECT sum(gap_ns)::BIGINT, sum(whole)::BIGINT, sum(tokens)::BIGINT FROM ("
        " SELECT row_number() OVER ended - 1 AS place, greatest(end_ns - coalesce(lag(end_ns) OVER ended,"
        "   (SELECT min(at_ns) FROM compare_requests)), 0) AS gap_ns, is_whole::INTEGER AS whole,"
        "   coalesce(output_tokens, 0) AS tokens FROM compare_requests WHERE end_ns IS NOT NULL"
        " WINDOW ended AS (ORDER BY end_ns, at_ns, request_id))"
        " GROUP BY CASE WHEN $known <= $most THEN place ELSE place * $most // $known END"
        " ORDER BY min(place)",
        {"known": seen, "most": MAX_REQUESTS},
    )
    models = database.rows("SELECT DISTINCT model FROM compare_requests WHERE model <> '' ORDER BY 1 LIMIT 100")
    return Requests(
        count=max(count, seen),
        models=[_text(row[0], 200) for row in models],
        prompt_tokens=prompt,
        output_tokens=output,
        latencies_ns=[row[0] for row in latencies],
        latencies_count=known,
        gaps_ns=[row[0] for row in groups],
        whole_counts=[row[1] for row in groups],
        token_counts=[row[2] for row in groups],
    )


def _memory(database: Database) -> Memory:
    peaks = dict(database.rows("SELECT level, sum(peak_bytes)::BIGINT FROM compare_peaks GROUP BY level"))
    [(device,)] = database.rows(
        "SELECT sum(peak)::BIGINT FROM (SELECT max(part_bytes) AS peak FROM memory_ledger"
        " WHERE ledger_part = 'device_used' GROUP BY device_index)"
    )
    return Memory(
        allocated_peak_bytes=peaks.get("tensor"), reserved_peak_bytes=peaks.get("segment"), device_peak_bytes=device
    )


def _leaks(database: Database) -> Leaks:
    """A leak is a growing suspect or a KV block that is never given back; an abstention is no absence."""
    [(count, retained, growth, hourly)] = database.rows(
        "SELECT count(*), coalesce(sum(retained_bytes), 0)::BIGINT, sum(growth_bytes_per_epoch),"
        " sum(growth_bytes_per_hour) FROM leak_suspects WHERE verdict = 'growing'"
    )
    found = database.rows(
        "SELECT finding_kind, title, abstained_reason FROM findings"
        " WHERE finding_kind IN ('leak', 'kv_blocks', 'no_leak', 'abstained') ORDER BY finding_id"
    )
    leaking = [row[1] for row in found if row[0] in ("leak", "kv_blocks")]
    state: Literal["leak", "none", "unknown"]
    if count or leaking:
        state, titles = "leak", leaking
    elif any(row[0] == "no_leak" for row in found):
        state, titles = "none", [row[1] for row in found if row[0] == "no_leak"]
    else:
        state, titles = "unknown", [row[2] or row[1] for row in found] or ["the capture was not judged"]
    return Leaks(
        state=state,
        titles=[_text(title) for title in titles[:MAX_SUSPECTS]],
        suspects_count=count,
        retained_bytes=retained,
        growth_bytes_per_epoch=growth,
        growth_bytes_per_hour=hourly,
    )
