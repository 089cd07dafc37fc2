"""Rows of comma-separated captures, line by line: one damaged line costs one row, not the rest of the file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from ingest.errors import BadInput
from ingest.sink import Sink
from ingest.textlines import TextLines, head_lines

DELIMITERS = ",;\t"


def split_line(line: str, delimiter: str) -> list[str]:
    """Fields of one line, quotes resolved. Raises ValueError when a quote is left open or broken."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise ValueError(str(error)) from error


def header_of(line: str, required: Iterable[str]) -> tuple[str, list[str]] | None:
    """Delimiter and column names (lower case) of a header line that has all `required`, else None."""
    for delimiter in DELIMITERS:
        try:
            names = [name.strip().lower() for name in split_line(line, delimiter)]
        except ValueError:
            continue
        if set(required) <= set(names):
            return delimiter, names
    return None


def has_header(head: bytes, required: Iterable[str]) -> bool:
    """Whether the first line that is neither blank nor a comment is a header with all `required` columns."""
    first = next((line for line in head_lines(head) if not line.startswith("#")), "")
    return header_of(first, required) is not None


class CsvRows:
    """Iterates `(line number, fields)` below a header that has all `required` columns.

    `columns` are the header's names; fields always come in that order and number, also after a second
    header in another order (two files joined). Comment lines (#) and blank lines are passed over.
    Raises BadInput when there is no such header.
    """

    def __init__(self, lines: TextLines, sink: Sink, path: Path, required: tuple[str, ...]) -> None:
        self._lines, self._sink, self._required = lines, sink, required
        self._content = ((number, line) for number, line in lines if line.strip() and not line.startswith("#"))
        _, line = next(self._content, (0, ""))
        header = header_of(line, required)
        if header is None:
            todo = f"the first line must name the columns {', '.join(required)}"
            raise BadInput("no header of this format", where=str(path), todo=todo)
        self._delimiter, names = header
        self.columns: list[str] = []
        for name in names:
            if name in self.columns:
                sink.count("duplicate_columns", severity="data_loss", detail=f"{name}: the first one is used")
                name = f"{name}.{len(self.columns)}"
            self.columns.append(name)

    def position(self, name: str) -> int | None:
        """Where column `name` stands, None when the file has none."""
        return self.columns.index(name) if name in self.columns else None

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        width, order = len(self.columns), list(range(len(self.columns)))
        last_length = 0
        for number, line in self._content:
            try:
                fields = split_line(line, self._delimiter)
            except ValueError as error:
                self._damaged(f"{error}, first at line {number}")
                continue
            if fields[0].strip().lower() in self._required and (again := header_of(line, self._required)):
                self._sink.count("repeated_headers", detail=f"first at line {number}")
                self._delimiter, names = again
                width = len(names)
                order = [names.index(name) if name in names else -1 for name in self.columns]
                if missing := [name for name in names if name not in self.columns]:
                    detail = f"only in the header at line {number}: {', '.join(missing)[:200]}"
                    self._sink.count("unread_columns", severity="data_loss", detail=detail)
                continue
            if len(fields) != width and (len(fields) < width or any(extra.strip() for extra in fields[width:])):
                self._damaged(f"{len(fields)} fields of {width}, first at line {number}")
                continue
            if self._lines.is_cut and len(fields[width - 1]) < last_length:
                # No line end and a shorter last field than above: its last digits may be missing.
                detail = f"line {number} has no line end"
                self._sink.count("cut_last_line", severity="data_loss", detail=detail)
                continue
            last_length = len(fields[width - 1])
            yield number, [fields[place] if place >= 0 else "" for place in order]

    def _damaged(self, detail: str) -> None:
        self._sink.count("damaged_rows", severity="data_loss", detail=detail)
