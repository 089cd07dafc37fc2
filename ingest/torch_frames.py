"""Call paths of a snapshot's frame lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ingest.callpaths import Frame
from ingest.sink import Sink

MAX_FRAMES = 4096
MAX_CANDIDATES = 64


def _is_flat(frames: list[Any]) -> bool:
    """Whether frames are dicts of plain values: comparing anything with them then takes bounded time."""
    plain = (str, int, type(None))
    return all(type(frame) is dict and all(isinstance(value, plain) for value in frame.values()) for frame in frames)


class FrameLists:
    """Call path numbers of frame lists.

    PyTorch pickles a list an event, and shares the frame dicts. A few frames' identities pick candidates, and list
    comparison, which stops at identical items, decides.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._known: dict[tuple[int, ...], list[tuple[list[Any], int | None]]] = {}

    def of(self, frames: Any) -> int | None:
        """Call path of one frame list, None without frames."""
        return self.column([frames])[0]

    def column(self, values: Sequence[Any]) -> list[int | None]:
        """Call paths of many frame lists; neighbours often share one list (free_requested and free_completed)."""
        known, found = self._known, []
        last, number = None, None
        for frames in values:
            if frames is not last:
                last, number = frames, None
                if isinstance(frames, list) and frames:
                    if len(frames) > MAX_FRAMES:
                        self._sink.count("call_path_cut", detail=f"frames beyond the innermost {MAX_FRAMES}")
                        frames = frames[:MAX_FRAMES]
                    n = len(frames)
                    key = (
                        n,
                        id(frames[0]),
                        id(frames[n // 4]),
                        id(frames[n // 2]),
                        id(frames[-(n // 4) - 1]),
                        id(frames[-1]),
                    )
                    candidates = known.get(key, ())
                    for other, known_number in candidates:
                        if frames == other:
                            number = known_number
                            break
                    else:
                        number = self._sink.call_paths.call_path(self._frames(frames))
                        if len(candidates) < MAX_CANDIDATES and _is_flat(frames):
                            known.setdefault(key, []).append((frames, number))
                elif frames:
                    self._sink.count("frames_not_a_list", severity="data_loss")
            found.append(number)
        return found

    def _frames(self, frames: list[Any]) -> Iterator[Frame]:
        for frame in reversed(frames):
            if not isinstance(frame, dict):
                self._sink.count("frame_not_a_dict", severity="data_loss")
                continue
            name, file, line = frame.get("name"), frame.get("filename"), frame.get("line")
            file = file if isinstance(file, str) else ""
            yield Frame(
                name if isinstance(name, str) and name else "??",
                file if file not in ("", "??") else None,
                line if type(line) is int and 0 < line < 2**31 else None,
            )
