"""The first line of a sample as `perf script` prints it.

`comm pid/tid [cpu] misc tod time: period event: fields`, each of them only where it was recorded and asked for
(https://github.com/torvalds/linux/blob/master/tools/perf/builtin-script.c, perf_sample__fprintf_start and
process_event). By default there is one number for the task, its thread. A comm may hold spaces, colons and digits; an
event modifiers, slashes and colons.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Bounded everywhere: a hostile line must not cost the square of its length.
_COMM = r"(\S.{0,63}?)\s{1,64}"
_TASK = r"(-?\d{1,10})(?:/(-?\d{1,10}))?\s{1,64}"
_CPU = r"(?:\[(\d{1,9})\]\s{1,64})?"
_MISC = r"(?:[KUHGgMEFSp]{1,6}\s{1,8})?(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}\s{1,8})?"
_TIME = r"(\d{1,12})\.(\d{6}|\d{9}):\s*"
_PERIOD = r"(?:(\d{1,20})\s{1,64})?"
_EVENT = r"((?:raw )?\S+?):(?:\s+(.*))?"
_NO = "()"

_WITH_TIME = re.compile(rf"\s*{_COMM}{_TASK}{_CPU}{_MISC}{_TIME}{_PERIOD}(?:{_EVENT})?", re.ASCII)
# In order, for what `-F` left out; the groups stay the same: comm, two of the task, cpu, two of the time, period,
# event, fields.
_FORMS = (
    _WITH_TIME,
    re.compile(rf"\s*(?:{_COMM})??(?:{_TASK})?{_CPU}{_MISC}{_TIME}{_PERIOD}(?:{_EVENT})?", re.ASCII),
    re.compile(rf"\s*{_COMM}{_TASK}{_CPU}{_NO}{_NO}{_PERIOD}((?:raw )?\S+?):\s*()", re.ASCII),
    re.compile(rf"\s*{_COMM}{_TASK}{_CPU}{_NO}{_NO}{_NO}([a-z]\w*:[a-z]\w{{3,}}):\s+(.*)", re.ASCII),
    re.compile(rf"\s*{_NO}(?:{_TASK})?{_CPU}{_NO}{_NO}{_PERIOD}([a-z][\w:/,=.-]+?):\s*()", re.ASCII),
    re.compile(rf"{_COMM}{_TASK}{_CPU}{_NO}{_NO}{_NO}{_NO}{_NO}", re.ASCII),
)
_TRACEPOINT = re.compile(r"[A-Za-z_][\w-]*:[A-Za-z_]\w*", re.ASCII)
_MODIFIERS = re.compile(r"[^:]*:[ukhGHIpPSDWebR]+")
_NS_EVENTS = ("cpu-clock", "task-clock")

Groups = tuple[str | None, ...]


class EventFacts(NamedTuple):
    """What an event's name says: the unit of its period, and whether it is a tracepoint (`system:name`)."""

    unit: str
    is_tracepoint: bool


match_block = re.compile(
    r"([^\n]{0,160}?)(\d{1,10})\.(\d{6}(?:\d{3})?): +(?:(\d{1,18}) +)?([^ \n]{1,256}):(?: +([^\n]*))?(?:\n|$)", re.ASCII
).match
"""Matches the usual form at the head of a block, for speed: what is left of the time, seconds, fraction, period, event,
fields. To be checked with `match_timed`: a comm may hold what looks like a time."""


def match_timed(line: str) -> Groups | None:
    """Groups (comm, task, task's thread, cpu, seconds, fraction, period, event, fields) of the usual form."""
    match = _WITH_TIME.fullmatch(line)
    return match.groups() if match else None


def match_any(line: str) -> Groups | None:
    """The same groups of any form, the usual one first; None when the line is no sample's first line."""
    for form in _FORMS:
        if match := form.fullmatch(line):
            return match.groups()
    return None


def event_facts(event: str) -> EventFacts:
    """Facts of an event's name, e.g. `cycles:u`, `cpu/mem-loads,ldlat=30/P`, `sched:sched_switch`."""
    is_tracepoint = bool(_TRACEPOINT.fullmatch(event)) and not _MODIFIERS.fullmatch(event)
    return EventFacts("ns" if event.split(":")[0] in _NS_EVENTS else "count", is_tracepoint)


def time_ns(seconds: str, fraction: str) -> int:
    """Nanoseconds of `seconds.fraction`."""
    return int(seconds) * 1_000_000_000 + int(fraction) * (1000 if len(fraction) == 6 else 1)
