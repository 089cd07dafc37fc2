"""Call paths as content hashes, so that files read apart agree on their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

MAX_TEXT = 4096


class Frame(NamedTuple):
    """One frame of code. `line` is 1-based, None or 0 where unknown; `address` is given for frames without a symbol."""

    function: str
    file: str | None = None
    line: int | None = None
    module: str | None = None
    address: int | None = None


def stable_id(*parts: object) -> int:
    """A 63-bit number from the parts' text, the same on every machine and in every process."""
    return _hash("\x1f".join("" if part is None else str(part) for part in parts))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big") >> 1


def clean_text(text: str, limit: int = MAX_TEXT) -> str:
    """Text that Arrow can hold: lone surrogates replaced, longer than `limit` characters cut with a mark."""
    if len(text) > limit:
        text = text[:limit] + f"… ({len(text)} characters)"
    return text.encode("utf-8", "replace").decode("utf-8")


def _clean(text: str | None) -> str | None:
    return None if text is None else clean_text(text)


class CallPaths:
    """Interns frames and call paths; what it collected goes to `frames` and `call_paths`."""

    def __init__(self) -> None:
        self._frames: dict[Frame, int] = {}
        self._paths: dict[tuple[int, ...], int] = {}

    @property
    def frame_count(self) -> int:
        """How many different frames there are."""
        return len(self._frames)

    def frame(self, frame: Frame) -> int:
        """Frame number of `frame`."""
        number = self._frames.get(frame)
        if number is None:
            function, file, line, module, address = frame
            frame = Frame(clean_text(function), _clean(file), line, _clean(module), address)
            parts = (function, file, line, module) if address is None else (function, file, line, module, address)
            number = self._frames.setdefault(frame, stable_id(*parts))
        return number

    def path(self, frame_ids: Sequence[int]) -> int | None:
        """Call path number of frame numbers, root first; None for no frames."""
        key = tuple(frame_ids)
        if not key:
            return None
        number = self._paths.get(key)
        if number is None:
            number = self._paths.setdefault(key, _hash("\x1f".join(map(str, key))))
        return number

    def call_path(self, frames: Iterable[Frame]) -> int | None:
        """Call path number of frames, root first; None for no frames."""
        return self.path([self.frame(frame) for frame in frames])

    def tables(self) -> dict[str, dict[str, list[object]]]:
        """Columns of `frames` and `call_paths` for everything interned so far."""
        by_id = {number: frame for frame, number in self._frames.items()}
        frames: dict[str, list[object]] = {"frame_id": list(by_id)}
        for position, column in enumerate(Frame._fields):
            frames[column] = [frame[position] for frame in by_id.values()]
        paths: dict[str, list[object]] = {
            "call_path_id": list(self._paths.values()),
            "frame_ids": [list(key) for key in self._paths],
            "depth_count": [len(key) for key in self._paths],
        }
        return {"frames": frames, "call_paths": paths}
