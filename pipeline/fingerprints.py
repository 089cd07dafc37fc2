"""Digests that decide what a run must do again: of capture files, of settings, and of leakpath itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ingest.digests import file_digest
from ingest.errors import BadInput

_PACKAGES = Path(__file__).resolve().parent.parent
_SOURCES = {".py", ".sql", ".smk", ".html", ".j2", ".css", ".js", ".yaml", ".json", ".svg", ""}
_DATA = ("ingest", "schemas", "pipeline")
_NOT_ANALYSIS = ("ingest/collect/", "pipeline/profiles/")


class FileState(NamedTuple):
    """What is known of one capture file; size and time decide whether its digest must be read again."""

    size_bytes: int
    mtime_ns: int
    digest: str


def _blake2b(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _file_digest(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError as error:
        raise BadInput(
            error.strerror or "can't be read", where=str(path), todo="check the path and its permissions"
        ) from error


def file_states(files: Iterable[Path], known: Mapping[Path, FileState]) -> dict[Path, FileState]:
    """State of each file; the content is read only where size or modification time differ from `known`."""
    found = {path: path.stat() for path in files}
    same = {
        path: state
        for path, now in found.items()
        if (state := known.get(path)) and (state.size_bytes, state.mtime_ns) == (now.st_size, now.st_mtime_ns)
    }
    changed = [path for path in found if path not in same]
    # Hashing large files releases the interpreter lock, so two threads read twice as fast.
    with ThreadPoolExecutor(max_workers=2) as pool:
        digests = dict(zip(changed, pool.map(_file_digest, changed), strict=True))
    return {
        path: same.get(path) or FileState(now.st_size, now.st_mtime_ns, digests[path]) for path, now in found.items()
    }


def digest_of(data: Any) -> str:
    """Digest of plain data, whatever the order of its keys."""
    return _blake2b(orjson.dumps(data, option=orjson.OPT_SORT_KEYS))


def _sources(packages: Iterable[str]) -> list[Path]:
    files = [
        path
        for package in packages
        for path in (_PACKAGES / package).rglob("*")
        if path.suffix in _SOURCES and "__pycache__" not in path.parts and path.is_file()
    ]
    return sorted(path for path in files if not path.relative_to(_PACKAGES).as_posix().startswith(_NOT_ANALYSIS))


def code_digests() -> dict[str, str]:
    """Digests of leakpath's own sources: `data` of what makes the tables, `report` of the reports as well."""
    contents = {
        path.relative_to(_PACKAGES).as_posix(): _blake2b(path.read_bytes()) for path in _sources((*_DATA, "reports"))
    }
    data = {name: digest for name, digest in contents.items() if not name.startswith("reports/")}
    return {"data": digest_of(data), "report": digest_of(contents)}
