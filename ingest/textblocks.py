"""Blocks of text between blank lines, for formats that print a record as a block: much faster than line by line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ingest.errors import BadInput
from ingest.opening import open_bytes
from ingest.sink import Sink
from ingest.textlines import TextLines

BLOCK_CHARACTERS = 256 * 1024


class TextBlocks(TextLines):
    """The lines of `TextLines`, given out a block at a time, repaired and counted the same way."""

    is_last = False

    def blocks(self) -> Iterator[tuple[int, str, bool]]:
        r"""Yield (number of the block's first line, its lines joined by \n, whether the block ends there).

        A block longer than BLOCK_CHARACTERS comes in several pieces of whole lines, all but the last with False.
        Lines that were too long are left out and not numbered. An empty block (further blank lines) may be among
        them. `is_last` is True while the last block is out, which is empty when the text ends in a blank line, and
        `is_cut` when moreover its last line had no line end.
        """
        number, carry, self.is_last = 1, "", False
        for whole in self._whole_lines():
            parts = (carry + whole).split("\n\n")
            carry = parts.pop()
            for part in parts:
                lines = part.count("\n") + 2
                yield (number, part, True) if part[:1] != "\n" else (number + 1, part[1:], True)
                number += lines
            if len(carry) > BLOCK_CHARACTERS and carry.endswith("\n"):
                yield number, carry[:-1], False
                number += carry.count("\n") - 1
                carry = "\n"
        self.is_last = True
        text = carry.lstrip("\n")
        yield number + len(carry) - len(text), text.rstrip("\n"), True

    def _whole_lines(self) -> Iterator[str]:
        r"""Repaired text that ends in \n, piece by piece; only a last line without a line end comes without."""
        number, pending, line_end, skipping = 1, "", "", False
        for text in self._texts():
            text = pending + text
            if not line_end:
                line_end = "\n" if "\n" in text else "\r" if "\r" in text[:-1] else ""
            whole, mark, pending = text.rpartition(line_end or "\n")
            if skipping and mark:
                whole, skipping = whole.partition(line_end)[2], False
                number += 1
                mark = mark if whole else ""
            if mark:
                count = whole.count(line_end) + 1
                yield self._clean(whole, line_end, number) + "\n"
                number += count
            if len(pending) > self._max_line:
                if not skipping:
                    self._too_long(number)
                pending, skipping = "", True
        if pending and not skipping:
            self.is_cut = not pending.endswith("\r")
            yield self._repaired(pending, number)

    def _clean(self, whole: str, line_end: str, number: int) -> str:
        if len(whole) <= self._max_line and whole.isascii() and "\r" not in whole and "\0" not in whole:
            return whole
        kept = []
        for place, line in enumerate(whole.split(line_end), number):
            if len(line) > self._max_line:
                self._too_long(place)
            else:
                kept.append(self._repaired(line, place))
        return "\n".join(kept)


@contextmanager
def open_blocks(path: Path, sink: Sink) -> Iterator[TextBlocks]:
    """The blocks of a capture file, packed or not. Raises BadInput when it can't be opened or read."""
    with open_bytes(path) as stream:
        try:
            yield TextBlocks(stream, sink)
        except OSError as error:
            todo = "check the disk, or copy the file again"
            raise BadInput(error.strerror or str(error), where=str(path), todo=todo) from error
