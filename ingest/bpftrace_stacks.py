"""Stack lines as bpftrace prints them, to frames.

`ustack(perf)`: `7f51996 c10::f(int, (anonymous namespace)::T)+203 (/lib/libc10.so)`; the default mode leaves
out the address and the module, the raw mode prints the address alone.
https://github.com/bpftrace/bpftrace/blob/master/man/adoc/bpftrace.adoc (kstack, ustack)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ingest.callpaths import CallPaths, Frame
from ingest.sink import Sink

MAX_DEPTH = 1024
MAX_FRAME_CHARACTERS = 16 * 1024
MAX_CACHED_LINES = 100_000
MAX_CALL_PATHS = 500_000

# Greedy up to the last `+offset (/` or `+offset ([`: symbols hold spaces, parentheses, commas and plus signs too.
_WITH_MODULE = re.compile(r"(.+)\+(?:0x[0-9a-fA-F]+|\d+) \(([/\[].*)\)")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|(?=[a-fA-F]*\d)[0-9a-fA-F]{4,16}")
_OFFSET = re.compile(r"\+(?:0x[0-9a-fA-F]+|\d+)$")
_UNKNOWN = "[unknown]"


def parse_frame(line: str) -> Frame | None:
    """Frame of one stack line, None when it holds nothing.

    Function: the symbol without its offset. A frame without a symbol keeps its module with the function
    `[unknown]`, or, with neither, the address as function.
    """
    text, module = line.strip(), None
    if match := _WITH_MODULE.fullmatch(text):
        text, module = match[1], match[2]
    elif text.endswith(")") and (cut := text.rfind(" (")) > 0:
        text, module = _OFFSET.sub("", text[:cut]), text[cut + 2 : -1]
    else:
        text = _OFFSET.sub("", text)
    if module in (_UNKNOWN, ""):
        module = None
    first, _, rest = text.partition(" ")
    if _ADDRESS.fullmatch(first):
        address, symbol = first, rest.strip()
    else:
        address, symbol = "", text
    if symbol not in ("", _UNKNOWN) and not symbol.startswith("0x"):
        return Frame(symbol, module=module)
    if module:
        return Frame(_UNKNOWN, module=module)
    name = symbol if symbol.startswith("0x") else address or symbol
    return Frame(name) if name else None


class StackReader:
    """Stack lines, leaf first, to call path numbers; what does not fit its bounds is counted."""

    def __init__(self, sink: Sink, parse: Callable[[str], Frame | None] = parse_frame) -> None:
        self._sink, self._parse = sink, parse
        self._call_paths: CallPaths = sink.call_paths
        self._frames: dict[str, int | None] = {}
        self._paths: dict[tuple[int, ...], int | None] = {}

    def frame(self, line: str) -> int | None:
        """Frame number of a stack line, None when it holds nothing."""
        if len(line) > MAX_FRAME_CHARACTERS:
            detail = f"longer than {MAX_FRAME_CHARACTERS} characters"
            self._sink.count("long_frames", severity="data_loss", detail=detail)
            line = line[:MAX_FRAME_CHARACTERS]
        if line not in self._frames:
            if len(self._frames) >= MAX_CACHED_LINES:
                self._frames.clear()
            frame = self._parse(line)
            self._frames[line] = None if frame is None else self._call_paths.frame(frame)
        return self._frames[line]

    def path(self, leaf_first: Sequence[int]) -> int | None:
        """Call path number, None for an empty stack or when there are more different ones than are kept."""
        key = tuple(reversed(leaf_first))
        if key not in self._paths:
            if len(self._paths) >= MAX_CALL_PATHS:
                detail = f"more than {MAX_CALL_PATHS} different call paths"
                self._sink.count("call_paths_left_out", severity="data_loss", detail=detail)
                return None
            self._paths[key] = self._call_paths.path(key)
        return self._paths[key]
