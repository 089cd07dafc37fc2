"""The list of tables of a SQLite file that was cut: what is left of it, in a copy that SQLite opens.

Page 1 is the root of the schema's b-tree (https://www.sqlite.org/fileformat2.html): where it is an interior page, it
names the pages that hold the tables' definitions; the last tables' ones lie near the end of the file. SQLite refuses
the whole file when one of them is missing; the copy's page 1 names those that are there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

HEADER, INTERIOR, LEAF = 100, 5, 13
_CELLS = HEADER + 12
_MAX_PAGE = 65536


def page_size(head: bytes) -> int:
    """Size of the file's pages, 0 for one that can't be."""
    size = int.from_bytes(head[16:18], "big")
    size = _MAX_PAGE if size == 1 else size
    return size if size >= 512 and size & (size - 1) == 0 else 0


def schema_pages(head: bytes) -> list[tuple[int, int]]:
    """Pages that an interior page 1 names, in order, each with the place of its cell (0 for the last one)."""
    size = page_size(head)
    if len(head) < max(size, _CELLS) or not size or head[HEADER] != INTERIOR:
        return []
    count = int.from_bytes(head[HEADER + 3 : HEADER + 5], "big")
    places = [int.from_bytes(head[at : at + 2], "big") for at in range(_CELLS, min(_CELLS + 2 * count, size - 1), 2)]
    children = [(int.from_bytes(head[place : place + 4], "big"), place) for place in places if place + 4 <= size]
    return [*children, (int.from_bytes(head[HEADER + 8 : HEADER + 12], "big"), 0)]


def repaired(path: Path, folder: Path) -> Path | None:
    """A copy in `folder` whose list of tables is what is left of it; None where there is nothing to repair."""
    with path.open("rb") as file:
        head = bytearray(file.read(_MAX_PAGE))
        size = page_size(bytes(head))
        found = schema_pages(bytes(head))
        kept = list(_there(file, found, size))
    if not kept or len(kept) == len(found):
        return None
    for number, (_, place) in enumerate(kept[:-1]):
        head[_CELLS + 2 * number : _CELLS + 2 * number + 2] = place.to_bytes(2, "big")
    head[HEADER + 3 : HEADER + 5] = (len(kept) - 1).to_bytes(2, "big")
    head[HEADER + 8 : HEADER + 12] = kept[-1][0].to_bytes(4, "big")
    copy = folder / "repaired.sqlite"
    shutil.copyfile(path, copy)
    with copy.open("r+b") as file:
        file.write(head[:size])
    return copy


def _there(file: BinaryIO, pages: list[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Those of the pages that the file still has."""
    for page, place in pages:
        file.seek(max(page - 1, 0) * size)
        data = file.read(size)
        if page > 1 and len(data) == size and data[0] in (INTERIOR, LEAF):
            yield page, place
