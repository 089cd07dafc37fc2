"""Stack lines as bcc's tools and libbpf-tools print them, to frames.

bcc: `0x000055… main+0x6d [app]`, any part of which may be missing; libbpf-tools: `0 [<000055…>] main+0x6d [app]`, or
with blazesym `… main+0x6d /src/app.c:12`; `[unknown]` and `<null sym>` stand for no symbol.
https://github.com/iovisor/bcc/blob/master/src/python/bcc/__init__.py (sym), …/libbpf-tools/memleak.c
"""

from __future__ import annotations

import re

from ingest.callpaths import Frame
from ingest.numbers import UINT64_MAX

UNKNOWN = "[unknown]"
_NUMBERED = re.compile(r"\d+ +\[<([0-9a-fA-F]{1,16})>\]\s*(.*)", re.ASCII)
_ADDRESS_FIRST = re.compile(r"(?:0x([0-9a-fA-F]{1,16})|(?=[a-fA-F]*\d)([0-9a-fA-F]{6,16}))(?:\s+(.*))?", re.ASCII)
_ADDRESS_LAST = re.compile(r"(.*\]) \(([0-9a-fA-F]{1,16})\)", re.ASCII)  # bcc of 2016
_SOURCE = re.compile(r"(.+)\+0x[0-9a-fA-F]+ (\S.*):(\d{1,9})", re.ASCII)
# Without the plus sign in releases of stackcount up to 2017.
_OFFSET = re.compile(r"(?:\+0x|(?<=\w)0x)[0-9a-fA-F]+$")
_IS_FRAME = re.compile(r"(?:\+0x[0-9a-fA-F]+|\]|<null sym>)$")


def is_surely_frame(line: str) -> bool:
    """Whether nothing but a frame ends like this, whatever became of its indentation."""
    return _IS_FRAME.search(line) is not None


def _module_start(text: str) -> int | None:
    """Where the bracket that the last character closes was opened; a module may be `[vdso]` itself."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += {"]": 1, "[": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return None


def parse_bcc_frame(line: str) -> Frame | None:
    """Frame of one stack line, None when it holds nothing. Offsets within a function are left out."""
    text, address = line.strip(), None
    if match := _NUMBERED.fullmatch(text):
        address, text = int(match[1], 16), match[2]
    elif match := _ADDRESS_FIRST.fullmatch(text):
        address, text = int(match[1] or match[2], 16), match[3] or ""
    if not text and address is None:
        return None
    if match := _ADDRESS_LAST.fullmatch(text):
        text, address = match[1], int(match[2], 16)
    file = module = number = None
    if match := _SOURCE.fullmatch(text):
        text, place, number = match[1], match[2], int(match[3])
        file, module = (place, None) if number else (None, place)
        number = number or None
    elif text.endswith("]") and (start := _module_start(text)) is not None:
        text, module = text[:start].rstrip(), text[start + 1 : -1]
        if module == "unknown":
            module = None
    if text.startswith("b'") and text.endswith("'"):  # how Python 3 prints the names of some releases
        text = text[2:-1]
    function = _OFFSET.sub("", text)
    if function in ("", UNKNOWN, "<null sym>"):
        known = address if address is not None and address <= UINT64_MAX else None
        return Frame(UNKNOWN, file, number, module, known)
    return Frame(function, file, number, module)
