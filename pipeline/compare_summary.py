"""What a comparison needs to know of one capture, and how it is kept in a file (`leakpath-baseline`, version 1).

A summary is read from an analysed capture's tables or from such a file; comparisons see summaries alone, so that both
give the same answer. Times are ns, sizes bytes. Lists that are called a unit's have one value a unit: an epoch, or of
very long captures a group of consecutive ones.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

SCHEMA: Literal["leakpath-baseline"] = "leakpath-baseline"
VERSION: Literal[1] = 1
MAX_UNITS = 1000
MAX_REQUESTS = 5000
MAX_PATHS = 1000
MAX_DEPTH = 120
MAX_SUSPECTS = 20

Size = Annotated[int, Meta(ge=0, le=2**62)]
Position = Annotated[int, Meta(ge=0, le=2**31)]
Text = Annotated[str, Meta(max_length=2000)]
UnitSizes = Annotated[list[Size | None], Meta(max_length=MAX_UNITS)]


class Epochs(Struct, kw_only=True, forbid_unknown_fields=True):
    """What repeats. `sizes` is a unit's number of epochs; durations and peaks are null where not known."""

    kind: Text | None
    count: Size
    span_ns: Size | None
    sizes: Annotated[list[Size], Meta(max_length=MAX_UNITS)]
    durations_ns: UnitSizes
    allocated_peaks: UnitSizes
    reserved_peaks: UnitSizes
    leaked_bytes: Annotated[list[Size], Meta(max_length=MAX_UNITS)]


class Requests(Struct, kw_only=True, forbid_unknown_fields=True):
    """Latencies are in order of arrival. `gaps_ns` are from one request's end to the next one's (of many requests, of
    groups of them), with how many of them were answered whole and their tokens."""

    count: Size
    models: Annotated[list[Text], Meta(max_length=100)]
    prompt_tokens: Size | None
    output_tokens: Size | None
    latencies_ns: Annotated[list[Size], Meta(max_length=MAX_REQUESTS)]
    latencies_count: Size
    gaps_ns: Annotated[list[Size], Meta(max_length=MAX_REQUESTS)]
    whole_counts: Annotated[list[Size], Meta(max_length=MAX_REQUESTS)]
    token_counts: Annotated[list[Size], Meta(max_length=MAX_REQUESTS)]


class Memory(Struct, kw_only=True, forbid_unknown_fields=True):
    """Peaks: of what was handed out and of what was reserved (each process at its own moment), and of the devices."""

    allocated_peak_bytes: Size | None
    reserved_peak_bytes: Size | None
    device_peak_bytes: Size | None


class Leaks(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether it leaks: `leak`, `none` or `unknown`, with the reason or the findings' titles."""

    state: Literal["leak", "none", "unknown"]
    titles: Annotated[list[Text], Meta(max_length=MAX_SUSPECTS)]
    suspects_count: Size
    retained_bytes: Size
    growth_bytes_per_epoch: float | None
    growth_bytes_per_hour: float | None


class PathSums(Struct, kw_only=True, forbid_unknown_fields=True):
    """Allocations of one kind of memory: of one call path, or all that have no row of their own."""

    level: Text
    memory_kind: Text | None
    rank: Annotated[int, Meta(ge=-(2**31), le=2**31)] | None
    end_bytes: Size
    end_count: Size
    peak_bytes: Size
    peak_count: Size
    allocated_bytes: Size
    allocated_count: Size
    leaked_bytes: Size


class PathRow(PathSums, kw_only=True, forbid_unknown_fields=True):
    """One call path. `frames` are places in the summary's list, root first; `kept` is bytes live at the end by unit,
    as far as they vary by epoch."""

    frames: Annotated[list[Position], Meta(max_length=MAX_DEPTH + 1)]
    lifetime_count: Size
    lifetime_p50_ns: Size | None
    lifetime_p95_ns: Size | None
    kept: Annotated[list[tuple[Position, Size]], Meta(max_length=MAX_UNITS)]
    leaked: Annotated[list[tuple[Position, Size]], Meta(max_length=MAX_UNITS)]


class OtherRow(PathSums, kw_only=True, forbid_unknown_fields=True):
    """The sum of `paths_count` smaller call paths."""

    paths_count: Size


class Summary(Struct, kw_only=True, forbid_unknown_fields=True):
    """One capture for comparisons."""

    schema: Literal["leakpath-baseline"]
    version: Literal[1]
    leakpath: Text
    capture: Text
    digest: Text
    devices: Annotated[list[Text], Meta(max_length=1000)]
    settings: Annotated[dict[Text, Text], Meta(max_length=1000)]
    epochs: Epochs
    requests: Requests
    memory: Memory
    leaks: Leaks
    frames: Annotated[list[Text], Meta(max_length=MAX_PATHS * (MAX_DEPTH + 1))]
    paths: Annotated[list[PathRow], Meta(max_length=MAX_PATHS)]
    others: Annotated[list[OtherRow], Meta(max_length=10_000)]


class Header(Struct):
    """The two keys that say what a file is."""

    schema: str = ""
    version: int = 0


def encode(summary: Summary) -> bytes:
    """The file's bytes: JSON, keys in the declared order."""
    return msgspec.json.encode(summary) + b"\n"
