"""Importer of Nsight Systems' own reports, `.nsys-rep` and `.qdrep`, through the user's own `nsys export`.

The format is not documented; https://docs.nvidia.com/nsight-systems/UserGuide/index.html (Exporting) is the way out of
it that its maker keeps.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from ingest import nsys_sqlite
from ingest.errors import BadInput
from ingest.external_tools import run_tool
from ingest.nsys_export import LEFT_OUT, REFERENCE, TABLES
from ingest.opening import DAMAGED_STREAM, open_bytes, read_head
from ingest.registry import Importer
from ingest.sink import Sink

_REPORT = b"NVIDIA Tegra Profiler Report "
_STREAM = b"[END]NVIDIA Nsight Systems Stream "
_STREAM_AT = 64
_ARROW, _HDF5, _JSON = b"\xff\xff\xff\xff", b"\x89HDF\r\n", b'{"data":["'
TODO = "run `nsys export --type sqlite --output report.sqlite REPORT` where Nsight Systems is, and pass report.sqlite"
EXPORT_TODO = "run `nsys export --type sqlite REPORT` (or parquetdir, arrowdir), and pass what it writes"
STREAM_TODO = "run `QdstrmImporter -i STREAM -o report.nsys-rep` of Nsight Systems' host package, then `nsys export`"


def sniff(head: bytes, path: Path) -> bool:
    """The line that every report begins with; or what is of Nsight Systems and refused with what to do instead."""
    return head.startswith(_REPORT) or _refusal(head) is not None


def _refusal(head: bytes) -> tuple[str, str] | None:
    """What the file is, and what to do, for recordings and exports of other kinds."""
    if _STREAM in head[: _STREAM_AT + len(_STREAM)]:
        return "a recording that was not made a report yet", STREAM_TODO
    is_one_file = b"StringIds" in head and (b"table_name" in head or b"META_DATA_EXPORT" in head)
    if head.startswith(_JSON) and b'"[NSys]"' in head:
        return "an Nsight Systems export as JSON", EXPORT_TODO
    if head.startswith((_ARROW, _HDF5)) and is_one_file:
        return "an Nsight Systems export as one Arrow or HDF5 file", EXPORT_TODO
    return None


def read(path: Path, sink: Sink) -> None:
    """Convert the report and read the export.

    Raises BadInput with the command to run where `nsys` is not on the path or can't convert it.
    """
    if refused := _refusal(read_head(path)):
        raise BadInput(refused[0], where=str(path), todo=refused[1])
    with nsys_sqlite.scratch(sink) as folder:
        report, export = Path(folder).resolve() / "report.nsys-rep", Path(folder).resolve() / "report.sqlite"
        with open_bytes(path) as stream, report.open("wb") as copy:
            try:
                shutil.copyfileobj(stream, copy, 1 << 20)
            except DAMAGED_STREAM:
                sink.count("truncated_stream", severity="data_loss", detail="the packed file is damaged or ends early")
        options = ("--type", "sqlite", "--quiet", "true", "--force-overwrite", "true")
        run_tool(["nsys", "export", *options, "--output", str(export), str(report)], capture=path, todo=TODO)
        if not export.is_file() or not nsys_sqlite.sniff(read_head(export), export):
            raise BadInput("`nsys export` wrote no export of it", where=str(path), todo=TODO)
        nsys_sqlite.read(export, sink)


IMPORTER = Importer(
    name="nsys_report",
    priority=13,
    title="Nsight Systems report (through `nsys`)",
    source="nsys",
    clock="realtime",
    versions="every report that the `nsys` on the path can export; without it the message says the command to run",
    produced_by="`nsys profile`",
    recipe="nsys profile --cuda-memory-usage=true -o report APP",
    left_out=f"{LEFT_OUT}; .qdstrm recordings, exports as JSON, HDF5 or one Arrow file are refused, with what to run",
    reference=REFERENCE,
    tables=TABLES,
    sniff=sniff,
    read=read,
)
