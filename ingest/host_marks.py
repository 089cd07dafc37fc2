"""What stands between copies of the kernel's files: which file follows, whose it is; and which file a line looks like.

Paths come as our recorder's `# file PATH`, as `tail` and `head` write them (`==> PATH <==`), echoed, in a prompt, or
before each line, as `grep . memory.*` prints.
"""

from __future__ import annotations

import re

from ingest.host_numa import NODES, NUMA_MAP, NUMASTAT_TITLE
from ingest.host_vmstat import VMSTAT_TITLE
from ingest.wallclock import parse_time

_PATH = (
    r"(?:/proc/(?:\d{1,10}|self|pressure)/[a-z_/0-9]{2,60}|/proc/(?:meminfo|vmstat)|"
    r"(?:/\S{1,400}/|[\w.@\\-]{1,200}/)*(?:memory|cpu|io)\.[a-z_.]{2,60}|"
    r"/sys/devices/system/node/node\d{1,5}/(?:meminfo|numastat|vmstat))"
)
_BEFORE = re.compile(r"(?:# file |==> |[-=+]{1,40} ?|\S{0,80}[$#%>] |#+ ?)?(?:cat |head |tail )?", re.ASCII)
_HEADING = re.compile(rf"({_PATH})(?: <==|\s*[-=:]{{1,40}})?", re.ASCII)
_PREFIX = re.compile(rf"({_PATH}):\s*(\S.*)", re.ASCII)
_PID = re.compile(r"[-=# ]*pid[ :=]+(\d{1,10})\b.{0,80}", re.ASCII | re.IGNORECASE)
_STAT_KEYS = re.compile(
    r"anon|file|kernel|kernel_stack|(?:sec_)?pagetables|percpu|sock|vmalloc|shmem|zswap|zswapped|swapcached|"
    r"file_(?:mapped|dirty|writeback|thp)|(?:anon|shmem)_thp|(?:in)?active_(?:anon|file)|unevictable|"
    r"slab(?:_unreclaimable|_reclaimable)?|cache|rss|rss_huge|mapped_file|hierarchical_memory_limit"
)
_EVENT_KEYS = frozenset(("low", "high", "max", "oom", "oom_kill", "oom_group_kill"))
_NODE_KEYS = frozenset(("numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node"))
_STATUS_KEYS = frozenset(
    ("Name", "Umask", "State", "VmPeak", "VmSize", "VmHWM", "VmRSS", "RssAnon", "RssFile", "VmData")
)
_SMAPS_KEYS = frozenset(
    ("Rss", "Pss", "Size", "Pss_Anon", "Pss_Dirty", "Shared_Clean", "Private_Dirty", "Private_Clean")
)
_MEMINFO_KEYS = re.compile(
    r"Mem(?:Total|Free|Available)|Buffers|Cached|Swap(?:Cached|Total|Free)|Dirty|AnonPages|Mapped|Slab|KernelStack|PageTables|"
    r"CommitLimit|Committed_AS|Vmalloc\w+|Percpu|HugePages_\w+|Hugepagesize|DirectMap\w+",
    re.ASCII,
)
_COLON = re.compile(r"([A-Za-z]\w{0,40}):\s", re.ASCII)
_SPACE = re.compile(r"([a-z][a-z_0-9]{0,60}) \d{1,30}", re.ASCII)
_LIKE = re.compile(r"[A-Za-z_()0-9]{1,60}(?:\s+\S.*|:.*)|-[- ]*", re.ASCII)
_VALUE = re.compile(r"\d{1,20}|max", re.ASCII)
_TELLING = ("pressure", "numastat tool", "vmstat tool")
_SAMPLE = re.compile(r"# sample \d{1,19}(?: \d{1,19})?", re.ASCII)
_MAPPING = re.compile(r"[0-9a-f]{4,16}-[0-9a-f]{4,16} [rwxsp-]{4} .*", re.ASCII)


def heading_of(text: str) -> str | None:
    """The path that a heading line announces."""
    if len(text) > 600 or ("/" not in text and "." not in text):
        return None
    before = _BEFORE.match(text)
    match = _HEADING.fullmatch(text, before.end() if before else 0)
    return match[1] if match else None


def prefix_of(text: str) -> tuple[str, str] | None:
    """`(path, line)` where the path stands before the line."""
    if len(text) > 600 or text[:1].isupper():
        return None
    match = _PREFIX.fullmatch(text)
    return (match[1], match[2]) if match else None


def process_of(text: str) -> int | None:
    """The process that a line such as `# pid 123` or `=== PID: 123 ===` names."""
    match = _PID.fullmatch(text) if len(text) < 200 else None
    return int(match[1]) if match else None


def kind_of(text: str) -> str | None:
    """Which file a line is of, by its look alone; None when it could be several's or nobody's."""
    if len(text) > 4000:
        return None
    if match := _COLON.match(f"{text} "):
        key = match[1]
        if key in _SMAPS_KEYS:
            return "smaps"
        if key in _STATUS_KEYS:
            return "status"
        return "meminfo" if _MEMINFO_KEYS.fullmatch(key) else None
    if match := _SPACE.fullmatch(text):
        key = match[1]
        if _STAT_KEYS.fullmatch(key):
            return "memory.stat"
        if key in _EVENT_KEYS:
            return "memory.events"
        return "numastat" if key in _NODE_KEYS else ("vmstat" if key.startswith("nr_") else None)
    if _MAPPING.fullmatch(text):
        return "smaps"
    if text.startswith(("some avg10=", "full avg10=")):
        return "pressure"
    if text.startswith("Node ") and ": " in text and "kB" in text:
        return "meminfo"
    if NUMASTAT_TITLE.fullmatch(text) or NODES.fullmatch(text):
        return "numastat tool"
    if VMSTAT_TITLE.fullmatch(text):
        return "vmstat tool"
    return "numa_maps" if NUMA_MAP.fullmatch(text) and " N" in text else None


def is_host_text(lines: list[str]) -> bool:
    """Whether the first lines of a file are of these files, for the most part, and some of them of no other."""
    kinds = [kind_of(text) for text in lines]
    known = [
        kind is not None or heading_of(text) is not None or prefix_of(text) is not None
        for kind, text in zip(kinds, lines, strict=True)
    ]
    others = sum(
        _VALUE.fullmatch(text) is not None
        or _SAMPLE.fullmatch(text) is not None
        or _LIKE.fullmatch(text) is not None
        or parse_time(text.strip("=-# ")) is not None
        or process_of(text) is not None
        for text, is_known in zip(lines, known, strict=True)
        if not is_known
    )
    if not any(known[:6]) or sum(known) + others < 0.8 * len(lines):
        return False
    return any(kind in _TELLING for kind in kinds) or (sum(known) > 1 and 12 * sum(known) >= len(lines))
