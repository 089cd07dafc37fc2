"""Capture files that are folders: a table a file, one export together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ingest.registry import importers


def members(folder: Path) -> list[Path]:
    """Files of a folder that are one capture file together; none when it is an ordinary folder."""
    for importer in importers():
        if importer.members is not None and (found := importer.members(folder)):
            return found
    return []


def grouped(files: Iterable[Path]) -> list[Path]:
    """`files` in their order, those that are one capture file together replaced by their folder."""
    listed = list(files)
    folder_of: dict[Path, Path] = {}
    for folder in dict.fromkeys(file.parent for file in listed):
        together = members(folder)
        if together and set(together) <= set(listed):
            folder_of |= dict.fromkeys(together, folder)
    return list(dict.fromkeys(folder_of.get(file, file) for file in listed))


def parts(path: Path) -> Sequence[Path]:
    """The files whose bytes a capture file is made of: itself, or a folder's members."""
    return members(path) if path.is_dir() else [path]
