"""One printed CUPTI record as attributes with cupti-python's names, from the text of any version of NVIDIA's samples.

CUDA 11.8 and later print `KIND [ start, end ] duration n, "name", correlationId 7, …` (extras/CUPTI/samples/common/
helper_cupti_activity.h), older ones `KIND "name" [ start - end ] device 0, context 1, stream 7, correlation 7`
(activity_trace.cpp, activity_trace_async.cpp), with times since the start of the trace.
"""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from ingest.cupti_enums import COLUMNS, ENUM_NUMBERS, KIND_NAMES, MARKER_END, MARKER_START
from ingest.cupti_loose import LIMITS
from ingest.cupti_text_words import ATTRIBUTES, IGNORED, OBJECTS, OVERHEADS, UNIFIED_KEYS, UNIFIED_WORDS, WORDS

_NAMES = "|".join(sorted((name for name in KIND_NAMES if name != "INVALID"), key=len, reverse=True))
_START = re.compile(rf"\s*(CONC KERNEL|{_NAMES})(?=[ :]) ?:?(.*)", re.DOTALL)
_TIMES = r"\[ (?P<start>\d{1,20})(?: ?[-,]? (?P<end>\d{1,20}))? \]"
_SPAN = re.compile(rf"(?P<before>.*?){_TIMES}(?P<after>.*)", re.DOTALL)
_QUOTED = re.compile(r'\s*"(?P<name>.*?)"(?=,\s*(?:correlationId|cbid|deviceId)\b|\s*\[ \d|\s*$)', re.DOTALL)
_TRIPLE = re.compile(r"\b(grid|block) \[ ?(\d{1,10}), ?(\d{1,10}), ?(\d{1,10}) ?\]")
_NULLS = ("<null>", "(null)", "<unknown>", "<default domain>", "")
MAX_CHARACTERS = 32 * 1024

_SIGNED_IDS = ("stream_id", "null_stream_id", "cuda_event_id")


def is_record_start(line: str) -> bool:
    """Whether a line is the first of a record in a form that only the samples print."""
    kind = kind_of(line)
    if kind in ("EXTERNAL_CORRELATION", "STREAM"):
        return bool(re.match(r"\s*\w+ (externalKind|type) \S+, ", line))
    if kind == "CONTEXT":
        return bool(re.match(r"CONTEXT (computeApiKind \S+, contextId|\d+, device) \d+, ", line))
    if kind == "DEVICE":
        return bool(re.search(r" (\[ \d+ \]$|\(\d+\), capability \d)", line))
    return kind is not None and bool(re.search(_TIMES, line))


class NotARecord(ValueError):
    """The text is not a record that a sample prints."""


def kind_of(line: str) -> str | None:
    """The kind whose record begins on this line, None for another line."""
    found = _START.match(line)
    return None if found is None else found[1].replace("CONC KERNEL", "CONCURRENT_KERNEL")


def parse(kind: str, text: str) -> tuple[dict[str, Any], set[str]]:
    """Attributes and unknown keys of the lines of one record of the kind. Raises NotARecord for other text.

    Numbers that their columns can't hold, as times before the trace's start (printed as 2^64 less), are under `lost`.
    """
    begin = _START.match(text)
    if begin is None or len(text) > MAX_CHARACTERS:
        raise NotARecord
    body = begin[2]
    special = {"DEVICE": _device, "CONTEXT": _context, "MARKER": _marker, "OVERHEAD": _overhead}.get(kind)
    special = _unified if kind == "UNIFIED_MEMORY_COUNTER" else special
    if special:
        return special(body)
    record: dict[str, Any] = {}
    rest = body
    if found := _SPAN.match(body):
        before, rest = found["before"].strip(), found["after"]
        if found["end"] is not None:
            record |= {"start": int(found["start"]), "end": int(found["end"])}
        else:
            record["timestamp"] = int(found["start"])
        if kind in ("MEMCPY", "MEMCPY2"):
            record["copy_kind"] = _word("copy_kind", before.strip('" '))
        elif quoted := _QUOTED.match(before):
            record["name"] = _name(quoted["name"])
        elif before:
            rest = f"{before}, {rest}"
    elif kind not in ("EXTERNAL_CORRELATION", "STREAM"):
        raise NotARecord
    if "name" not in record:
        after = re.sub(r"^\s*duration \d{1,20}, ?", "", rest)
        if quoted := _QUOTED.match(after):
            record["name"] = _name(quoted["name"])
            rest = after[quoted.end() :]
    unknown = _pairs(kind, rest, record)
    return _checked(record), unknown


def _pairs(kind: str, text: str, record: dict[str, Any]) -> set[str]:
    """Put `key value` pairs into the record; keys that no sample prints."""
    unknown = set()
    for axis, *sizes in _TRIPLE.findall(text):
        record |= {f"{axis}_{name}": int(size) for name, size in zip("xyz", sizes, strict=True)}
    for part in re.split(r"[,()\n]", text):
        key, _, value = part.strip().removesuffix(" bytes").replace("=", " ").rpartition(" ")
        key = key.rstrip(":")
        if not key[:1].isalpha() or "[" in part:
            continue
        name = ATTRIBUTES.get(key.lower())
        if name is None:
            if key.lower() not in IGNORED:
                unknown.add(key)
            continue
        if kind == "STREAM" and name == "type":
            name = "flag"
        elif kind == "MEMORY_POOL" and name == "bytes":
            name = "size_"
        if value not in _NULLS:
            record.setdefault(name, _value(name, value))
    return unknown


def _value(name: str, text: str) -> int | None:
    """A number, or the number of an enumeration's word."""
    digits = text.split("/")[0]
    if re.fullmatch(r"-?\d{1,20}", digits, re.ASCII):
        number = int(digits)
        return number & 0xFFFFFFFF if number < 0 and name in _SIGNED_IDS else number
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text):
        return int(text, 16)
    return _word(name, text)


def _word(name: str, text: str) -> int | None:
    known = WORDS.get(name, {})
    return known[text.upper()] if text.upper() in known else ENUM_NUMBERS.get((name, text))


def _name(text: str) -> str | None:
    return None if text.strip() in _NULLS else text


def _checked(record: dict[str, Any]) -> dict[str, Any]:
    lost = {}
    for name, value in record.items():
        low, high = LIMITS[COLUMNS.get(name, pl.Int64)] if isinstance(value, int) else (0, 0)
        if isinstance(value, int) and not low <= value <= high:
            lost[name] = value
    return record | dict.fromkeys(lost) | ({"lost": lost} if lost else {})


def _device(body: str) -> tuple[dict[str, Any], set[str]]:
    """`NVIDIA H200 [ 0 ]`, older `Tesla K20 (0), capability 3.5, …, multiprocessors 13, clock 705 MHz`.

    The older text has the memory's size in whole MiB only, which is not told as bytes.
    """
    if found := re.fullmatch(r"(.*) \[ (\d{1,9}) \]", body.strip()):
        return {"name": _name(found[1]), "id": int(found[2])}, set()
    if not (found := re.match(r"(.*) \((\d{1,9})\), capability (\d{1,4})\.(\d{1,4}),", body.strip())):
        raise NotARecord
    record = {"name": _name(found[1]), "id": int(found[2])}
    record |= {"compute_capability_major": int(found[3]), "compute_capability_minor": int(found[4])}
    if count := re.search(r", multiprocessors (\d{1,9})\b", body):
        record["num_multiprocessors"] = int(count[1])
    return record, set()


def _context(body: str) -> tuple[dict[str, Any], set[str]]:
    """`computeApiKind CUDA, contextId 1, …`, older `1, device 0, compute API CUDA, NULL stream 7`."""
    if older := re.match(r"\s*(\d{1,10}),", body):
        body = f"contextId {older[1]},{body[older.end() :]}"
    record: dict[str, Any] = {}
    unknown = _pairs("CONTEXT", body, record)
    if "context_id" not in record:
        raise NotARecord
    return _checked(record), unknown


def _marker(body: str) -> tuple[dict[str, Any], set[str]]:
    """`[ t ] id 1, domain d, name n`, older `id 1 [ t ], name n, domain d`; no flag, but only a start has a name."""
    newer = re.match(r"\s*\[ (?P<t>\d{1,20}) \] id (?P<id>\d{1,10}), domain (?P<text>.*)", body, re.DOTALL)
    found = newer or re.match(r"\s*id (?P<id>\d{1,10}) \[ (?P<t>\d{1,20}) \], name (?P<text>.*)", body, re.DOTALL)
    if not found:
        raise NotARecord
    if newer:
        domain, is_whole, text = found["text"].partition(", name ")
        if not is_whole:
            raise NotARecord
    else:
        text, is_whole, domain = found["text"].rpartition(", domain ")
        text = text if is_whole else domain
        domain = domain if is_whole else ""
    name = _name(text.strip())
    flags = MARKER_START if name is not None else MARKER_END
    record = {"timestamp": int(found["t"]), "id": int(found["id"]), "name": name, "domain": _name(domain.strip())}
    return _checked(record | {"flags_": flags}), set()


def _overhead(body: str) -> tuple[dict[str, Any], set[str]]:
    """`KIND [ start, end ] duration n, THREAD, id 7, correlation id 0`, older `KIND [ start, end ] THREAD id 7`."""
    found = _SPAN.match(body)
    if not found or found["end"] is None:
        raise NotARecord
    record: dict[str, Any] = {"start": int(found["start"]), "end": int(found["end"])}
    record["overhead_kind"] = OVERHEADS.get(found["before"].strip())
    if owner := re.search(r"\b(PROCESS|THREAD),? id (\d{1,10})\b", found["after"]):
        record["object_kind"] = OBJECTS[owner[1]]
        record[f"object_id_{owner[1].lower()}_id"] = int(owner[2])
    return _checked(record), set()


def _unified(body: str) -> tuple[dict[str, Any], set[str]]:
    """`[ start, end ] duration n, counterKind K, value 1, address <hex>, …`, older `[ start end ] kind=K …`."""
    found = _SPAN.match(body)
    if not found or found["end"] is None:
        raise NotARecord
    record: dict[str, Any] = {"start": int(found["start"]), "end": int(found["end"])}
    for key, value in re.findall(r"(\w{1,40})[ =](\w{1,40})", found["after"]):
        name = UNIFIED_KEYS.get(key)
        if name == "counter_kind":
            record[name] = UNIFIED_WORDS.get(value)
        elif name == "address":
            record[name] = int(value, 16) if re.fullmatch(r"[0-9a-f]{1,16}", value) else None
        elif name is not None and value.isascii() and value.isdecimal():
            record[name] = int(value)
    return _checked(record), set()
