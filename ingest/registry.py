"""The one list of importers, and the choice among them by a file's first bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from ingest.clocks import Clock
from ingest.sink import Sink


@dataclass(frozen=True, slots=True)
class Importer:
    """One capture format.

    `sniff(head, path)` looks at the first unpacked bytes (up to 64 KiB) and says whether the file is of
    this format, whatever its version; `path` is for formats that are folders, never for the file's name.
    `read(path, sink)` reads the file into the sink. It raises BadInput when nothing can be read, and counts
    damage with `sink.count` while it reads the rest. Lower `priority` is asked first; priorities are unique.
    `members(folder)` is for formats that are folders: the files that are one capture file together, none for others.
    `recipe` is a command that makes such a file, `left_out` what the file may hold and no table has.
    """

    name: str
    priority: int
    title: str
    source: str
    clock: Clock
    versions: str
    produced_by: str
    recipe: str
    left_out: str
    reference: str
    tables: tuple[str, ...]
    sniff: Callable[[bytes, Path], bool]
    read: Callable[[Path, Sink], None]
    members: Callable[[Path], list[Path]] | None = None


_MODULES = (
    "torch_snapshot",
    "nsys_sqlite",
    "nsys_folder",
    "nsys_report",
    "nsys_csv",
    "cupti",
    "bpftrace_cuda",
    "perf_script",
    "perf_data",
    "slab_table",
    "memleak",
    "stackcount",
    "slabratetop",
    "oomkill",
    "ftrace",
    "bpftrace_maps",
    "kineto",
    "chrome_trace",
    "nvml_csv",
    "nvidia_smi_dmon",
    "nvidia_smi_query",
    "nvidia_smi_table",
    "dcgm",
    "host_samples",
    "request_log",
    "request_csv",
    "access_log",
    "otlp",
    "kv_events",
    "tokens_csv",
    "prometheus_scrape",
    "metrics_csv",
    "ncu_csv",
    "ncu_report",
    "cupti_text",
    "cupti_table",
    "collapsed",
)


def importers() -> tuple[Importer, ...]:
    """All importers, by priority. Raises ValueError when two share a name or a priority."""
    found = sorted((import_module(f"ingest.{module}").IMPORTER for module in _MODULES), key=lambda i: i.priority)
    for attribute in ("name", "priority"):
        values = [getattr(importer, attribute) for importer in found]
        if len(set(values)) != len(values):
            raise ValueError(f"two importers share a {attribute}: {values}")
    return tuple(found)


def importer_named(name: str) -> Importer:
    """The importer of that name. Raises KeyError when there is none."""
    return {importer.name: importer for importer in importers()}[name]


def importer_for(head: bytes, path: Path) -> Importer | None:
    """The first importer, by priority, that recognises the bytes; None when none does."""
    return next((importer for importer in importers() if importer.sniff(head, path)), None)
