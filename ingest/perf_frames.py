"""Stacks as `perf script` prints them, to call paths.

A frame is `address symbol+0xoffset (object)`, leaf first; without a symbol `[unknown]`, an inlined function has
`(inlined)` in the object's place. Fields may be missing, and `-F +srcline` puts `  file:line` on a line of its own.
https://github.com/torvalds/linux/blob/master/tools/perf/util/evsel_fprintf.c
"""

from __future__ import annotations

import re

from ingest.callpaths import Frame
from ingest.numbers import INT32_MAX
from ingest.sink import Sink

MAX_DEPTH = 1024
MAX_CACHED_CHARACTERS = 32 * 1024 * 1024
_PLACE_CHARACTERS = 100  # what an entry of a cache takes beside its text
MAX_FRAMES = 500_000
MAX_CALL_PATHS = 500_000

_COMMON = re.compile(r"\s*([0-9a-fA-F]{1,16}) (\S.*\S|\S) \(([^()]+)\)", re.ASCII)
_ADDRESS = re.compile(r"([0-9a-fA-F]{1,16})(?:\s+(\S.*))?", re.ASCII)
_OFFSET = re.compile(r"\+0x[0-9a-fA-F]{1,16}$", re.ASCII)
_PLACE = re.compile(r"  (?!\s)(.*?)(?::(\d{1,10}))?( \(inlined\))?", re.ASCII)
# Instruction bytes, branches, registers and BPF output that `-F` adds below the stack.
_BELOW = re.compile(r" insn:| *0x[0-9a-f]+[(/]| +\w+:0x[0-9a-f]| *BPF \w+:| *ABI:\d", re.ASCII)
_UNKNOWN = "[unknown]"
INLINED = "inlined"


def parse_frame(line: str) -> Frame | None:
    """Frame of one stack line, None when it is none.

    The function is the symbol without its offset, whatever else it holds. Without a symbol it is `[unknown]` (empty
    where perf printed an empty one, as before 3.3) and the frame keeps its address. The module is what stands in the
    last parentheses, `inlined` for inlined functions, None where perf does not know it.
    """
    match = _COMMON.fullmatch(line)
    if match is not None:
        symbol, module = match[2], match[3]
    elif match := _ADDRESS.fullmatch(line.strip()):
        symbol, module = _split_module(match[2] or "")
    else:
        return None
    if "+0x" in line:
        symbol, module = _OFFSET.sub("", symbol), _OFFSET.sub("", module)
    known = None if module in ("", _UNKNOWN) else module
    if symbol in ("", _UNKNOWN):
        is_empty = not symbol and "  (" in line
        return Frame("" if is_empty else _UNKNOWN, module=known, address=int(match[1], 16))
    return Frame(symbol, module=known)


def _split_module(text: str) -> tuple[str, str]:
    """Symbol and object of `symbol (object)`: the last group of balanced parentheses that a space precedes."""
    if not text.endswith(")"):
        return text, ""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] == ")") - (text[place] == "(")
        if not depth:
            if not place or text[place - 1] == " ":
                return text[:place].rstrip(), text[place + 1 : -1]
            break
    return text, ""


def is_frame(line: str) -> bool:
    """Whether a line begins as a frame does: blanks and an address."""
    return line[:1] in (" ", "\t") and _ADDRESS.fullmatch(line.strip()) is not None


class PerfStacks:
    """Stack texts to call path numbers, with bounded caches; what does not fit or can't be read is counted."""

    def __init__(self, sink: Sink) -> None:
        self._sink, self._call_paths = sink, sink.call_paths
        self._lines: dict[str, int | None] = {}
        self._callers: dict[str, tuple[int, ...]] = {}  # all lines but the leaf's, which differs most
        self._places: dict[tuple[str, int], tuple[int | None]] = {}
        self._cached_characters = 0
        self._paths: dict[tuple[int, ...], int | None] = {}
        self._keys: dict[int, tuple[int, ...]] = {}
        self._below: dict[tuple[int | None, Frame], int | None] = {}

    def known(self, text: str) -> tuple[int | None] | None:
        """The call path, in a tuple, of a stack whose leaf and callers were seen before; None for other texts."""
        leaf, _, callers = text.partition("\n")
        frame = self._lines.get(leaf)
        return None if frame is None else self._places.get((callers, frame))

    def path(self, text: str, number: int) -> int | None:
        """Call path of the lines of one stack, None for an empty one; `number` is the line it begins at."""
        if not text:
            return None
        leaf, _, callers = text.partition("\n")
        has_sources = callers.startswith("  ")
        frames, first = self._callers.get(callers), None if has_sources else self._frame(leaf, None)
        if frames is None or first is None:
            leaf_first, is_whole = self._frames_of(text.split("\n"), number)
            if not is_whole or has_sources:  # damage is counted each time
                return self._path(tuple(reversed(leaf_first)))
            frames, first = tuple(reversed(leaf_first[1:])), leaf_first[0]
            self._remember(len(callers))
            self._callers[callers] = frames
        path = self._path((*frames, first))
        self._remember(_PLACE_CHARACTERS)
        self._places[callers, first] = (path,)
        return path

    def _remember(self, characters: int) -> None:
        """Make room in the caches for so much more text."""
        self._cached_characters += characters
        if self._cached_characters > MAX_CACHED_CHARACTERS:
            self._cached_characters = characters
            self._lines.clear()
            self._callers.clear()
            self._places.clear()

    def single(self, line: str) -> int | None:
        """Call path of a sample without a stack whose instruction stands on its own line; None when it is none."""
        frame = parse_frame(line)
        if frame is None or (frame.module is None and (" " in frame.function or frame.function.isdecimal())):
            return None
        return self._path((self._call_paths.frame(self._bounded(frame)),))

    def call_site(self, function: str | None, module: str | None, address: int | None) -> int | None:
        """Call path of a lone call site."""
        if function is None and address is None:
            return None
        frame = Frame(function or _UNKNOWN, module=module, address=None if function else address)
        return self._path((self._call_paths.frame(self._bounded(frame)),))

    def below(self, path: int | None, leaf: Frame) -> int | None:
        """Call path of one that this gave (or none) with another leaf at its end."""
        key = (path, leaf)
        if key not in self._below:
            if len(self._below) >= MAX_CALL_PATHS:
                self._below.clear()
            frames = self._keys.get(path, ()) if path is not None else ()
            self._below[key] = self._path((*frames, self._call_paths.frame(self._bounded(leaf))))
        return self._below[key]

    def _frames_of(self, lines: list[str], number: int) -> tuple[list[int], bool]:
        frames: list[int] = []
        is_whole = True
        place = 0
        while place < len(lines):
            line = lines[place]
            following = lines[place + 1] if place + 1 < len(lines) else ""
            source = (
                _PLACE.fullmatch(following.rstrip()) if following.startswith("  ") and not is_frame(following) else None
            )
            place += 1 if source is None else 2
            if len(frames) >= MAX_DEPTH:
                self._lost("deep_stacks", f"frames beyond {MAX_DEPTH}, first at line {number + place - 1}")
                return frames, False
            frame = self._frame(line, source)
            if frame is not None:
                frames.append(frame)
            elif _BELOW.match(line):
                self._sink.count("other_sample_lines", detail=f"first at line {number + place - 1}")
                is_whole = False
            else:
                self._lost("damaged_stack_lines", f"first at line {number + place - 1}")
                is_whole = False
        return frames, is_whole

    def _frame(self, line: str, source: re.Match[str] | None) -> int | None:
        key = line if source is None else f"{line}\n{source[0]}"
        if key not in self._lines:
            frame = parse_frame(line)
            if frame is not None and source is not None:
                frame = _with_place(frame, source)
            number = None if frame is None else self._call_paths.frame(self._bounded(frame))
            self._remember(len(key) + _PLACE_CHARACTERS)
            self._lines[key] = number
        return self._lines[key]

    def _bounded(self, frame: Frame) -> Frame:
        """The frame, or less of it once there are very many, so that memory stays bounded."""
        if self._call_paths.frame_count < MAX_FRAMES:
            return frame
        if frame.address is not None and self._call_paths.frame_count < 2 * MAX_FRAMES:
            self._sink.count("addresses_left_out", detail=f"of frames without a symbol, after {MAX_FRAMES} frames")
            return frame._replace(address=None)
        self._lost("frames_left_out", f"more than {MAX_FRAMES} different frames")
        return Frame(_UNKNOWN)

    def _path(self, key: tuple[int, ...]) -> int | None:
        if key not in self._paths:
            if len(self._paths) >= MAX_CALL_PATHS:
                self._lost("call_paths_left_out", f"more than {MAX_CALL_PATHS} different call paths")
                return None
            number = self._paths[key] = self._call_paths.path(key)
            if number is not None:
                self._keys[number] = key
        return self._paths[key]

    def _lost(self, name: str, detail: str) -> None:
        self._sink.count(name, severity="data_loss", detail=detail)


def _with_place(frame: Frame, source: re.Match[str]) -> Frame:
    """The frame with file and line; `object[address]` and `:0` are what perf prints where it knows none."""
    file, line = source[1], int(source[2] or 0)
    if file and not file.endswith("]") and not file.startswith("??") and 0 < line <= INT32_MAX:
        frame = frame._replace(file=file, line=line)
    return frame._replace(module=INLINED) if source[3] else frame
