"""Traces of other programs in Chrome's Trace Event Format.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU; `samples` and `stackFrames` as V8 and
Hermes write them.
"""

from __future__ import annotations

from pathlib import Path

from ingest.kineto import read_trace
from ingest.kineto_sniff import is_kineto, is_trace
from ingest.registry import Importer
from ingest.sink import Sink


def sniff(head: bytes, path: Path) -> bool:
    """A trace without any of Kineto's keys and categories."""
    return is_trace(head) and not is_kineto(head)


def read(path: Path, sink: Sink) -> None:
    """Read a trace; damage is counted event by event. Raises BadInput when it holds no events."""
    read_trace(path, sink, is_kineto=False)


IMPORTER = Importer(
    name="chrome_trace",
    priority=22,
    title="Chrome trace of another program (Trace Event Format)",
    source="chrome_trace",
    clock="unknown",
    versions="object and array form, JSON",
    produced_by="Chrome, V8, Hermes, Perfetto's and many programs' JSON export",
    recipe="chrome://tracing, Save; perfetto traceconv json",
    left_out="flow arrows, object and memory-dump events, clock-sync marks",
    reference="https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU",
    tables=(
        "ranges",
        "metrics",
        "memory_events",
        "gpu_ops",
        "api_calls",
        "sync_events",
        "external_correlations",
        "overheads",
        "devices",
        "processes",
        "stack_samples",
        "frames",
        "call_paths",
    ),
    sniff=sniff,
    read=read,
)
