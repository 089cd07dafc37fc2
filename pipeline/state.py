"""What `leakpath run` keeps in OUT/.leakpath: names of captures, states of their files, the run's configuration."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import orjson

from ingest.atomic import write_atomic
from pipeline.fingerprints import FileState, code_digests, digest_of, file_states
from pipeline.inputs import STATE, Capture
from schemas.config import Config
from schemas.tables import TABLES

RUN_CONFIG = f"{STATE}/run.json"
SETTINGS = f"{STATE}/settings.json"

_INGESTED = [name for name, table in TABLES.items() if table.layer == "raw" or name == "clock_alignments"]
STAGE_TABLES = {
    "ingest": [name for name in _INGESTED if name != "diagnostics"],
    "analyze": ["diagnostics", *(name for name in TABLES if name not in _INGESTED)],
}
"""Tables each stage declares; together all of them. Both count in `diagnostics`, so the later one declares it."""

INGEST_DIAGNOSTICS = ".ingest/diagnostics.parquet"
"""Below a capture's output folder: `diagnostics` as ingest wrote it, what the analysis starts from each time."""


def stage_outputs() -> dict[str, list[str]]:
    """Files each stage writes into a capture's output folder."""
    files = {stage: [f"tables/{name}.parquet" for name in names] for stage, names in STAGE_TABLES.items()}
    files["ingest"].append(INGEST_DIAGNOSTICS)
    return files


def _write_json(path: Path, data: Any) -> None:
    """Write plain data, and leave the file alone when it says so already."""
    text = orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    with contextlib.suppress(OSError):
        if path.read_bytes() == text:
            return
    write_atomic(path, text)


def _text(path: Path | str) -> str:
    """A path as text that JSON can hold: names of files are bytes of any kind."""
    return quote(os.fsencode(path), safe="/ ")


def _path(text: str) -> Path:
    return Path(os.fsdecode(unquote_to_bytes(text)))


def _known(out: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((out / STATE / "captures").glob("*.json")):
        # A state that can't be read is as good as none: names and digests are made anew.
        with contextlib.suppress(OSError, ValueError):
            data = orjson.loads(path.read_bytes())
            if isinstance(data, dict) and isinstance(data.get("root"), str):
                found[path.stem] = data
    return found


def known_names(out: Path) -> dict[str, Path]:
    """Captures that earlier runs wrote to OUT: name to root."""
    return {name: _path(data["root"]) for name, data in _known(out).items()}


def _states(data: Mapping[str, Any] | None) -> dict[Path, FileState]:
    try:
        return {_path(text): FileState(*state) for text, state in (data or {}).get("files", {}).items()}
    except (TypeError, AttributeError):
        return {}


def _link(out: Path, capture: Capture) -> str:
    """Make the capture reachable by a path below OUT, so that every path of the workflow is relative to it."""
    link = out / STATE / "inputs" / capture.name
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink() or link.readlink() != capture.root:
        partial = link.with_name(f".{link.name}.{os.getpid()}.partial")
        partial.unlink(missing_ok=True)
        partial.symlink_to(capture.root)
        partial.replace(link)
    return link.relative_to(out).as_posix()


def write_state(out: Path, captures: Sequence[Capture], config: Config) -> None:
    """Write what the workflow needs to know. Raises BadInput, OutputError."""
    known = _known(out)
    entries: dict[str, Any] = {}
    for capture in captures:
        states = file_states(capture.files, _states(known.get(capture.name)))
        _write_json(
            out / STATE / "captures" / f"{capture.name}.json",
            {"root": _text(capture.root), "files": {_text(path): list(state) for path, state in states.items()}},
        )
        link = _link(out, capture)
        below = {path: "" if path == capture.root else path.relative_to(capture.root).as_posix() for path in states}
        entries[capture.name] = {
            "files": [f"{link}/{below[path]}".rstrip("/") for path in states if below[path].isprintable()],
            "digest": digest_of([[_text(below[path] or path.name), state.digest] for path, state in states.items()]),
        }
    settings = config.to_dict()
    _write_json(out / SETTINGS, settings)
    _write_json(
        out / RUN_CONFIG,
        {
            "captures": entries,
            "outputs": stage_outputs(),
            "code": code_digests(),
            "settings": digest_of(settings),
            "ingest_settings": digest_of(settings["ingest"]),
        },
    )
