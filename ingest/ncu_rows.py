"""Rows of Nsight Compute's CSV pages among whatever else was printed: the tool's progress, the program's own output."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from ingest.sink import Sink
from ingest.textlines import TextLines

_JOINED_LINES, _JOINED_CHARACTERS = 50, 64 * 1024


def fields_of(line: str, delimiter: str = ",") -> list[str] | None:
    """The line's fields; None when a quote is left open or broken."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True), [])
    except csv.Error:
        return None


def delimiter_of(line: str) -> str | None:
    """Delimiter of a header line of either page, None for another line. Long headers may be cut."""
    if line[:5].strip(' "\ufeff')[:2].upper() != "ID":
        return None
    for delimiter in ",;\t":
        names = {name.strip(' "').lower() for name in line[:400].split(delimiter)}
        if {"id", "kernel name"} <= names and names & {"process id", "context"}:
            return delimiter
    return None


class Rows:
    """`(line number, fields)` below each header; `columns` are the names of the header above."""

    def __init__(self, lines: TextLines, sink: Sink) -> None:
        self._lines, self._sink = lines, sink
        self.columns: list[str] = []
        self.headers = 0

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        delimiter = ","
        held: tuple[int, list[str]] | None = None
        for number, line in self._lines:
            if found := delimiter_of(line):
                delimiter, names = found, fields_of(line, found)
                if names is None:
                    self._damaged(f"a header, at line {number}")
                    continue
                self.columns = [name.strip() for name in names]
                self.headers += 1
                held = None
                continue
            if not self.columns or (held is None and not line.startswith(('"', "0", *"123456789"))):
                if line.strip():
                    self._sink.count("other_output_lines", detail=f"first at line {number}")
                continue
            if held is not None and re.match(r'"\d+"' + delimiter, line):
                self._damaged(f"a quote left open, first at line {held[0]}")
                held = None
            first, parts = held or (number, [])
            parts = [*parts, line]
            fields = fields_of("\n".join(parts), delimiter)
            if fields is None and len(parts) < _JOINED_LINES and sum(map(len, parts)) < _JOINED_CHARACTERS:
                held = (first, parts)  # a description of several lines, or damage
                continue
            held = None
            if fields is None:
                self._damaged(f"a quote left open, first at line {first}")
            elif self._lines.is_cut and len(fields) < len(self.columns):
                self._sink.count("cut_last_line", severity="data_loss", detail=f"line {number} has no line end")
                return
            else:
                yield first, fields
        if held is not None:
            self._sink.count("cut_last_line", severity="data_loss", detail=f"line {held[0]} is not complete")

    def _damaged(self, detail: str) -> None:
        self._sink.count("damaged_rows", severity="data_loss", detail=detail)
