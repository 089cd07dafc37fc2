"""Which captures a command was given: their files, their names, and whether OUT can take the result."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import BadInput, OutputError
from schemas.capture import NAME as NOTES

STATE = ".leakpath"
MAX_FILES = 20_000
_RESERVED = ("leakpath.duckdb", "index.html")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Capture:
    """One capture: `root` is its folder, or the file itself when it is a single file; both resolved.

    `files` holds the notes in capture.yaml too: they change the result like any other file.
    """

    name: str
    root: Path
    files: tuple[Path, ...]

    @property
    def recordings(self) -> tuple[Path, ...]:
        """The files that something recorded: all but the notes."""
        return tuple(file for file in self.files if file.name != NOTES)


def capture_files(root: Path) -> tuple[Path, ...]:
    """All regular files of a capture folder, sorted, hidden ones left out; the file itself for a file.

    Folders are not entered through links, and pipes, sockets and devices are left alone: reading one could
    block for ever. Raises BadInput for a missing path, an empty folder, or more than 20,000 files.
    """
    try:
        mode = root.stat().st_mode
    except OSError as error:
        raise BadInput(error.strerror or "can't be read", where=str(root), todo="check the path") from error
    if stat.S_ISREG(mode):
        return (root,)
    if not stat.S_ISDIR(mode):
        raise BadInput("neither a file nor a folder", where=str(root), todo="give a folder of capture files")
    found: list[Path] = []
    for folder, subfolders, names in os.walk(root, onerror=_refuse):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        found += [path for name in names if not name.startswith(".") and (path := Path(folder, name)).is_file()]
        if len(found) > MAX_FILES:
            raise BadInput(f"more than {MAX_FILES} files", where=str(root), todo="give the folder of one run")
    if all(path.name == NOTES for path in found):
        raise BadInput("no files in it", where=str(root), todo="give a folder that holds capture files")
    return tuple(sorted(found))


def _refuse(error: OSError) -> None:
    raise BadInput(error.strerror or "can't be read", where=str(error.filename), todo="check its permissions")


def safe_name(text: str) -> str:
    """`text` as a folder name that needs no quoting anywhere; never empty, hidden or an option."""
    return _UNSAFE.sub("_", text).strip("_.-")[:100].rstrip("_.-") or "capture"


def name_captures(roots: Sequence[Path], known: Mapping[str, Path]) -> dict[Path, str]:
    """A distinct name a root, the same one in every later run with the same OUT.

    `known` are names given earlier. A name is the root's own one; when another root has it, the parent
    folders' names go before it, and a digest of the path last. A known root that is gone gives its name back.
    """
    names = {root: name for name, root in known.items()}
    taken = {name.lower(): root for name, root in known.items() if root.exists()}
    taken |= dict.fromkeys(_RESERVED, Path())
    for root in roots:
        if names.get(root) is not None and taken.get(names[root].lower()) == root:
            continue
        parts = [part for part in root.parts if part != root.anchor] or ["root"]
        candidates = [safe_name("_".join(parts[-depth:])) for depth in range(1, min(4, len(parts) + 1))]
        candidates.append(f"{candidates[0][:80]}_{hashlib.blake2b(os.fsencode(root), digest_size=4).hexdigest()}")
        names[root] = next(name for name in candidates if taken.get(name.lower(), root) == root)
        taken[names[root].lower()] = root
    return {root: names[root] for root in roots}


def find_captures(paths: Sequence[Path], known: Mapping[str, Path]) -> list[Capture]:
    """The captures at `paths`, each path once, named. Raises BadInput for the first that can't be used."""
    listed = {path: capture_files(path) for path in paths}
    roots = {path: path.resolve() for path in listed}
    names = name_captures(list(dict.fromkeys(roots.values())), known)
    captures: dict[Path, Capture] = {}
    for path, files in listed.items():
        root = roots[path]
        captures.setdefault(root, Capture(names[root], root, _resolved(path, files)))
    return list(captures.values())


def prepare_out(out: Path, captures: Sequence[Capture]) -> Path:
    """Create OUT and its state folder, and give OUT resolved.

    Raises OutputError when OUT is a file, can't be written, or lies where it would mix with a capture.
    """
    resolved = out.resolve()
    for capture in captures:
        target = resolved / capture.name
        inside = capture.root.is_dir() and resolved.is_relative_to(capture.root)
        if inside or target == capture.root or capture.root.is_relative_to(target):
            raise OutputError(
                f"would write into the capture {capture.root}", where=str(out), todo="choose another --out"
            )
    try:
        (resolved / STATE).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=resolved / STATE):
            pass
    except OSError as error:
        reason = "not a folder" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        raise OutputError(
            reason or "can't be written", where=str(out), todo="choose a folder you can write to with --out"
        ) from error
    return resolved


def one_capture(paths: Sequence[Path], name: str | None) -> Capture:
    """A capture of all `paths` together: one folder, or files that share a root. Raises BadInput."""
    files = [file for path in paths for file in _resolved(path, capture_files(path))]
    root = paths[0].resolve() if len(paths) == 1 else Path(os.path.commonpath([file.parent for file in files]))
    return Capture(safe_name(name or root.name), root, tuple(dict.fromkeys(files)))


def _resolved(path: Path, files: Sequence[Path]) -> tuple[Path, ...]:
    """The files below the resolved root; links inside a folder keep their name."""
    root = path.resolve()
    return tuple(root if file == path else root / file.relative_to(path) for file in files)
