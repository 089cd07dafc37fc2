"""Call paths as frames and as text."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from pipeline.database import Database


class PathFrame(NamedTuple):
    """One frame of a call path."""

    frame_id: int
    function: str
    file: str | None
    line: int | None
    module: str | None

    def text(self) -> str:
        """`function (file:line)`, or the module where there is no file."""
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file or self.module
        return f"{self.function} ({place})" if place else self.function


class CallPathReader:
    """Frames of call paths, root first, read once each."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[int, tuple[PathFrame, ...]] = {}

    def prefetch(self, call_path_ids: Iterable[int]) -> None:
        """Read many call paths in one query."""
        wanted = sorted({number for number in call_path_ids if number >= 0} - set(self._known))
        if not wanted:
            return
        frames: dict[int, list[PathFrame]] = {number: [] for number in wanted}
        for number, *frame in self._database.rows(
            "SELECT p.call_path_id, f.frame_id, f.function, f.file, f.line, f.module"
            " FROM (SELECT call_path_id, unnest(frame_ids) AS frame_id, generate_subscripts(frame_ids, 1) AS place"
            "       FROM call_paths WHERE call_path_id IN (SELECT unnest(?::BIGINT[]))) AS p"
            " JOIN frames AS f USING (frame_id) ORDER BY p.call_path_id, p.place",
            [wanted],
        ):
            frames[number].append(PathFrame(*frame))
        self._known |= {number: tuple(path) for number, path in frames.items()}

    def frames(self, call_path_id: int) -> tuple[PathFrame, ...]:
        """Frames of one call path, root first; empty when it has none."""
        if call_path_id not in self._known:
            self.prefetch([call_path_id])
        return self._known.get(call_path_id, ())

    def object_name(self, call_path_id: int) -> str | None:
        """Cache of the kernel objects that are allocated there; None where it is not of that kind, or not known."""
        frames = self.frames(call_path_id) if call_path_id >= 0 else ()
        return frames[-1].function if frames and frames[-1].module == "slab" else None

    def fate(self, call_path_id: int) -> int | None:
        """Frame that call paths of one suspect share: the root, of kernel objects the cache."""
        frames = self.frames(call_path_id) if call_path_id >= 0 else ()
        if not frames:
            return None
        return frames[-1].frame_id if frames[-1].module == "slab" else frames[0].frame_id

    def common_text(self, call_path_ids: Iterable[int]) -> str:
        """Frames from the root on that all of these call paths have, one a line."""
        every = [self.frames(number) for number in call_path_ids]
        same = takewhile(lambda frames: len(set(frames)) == 1, zip(*every, strict=False))
        return "\n".join(frames[0].text() for frames in same)

    def text(self, call_path_id: int) -> str:
        """Frames root to leaf, one a line."""
        return "\n".join(frame.text() for frame in self.frames(call_path_id))
