"""Lines of the stacks that ftrace and trace-cmd print, to frames.

` => kmem_cache_alloc`, with the options sym-offset and sym-addr ` => kmem_cache_alloc+0x1f/0x130 <ffffffff81>`;
trace-cmd ` => kmem_cache_alloc (ffffffff81)`; of user stacks ` => /lib/libc.so[+0x1234]`.
https://www.kernel.org/doc/html/latest/trace/ftrace.html (trace_options)
"""

from __future__ import annotations

import re

from ingest.callpaths import Frame

_OFFSET = re.compile(r"\+0x[0-9a-fA-F]+(?:/0x[0-9a-fA-F]+)?")
_ADDRESS = re.compile(r"\s*[<(](?:0x)?([0-9a-fA-F]{1,16})[>)]$", re.ASCII)
_BARE = re.compile(r"0x([0-9a-fA-F]{1,16})|([0-9a-fA-F]{8,16})", re.ASCII)
_USER = re.compile(r"(/\S.*)\[\+0x[0-9a-fA-F]+\]")


def parse_ftrace_frame(line: str) -> Frame | None:
    """Frame of the text after `=>`: a function, maybe with offset and address, or a user library with an offset."""
    text, address = line.strip(), None
    if match := _ADDRESS.search(text[-40:]):
        address = int(match[1], 16)
        text = text[: len(text) - len(match[0])].rstrip()
    if match := _USER.fullmatch(text):
        return Frame("[unknown]", module=match[1], address=address)
    if match := _BARE.fullmatch(text):
        text, address = "", int(match[1] or match[2], 16)
    function = _OFFSET.sub("", text)
    if function:
        return Frame(function)
    return None if address is None else Frame("[unknown]", address=address)
