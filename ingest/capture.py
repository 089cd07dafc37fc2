"""Reads the files of one capture into parts, one file at a time, and says what became of each."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.callpaths import clean_text
from ingest.capture_yaml import NAME, CaptureNotes, read_capture_yaml
from ingest.digests import parts_digest
from ingest.errors import BadInput, OutputError
from ingest.folders import grouped
from ingest.folders import parts as parts_of
from ingest.opening import read_head
from ingest.registry import importer_for, importer_named
from ingest.request_columns import RequestColumns, check_columns
from ingest.sink import Sink
from ingest.writer import ParquetFile, to_arrow
from schemas.tables import TABLES

_RANK = re.compile(r"(?:^|[/_.-])rank[_-]?(\d{1,6})(?=$|[/_.-])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one capture file (a row of `capture_files`)."""

    file_id: int
    path: str
    format: str | None
    format_version: str | None
    size_bytes: int
    digest: str
    clock: str | None
    rank: int | None
    host: str | None
    process_id: int | None
    read_state: str
    row_count: int
    message: str | None


def capture_files(root: Path) -> list[Path]:
    """Files of a capture folder in a stable order: hidden ones and capture.yaml left out.

    Raises BadInput when the folder is missing or holds none.
    """
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise BadInput("no such file or folder", where=str(root), todo="pass a capture folder or a capture file")
    files = sorted(
        path
        for path in root.rglob("*")
        if path.is_file() and path.name != NAME and not any(p.startswith(".") for p in path.relative_to(root).parts)
    )
    if not files:
        raise BadInput("the folder holds no files", where=str(root), todo="put the capture's files into it")
    return files


def _without_place(error: BadInput) -> str:
    """What happened and what to do; the row names the file."""
    return f"{error.what}; {error.todo}" if error.todo else error.what


def _read_one(
    path: Path, relative: str, file_id: int, parts: Path, facts: dict[str, Any], recordings: dict[str, str]
) -> FileResult:
    try:
        together = parts_of(path)
        size, digest = sum(part.stat().st_size for part in together), parts_digest(together)
    except OSError as error:
        return FileResult(
            file_id,
            relative,
            None,
            None,
            0,
            "",
            None,
            None,
            None,
            None,
            "refused",
            0,
            f"{error.strerror or error}; check the path and its permissions",
        )
    rank_in_path = _RANK.search(relative)
    rank = facts.get("rank") if facts.get("rank") is not None else (int(rank_in_path[1]) if rank_in_path else None)

    def result(state: str, message: str | None, sink: Sink | None = None, name: str | None = None) -> FileResult:
        host = facts.get("host") or (sink.host if sink else None)
        own_rank = sink.rank if sink and rank is None else rank
        return FileResult(
            file_id,
            relative,
            name,
            sink.format_version if sink else None,
            size,
            digest,
            sink.clock if sink else None,
            own_rank,
            None if host is None else clean_text(host),
            facts.get("process_id") or (sink.process_id if sink else None),
            state,
            sink.rows() if sink else 0,
            message,
        )

    if not size:
        return result("refused", "the file is empty; record it again or remove it")
    try:
        head = b"" if path.is_dir() else read_head(path)
    except BadInput as error:
        return result("refused", _without_place(error))
    columns = facts.get("request_columns") or {}
    mapped = RequestColumns(columns).importer_of(head)
    importer = importer_named(mapped) if mapped else importer_for(head, path)
    if importer is None:
        if not head:
            return result("refused", "its packing is damaged or ends early, nothing unpacks; copy it again")
        return result("unknown_format", "no importer recognises it; `leakpath formats` lists those there are")
    sink = Sink(parts, file_id, importer.source, clock=importer.clock)
    sink.request_columns = columns
    try:
        importer.read(path, sink)
        if sink.recording and (first := recordings.setdefault(sink.recording, relative)) != relative:
            raise BadInput(f"the same recording as {first}, which is read in its place")
        if facts.get("clock"):
            sink.clock = facts["clock"]
        sink.close()
    except BadInput as error:
        sink.discard()
        return result("refused", _without_place(error), None, importer.name)
    except BaseException:
        sink.discard()
        raise
    lost = any(severity != "info" for _, severity in sink.counts)
    return result("partial" if lost else "read", None, sink, importer.name)


def read_capture(
    files: Sequence[Path],
    root: Path,
    parts: Path,
    progress: Callable[[str], None] = lambda line: None,
    request_columns: Mapping[str, str] | None = None,
) -> tuple[list[FileResult], CaptureNotes]:
    """Read capture files into `parts/<table>/<file_id>.parquet` and write `parts/capture_files/`.

    `root` is the folder that relative paths are counted from (or the one file). Files are numbered in the order
    of their relative paths. `request_columns` maps the keys of request logs where capture.yaml
    does not. Raises BadInput when no file could be read, OutputError when parts can't be written.
    """
    base = root if root.is_dir() else root.parent
    notes = read_capture_yaml(base) if root.is_dir() else CaptureNotes()
    try:
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir(parents=True)
    except OSError as error:
        raise OutputError(error.strerror or str(error), where=str(parts), todo="choose another --out") from error
    named = sorted(
        (path.relative_to(base).as_posix() if path.is_relative_to(base) and path != base else path.name, path)
        for path in grouped(files)
    )
    results = []
    recordings: dict[str, str] = {}
    for file_id, (relative, path) in enumerate(named):
        facts = {"request_columns": request_columns} | notes.of(relative)
        if facts["request_columns"]:
            check_columns(facts["request_columns"], f"{root}, {relative}")
        if facts.get("ignore"):
            continue
        progress(f"reading {relative}")
        results.append(_read_one(path, clean_text(relative), file_id, parts, facts, recordings))
    if not any(result.row_count for result in results):
        shown = "; ".join(f"{r.path}: {r.message or 'holds no rows'}" for r in results[:3])
        more = f" (and {len(results) - 3} more files)" if len(results) > 3 else ""
        raise BadInput(f"nothing in it could be read ({shown}{more})", where=str(root), todo="see `leakpath formats`")
    table = TABLES["capture_files"]
    file = ParquetFile(table, parts / "capture_files" / "00000.parquet")
    file.write(to_arrow(table, {name: [getattr(r, name) for r in results] for name in table.columns}))
    file.close()
    said = notes.rows()
    if said["fact"]:
        file = ParquetFile(TABLES["capture_notes"], parts / "capture_notes" / "00000.parquet")
        file.write(to_arrow(TABLES["capture_notes"], said))
        file.close()
    return results, notes
