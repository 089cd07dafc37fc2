"""The analysis' settings, defined once: the JSON Schema, docs/config.md and the checks are derived from here.

Every threshold of the method is a field with its default. `load_config` merges a YAML file over the
defaults; what it does not name keeps its default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from schemas.capture import SLO_TARGETS, request_columns_schema
from schemas.compare_settings import CompareSettings
from schemas.documents import read_document
from schemas.host_settings import HostSettings
from schemas.settings import setting as _setting
from schemas.stall_settings import StallSettings

_COLUMN_MAP: str = request_columns_schema()["description"]
_JSON_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How capture files are read."""

    request_columns: Mapping[str, str] = _setting({}, _COLUMN_MAP)


@dataclass(frozen=True, slots=True)
class LeakSettings:
    """When survivors count as a leak."""

    min_growth_bytes: int = _setting(
        1024, "Growth over the whole capture below which live bytes count as level.", unit="bytes", minimum=0
    )
    min_age_epochs: int = _setting(3, "Epochs that the older survivors must have outlived.", unit="count", minimum=1)
    min_epochs: int = _setting(4, "Fewer epochs than this allow no judgement of growth.", unit="count", minimum=2)
    max_p_value: float = _setting(
        0.01,
        "Highest p-value at which a rise of live bytes counts (Mann–Kendall; exact permutation with few epochs).",
        unit="ratio",
        minimum=0,
        maximum=1,
    )
    attribute_max_p_value: float = _setting(
        0.01,
        "Highest p-value (Fisher's exact test) at which a request attribute tells leaking epochs from the rest.",
        unit="ratio",
        minimum=0,
        maximum=1,
    )
    time_windows: int = _setting(
        20, "Equal time windows to judge over when nothing in the capture repeats.", unit="count", minimum=4
    )


@dataclass(frozen=True, slots=True)
class RootCauseSettings:
    """What the root-cause rules look for."""

    kv_cache_frames: tuple[str, ...] = _setting(
        (),
        "Parts of a function, file or class name, in any case, that name a key/value cache, besides those of common"
        " frameworks (`pipeline/leaks/frame_rules.yaml`).",
    )
    context_min_bytes: int = _setting(
        64 * 1024 * 1024,
        "Device memory of a process without allocator activity from which it counts as an idle context.",
        unit="bytes",
        minimum=0,
    )
    graph_pool_min_bytes: int = _setting(
        64 * 1024 * 1024, "Bytes of growing private pools below which nothing is said.", unit="bytes", minimum=0
    )
    delayed_free_min_bytes: int = _setting(
        64 * 1024 * 1024,
        "Bytes that wait for a stream at the highest point below which nothing is said.",
        unit="bytes",
        minimum=0,
    )
    delayed_free_min_ratio: float = _setting(
        0.1, "Their least share of what is not free at that moment.", unit="ratio", minimum=0, maximum=1
    )
    redundant_kv_min_bytes: int = _setting(
        1024 * 1024, "Bytes of caches held more than once below which nothing is said.", unit="bytes", minimum=0
    )


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """When the caching allocator counts as fragmented."""

    fragmentation_min_bytes: int = _setting(
        64 * 1024 * 1024, "Free reserved bytes at the end below which nothing is said.", unit="bytes", minimum=0
    )
    fragmentation_min_ratio: float = _setting(
        0.75, "Share of the reserved bytes that must be free at the end.", unit="ratio", minimum=0, maximum=1
    )


@dataclass(frozen=True, slots=True)
class SloSettings:
    """Objectives that requests are judged by; targets in capture.yaml go before these."""

    latency_p99_seconds: float = _setting(1.8, SLO_TARGETS["latency_p99_seconds"], unit="seconds", minimum=0)
    short_latency_p95_seconds: float = _setting(
        0.2, SLO_TARGETS["short_latency_p95_seconds"], unit="seconds", minimum=0
    )
    short_tokens: int = _setting(
        128, "Prompt and output tokens together up to which a request counts as short.", unit="count", minimum=1
    )
    first_token_p95_seconds: float = _setting(0.45, SLO_TARGETS["first_token_p95_seconds"], unit="seconds", minimum=0)
    max_error_ratio: float = _setting(0.0002, SLO_TARGETS["max_error_ratio"], unit="ratio", minimum=0, maximum=1)
    max_truncation_ratio: float = _setting(
        0.00005, SLO_TARGETS["max_truncation_ratio"], unit="ratio", minimum=0, maximum=1
    )
    requests_per_second: float = _setting(1.0, SLO_TARGETS["requests_per_second"], unit="1/s", minimum=0)
    window_seconds: int = _setting(300, "Length of a sliding window.", unit="seconds", minimum=1)
    window_requests: int = _setting(1000, "Requests of a sliding window.", unit="count", minimum=10)
    min_requests: int = _setting(
        10, "Fewer requests than this in a window allow no judgement.", unit="count", minimum=1
    )
    error_statuses: tuple[str, ...] = _setting(
        ("5*", "error*", "fail*", "timeout*", "oom*"), "Statuses (with * and ?, lower case) of requests that failed."
    )
    truncated_statuses: tuple[str, ...] = _setting(
        ("499", "504", "abort*", "cancel*", "truncat*", "incomplete*", "disconnect*"),
        "Statuses (with * and ?, lower case) of requests whose answer was cut.",
    )


@dataclass(frozen=True, slots=True)
class SymptomSettings:
    """When a pattern of tokens or requests points to the model, the cache or the network."""

    interval_growth_min_ratio: float = _setting(
        0.5, "Growth of the token interval over the seen positions, as a share of the interval at their start.",
        unit="ratio", minimum=0,
    )  # fmt: skip
    pause_min_ratio: float = _setting(
        10.0, "Times the median token interval from which a wait counts as a pause.", unit="ratio", minimum=1
    )
    pause_min_seconds: float = _setting(0.2, "Shortest wait that counts as a pause.", unit="seconds", minimum=0)
    pause_min_requests: int = _setting(3, "Requests that must have paused.", unit="count", minimum=1)
    cut_min_requests: int = _setting(3, "Requests that must have been cut at one time.", unit="count", minimum=2)
    cut_min_seconds: float = _setting(1.0, "Shortest time that counts as a time-out.", unit="seconds", minimum=0)
    cut_max_spread_ratio: float = _setting(
        0.05, "Width of the times at which requests were cut, as a share of their median.", unit="ratio", minimum=0
    )


@dataclass(frozen=True, slots=True)
class HotspotSettings:
    """What of the time by call path is listed, and when it is a finding."""

    rows: int = _setting(
        50, "Rows of `hotspots` of a kind, process and device; the rest is one.", unit="count", minimum=1
    )
    copy_min_ratio: float = _setting(
        0.25, "Share of the device's busy time in copies between layouts and types.", unit="ratio", minimum=0, maximum=1
    )
    rounding_min_bytes: int = _setting(
        64 * 1024 * 1024, "Bytes that rounding adds to live tensors at their peak.", unit="bytes", minimum=0
    )
    rounding_min_ratio: float = _setting(0.1, "Share that those bytes must have.", unit="ratio", minimum=0, maximum=1)
    float_min_ratio: float = _setting(
        0.25, "Share of float in what operators of a half-precision model read.", unit="ratio", minimum=0, maximum=1
    )
    recomputation_min_ratio: float = _setting(
        0.5, "Rise of the calls a token from the first to the last third of the positions.", unit="ratio", minimum=0
    )
    recomputation_min_calls: float = _setting(1.0, "The same as calls a token.", unit="count", minimum=0)
    max_p_value: float = _setting(
        0.01, "Highest p-value at which calls rise with the position.", unit="ratio", minimum=0, maximum=1
    )


@dataclass(frozen=True, slots=True)
class SeriesSettings:
    """Series that are thinned for the report."""

    max_points: int = _setting(
        4000,
        "Points kept of each series of live bytes; peaks and the last point are always kept.",
        unit="count",
        minimum=10,
    )


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of `leakpath ingest`, `leakpath analyze` and `leakpath run`, one section a field."""

    ingest: IngestSettings = field(default_factory=IngestSettings)
    leaks: LeakSettings = field(default_factory=LeakSettings)
    root_causes: RootCauseSettings = field(default_factory=RootCauseSettings)
    allocator: AllocatorSettings = field(default_factory=AllocatorSettings)
    slo: SloSettings = field(default_factory=SloSettings)
    symptoms: SymptomSettings = field(default_factory=SymptomSettings)
    stalls: StallSettings = field(default_factory=StallSettings)
    hotspots: HotspotSettings = field(default_factory=HotspotSettings)
    host: HostSettings = field(default_factory=HostSettings)
    series: SeriesSettings = field(default_factory=SeriesSettings)
    compare: CompareSettings = field(default_factory=CompareSettings)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The settings as plain nested data, ready for JSON or YAML."""
        return {
            section.name: {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in dataclasses.asdict(getattr(self, section.name)).items()
            }
            for section in dataclasses.fields(self)
        }


def sections() -> dict[str, Any]:
    """Section name to its settings class, in order."""
    return {name: kind for name, kind in get_type_hints(Config).items() if name in Config.__dataclass_fields__}


def _property(setting: dataclasses.Field[Any], kind: Any) -> dict[str, Any]:
    unit = f" Unit: {setting.metadata['unit']}." if setting.metadata["unit"] else ""
    found: dict[str, Any] = {"description": setting.metadata["sentence"] + unit}
    if get_origin(kind) is Mapping:
        found = request_columns_schema() | found | {"default": {}}
    elif get_origin(kind) is tuple:
        item = _JSON_TYPES[get_args(kind)[0]]
        assert callable(setting.default_factory)
        default = list(setting.default_factory())
        found |= {"type": "array", "items": {"type": item, "minLength": 1}, "default": default}
    else:
        found |= {"type": _JSON_TYPES[kind], "default": setting.default}
    return found | {
        name: setting.metadata[name] for name in ("minimum", "maximum") if setting.metadata[name] is not None
    }


@cache
def config_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the configuration file."""
    properties: dict[str, Any] = {}
    for name, kind in sections().items():
        hints = get_type_hints(kind)
        properties[name] = {
            "type": "object",
            "description": (kind.__doc__ or "").strip(),
            "additionalProperties": False,
            "properties": {
                setting.name: _property(setting, hints[setting.name]) for setting in dataclasses.fields(kind)
            },
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "leakpath configuration",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def config_from(data: dict[str, Any]) -> Config:
    """Settings from checked plain data over the defaults."""
    built = {}
    for name, kind in sections().items():
        given = data.get(name) or {}
        built[name] = kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})
    return Config(**built)


def load_config(path: Path | None) -> Config:
    """Settings of a YAML or JSON file over the defaults; the defaults alone for None.

    Raises BadInput with the place and the reason when the file is missing, no YAML, or against the schema.
    """
    return Config() if path is None else config_from(read_document(path, config_schema()))
