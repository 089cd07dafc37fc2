"""Processes, devices, contexts and streams of an export, and what the profiler itself complained of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import polars as pl

from ingest.nsys_session import Session
from ingest.nsys_stacks import base_name
from ingest.nsys_tables import MAX_NAMES_SHOWN
from ingest.nsys_writer import RowWriter, ints
from ingest.numbers import INT32_MAX

_PID = 2**24
_MEBIBYTES_BELOW = 2**24
"""TARGET_INFO_CUDA_GPU gives the memory in MiB; no device has less than 16 MiB."""
_WARNING, _ERROR = 2, 3
_LOST = r"(?i)^not all .*events|\b(?:lost|dropped)\b"


def read_processes(session: Session, rows: RowWriter) -> None:
    """Names of those processes that have rows: the profiler lists every process of the machine."""
    names: dict[int, str] = {}
    for row in session.rows("PROCESSES", {**ints("globalPid pid"), "name": pl.String}):
        number = row["globalPid"] // _PID % _PID if row["globalPid"] is not None else row["pid"]
        if number in rows.processes and row["name"]:
            names.setdefault(number, base_name(row["name"].split(" ")[0]))
    if not names:
        for frame in session.batches("ThreadNames", ints("nameId globalTid")):
            process, thread = pl.col("globalTid") // _PID % _PID, pl.col("globalTid") % _PID
            main = frame.filter(process == thread)
            for number, name in zip(main.select(process)[:, 0], session.text(main["nameId"]), strict=True):
                if number in rows.processes and name:
                    names.setdefault(number, base_name(name))
    _write(session, "processes", [{"process_id": number, "process_name": names[number]} for number in sorted(names)])
    if len(rows.cuda_processes) == 1:
        session.sink.process_id = next(iter(rows.cuda_processes))


def read_devices(session: Session) -> None:
    """Devices as each process numbers them; those of the machine when no process is named."""
    wanted = ints("id totalMemory smCount cuDevice computeMajor computeMinor") | {"name": pl.String, "uuid": pl.String}
    gpus = {
        row["id"]: {
            "device_index": row["cuDevice"] if row["cuDevice"] is not None else row["id"],
            "name": row["name"],
            "uuid": _uuid(row["uuid"]),
            "total_bytes": row["totalMemory"],
            "compute_capability": _capability(row["computeMajor"], row["computeMinor"]),
            "multiprocessor_count": row["smCount"],
        }
        for row in session.rows("TARGET_INFO_GPU", wanted)
    }
    found: list[dict[str, Any]] = []
    wanted = ints("gpuId cudaId pid numMultiprocessors") | {"uuid": pl.String}
    for row in session.rows("TARGET_INFO_CUDA_DEVICE", wanted):
        known = gpus.get(row["gpuId"], {})
        found.append(
            known
            | {
                "process_id": row["pid"],
                "device_index": row["cudaId"],
                "uuid": _uuid(row["uuid"]) or known.get("uuid"),
                "multiprocessor_count": row["numMultiprocessors"] or known.get("multiprocessor_count"),
            }
        )
    wanted = ints("globalMemorySize numMultiprocessors computeCapabilityMajor computeCapabilityMinor deviceId pid") | {
        "name": pl.String
    }
    for row in session.rows("TARGET_INFO_CUDA_GPU", wanted):
        size = row["globalMemorySize"]
        found.append(
            {
                "process_id": row["pid"],
                "device_index": row["deviceId"],
                "name": row["name"],
                "total_bytes": size << 20 if size is not None and 0 < size < _MEBIBYTES_BELOW else size,
                "compute_capability": _capability(row["computeCapabilityMajor"], row["computeCapabilityMinor"]),
                "multiprocessor_count": row["numMultiprocessors"],
            }
        )
    _write(session, "devices", found or list(gpus.values()), "device_index")


def read_contexts(session: Session) -> None:
    """CUDA contexts and streams."""
    found = [
        {
            "process_id": row["processId"],
            "context_id": row["contextId"],
            "device_index": row["deviceId"],
            "parent_context_id": row["parentContextId"] or None,
            "stream_id": row["nullStreamId"] or row["streamId"] or None,
        }
        for table in ("TARGET_INFO_CUDA_CONTEXT_INFO", "TARGET_INFO_CUDA_NULL_STREAM")
        for row in session.rows(table, ints("nullStreamId streamId processId deviceId contextId parentContextId"))
    ]
    _write(session, "contexts", found, "device_index")
    flags = session.words("ENUM_CUPTI_STREAM_TYPE")
    streams = [
        {
            "process_id": row["processId"],
            "context_id": row["contextId"],
            "stream_id": row["streamId"],
            "priority": row["priority"],
            "stream_flag": None if row["flag"] is None else flags.get(row["flag"], "unknown"),
        }
        for row in session.rows("TARGET_INFO_CUDA_STREAM", ints("streamId processId contextId priority flag"))
    ]
    _write(session, "streams", streams)


def count_diagnostics(session: Session) -> None:
    """How often the profiler warned: its texts hold paths and command lines, and are not kept."""
    severities: Counter[int] = Counter()
    lost = 0
    for frame in session.batches("DIAGNOSTIC_EVENT", {"severity": pl.Int64, "text": pl.String}):
        severities.update(frame["severity"].drop_nulls().to_list())
        lost += frame.filter(pl.col("severity").is_in((_WARNING, _ERROR)) & pl.col("text").str.contains(_LOST)).height
    detail = "Nsight Systems' own messages; open the report in it to read them"
    session.sink.count("profiler_warnings", severities[_WARNING], detail=detail)
    session.sink.count("profiler_errors", severities[_ERROR], detail=detail)
    detail = "Nsight Systems says that not all events of a kind were collected"
    session.sink.count("profiler_lost_events", lost, severity="data_loss", detail=detail)


def count_left_out(session: Session, names: list[str]) -> None:
    """Tables that hold rows of kinds which no analysis needs, or that are not known."""
    shown = ", ".join(name[:60] for name in names[:MAX_NAMES_SHOWN])
    more = f" and {len(names) - MAX_NAMES_SHOWN} more" if len(names) > MAX_NAMES_SHOWN else ""
    session.sink.count("tables_left_out", len(names), detail=f"{shown}{more}")


def _capability(major: int | None, minor: int | None) -> str | None:
    return None if major is None or minor is None else f"{major}.{minor}"


def _uuid(text: str | None) -> str | None:
    """A UUID as NVML writes it."""
    if not text:
        return None
    return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"


def _write(session: Session, table: str, rows: Iterable[dict[str, Any]], small: str | None = None) -> None:
    """Write distinct rows; those with a number beyond what a device can have are counted."""
    distinct: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        if small and row.get(small) is not None and not 0 <= row[small] <= INT32_MAX:
            session.sink.count("impossible_values", severity="data_loss", detail=f"{table}.{small}")
            continue
        distinct.setdefault(tuple(sorted(row.items(), key=str)), row)
    if distinct:
        listed = list(distinct.values())
        names = list(dict.fromkeys(name for row in listed for name in row))
        session.sink.write(table, {name: [row.get(name) for row in listed] for name in names})
