"""From an Nsight Systems export, whatever holds its tables, to rows.

Only what analyses need is asked for: never the environment, the command line, the program's output or the list of
processes beyond the names of those that have rows.
"""

from __future__ import annotations

from ingest.errors import BadInput
from ingest.nsys_identities import count_diagnostics, count_left_out, read_contexts, read_devices, read_processes
from ingest.nsys_memory import read_memory_events
from ingest.nsys_metrics import read_metrics
from ingest.nsys_ranges import read_ranges
from ingest.nsys_rows import read_api_calls, read_gpu_ops, read_os_calls, read_overheads, read_syncs
from ingest.nsys_session import Session
from ingest.nsys_stacks import read_samples, read_scheduling
from ingest.nsys_tables import Export, left_out
from ingest.nsys_writer import RowWriter
from ingest.sink import Sink

VERSIONS = "Nsight Systems 2020.3 to 2026.2 (schemas without a version, 2.x and 3.x)"
REFERENCE = "https://docs.nvidia.com/nsight-systems/UserGuide/index.html"
LEFT_OUT = (
    "the environment, command lines, output and the list of processes are never read; folders of modules; numbers of"
    " faults of a page; tables of MPI, OpenACC, OpenMP, graphics, context switches, perf and generic events are"
    " counted by name"
)
TABLES = (
    "processes",
    "devices",
    "contexts",
    "streams",
    "memory_events",
    "api_calls",
    "gpu_ops",
    "sync_events",
    "overheads",
    "ranges",
    "stack_samples",
    "metrics",
)


def read_export(export: Export, sink: Sink) -> None:
    """Read all tables that are needed. Raises BadInput when the export has none of them."""
    if not export.tables():
        raise BadInput("an export without tables", todo="export it again with `nsys export`")
    session, rows = Session(export, sink), RowWriter(sink)
    paths = read_api_calls(session, rows)
    read_memory_events(session, rows, paths)
    read_gpu_ops(session, rows)
    read_syncs(session, rows)
    read_ranges(session, rows)
    read_overheads(session, rows)
    read_os_calls(session, rows)
    read_samples(session, rows)
    read_scheduling(session, rows)
    read_metrics(session, rows)
    read_processes(session, rows)
    read_devices(session)
    read_contexts(session)
    count_diagnostics(session)
    count_left_out(session, left_out(export, session.read))
