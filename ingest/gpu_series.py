"""One name and one base unit for a GPU quantity, whatever the tool that printed it calls it.

nvidia-smi's columns after its manual (https://docs.nvidia.com/deploy/nvidia-smi/index.html): its MB are MiB; PCIe
throughput is in units of 1,000. What is `used` here leaves out the driver's reserved memory from driver 510 on
(nvmlDeviceGetMemoryInfo_v2), which NVML's older call counts as used.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ingest.numbers import MISSING, to_real


class Unit(NamedTuple):
    """A printed unit as suffix of a metric's name, base unit, and the factor to it as a fraction."""

    suffix: str
    base: str | None
    times: float = 1.0
    over: float = 1.0

    def of(self, value: float) -> float:
        """`value` in the base unit."""
        return value * self.times / self.over


UNITS = {
    "%": Unit("_ratio", "ratio", over=100),
    "b": Unit("_bytes", "bytes"),
    "bytes": Unit("_bytes", "bytes"),
    "kib": Unit("_bytes", "bytes", 2**10),
    "kb": Unit("_bytes", "bytes", 2**10),
    "mib": Unit("_bytes", "bytes", 2**20),
    "mb": Unit("_bytes", "bytes", 2**20),
    "gib": Unit("_bytes", "bytes", 2**30),
    "gb": Unit("_bytes", "bytes", 2**30),
    "b/s": Unit("_bytes_per_second", "bytes_per_second"),
    "kb/s": Unit("_bytes_per_second", "bytes_per_second", 1e3),
    "mb/s": Unit("_bytes_per_second", "bytes_per_second", 1e6),
    "gb/s": Unit("_bytes_per_second", "bytes_per_second", 1e9),
    "mib/s": Unit("_bytes_per_second", "bytes_per_second", 2**20),
    "w": Unit("_watts", "watts"),
    "mw": Unit("_watts", "watts", over=1e3),
    "j": Unit("_joules", "joules"),
    "mj": Unit("_joules", "joules", over=1e3),
    "c": Unit("_celsius", "celsius"),
    "mhz": Unit("_hertz", "hertz", 1e6),
    "ghz": Unit("_hertz", "hertz", 1e9),
    "mv": Unit("_volts", "volts", over=1e3),
    "s": Unit("_seconds", "seconds"),
    "ms": Unit("_seconds", "seconds", over=1e3),
    "us": Unit("_seconds", "seconds", over=1e6),
    "ns": Unit("_seconds", "seconds", over=1e9),
    "errs": Unit("_total", "count"),
    "ratio": Unit("_ratio", "ratio"),
    "": Unit("", None),
}
"""By the unit in lower case."""

DMON = {
    "pwr": ("gpu_power", "w"),
    "gtemp": ("gpu_temperature", "c"),
    "temp": ("gpu_temperature", "c"),
    "mtemp": ("gpu_memory_temperature", "c"),
    "sm": ("gpu_utilization", "%"),
    "mem": ("memory_utilization", "%"),
    "enc": ("encoder_utilization", "%"),
    "dec": ("decoder_utilization", "%"),
    "jpg": ("jpeg_utilization", "%"),
    "ofa": ("optical_flow_utilization", "%"),
    "mclk": ("memory_clock", "mhz"),
    "pclk": ("processor_clock", "mhz"),
    "pviol": ("power_violation", "%"),
    "tviol": ("is_thermal_violation", ""),
    "fb": ("device_memory_used", "mb"),
    "bar1": ("bar1_memory_used", "mb"),
    "ccpm": ("protected_memory_used", "mb"),
    "sbecc": ("ecc_single_bit_errors", "errs"),
    "dbecc": ("ecc_double_bit_errors", "errs"),
    "pci": ("pcie_replay_errors", "errs"),
    "rxpci": ("pcie_received", "mb/s"),
    "txpci": ("pcie_sent", "mb/s"),
}
"""Column of `nvidia-smi dmon` or `pmon` → name without its unit, unit where no line gives one."""

QUERY = {
    "memory.used": ("device_memory_used", "mib"),
    "memory.free": ("device_memory_free", "mib"),
    "memory.total": ("device_memory_total", "mib"),
    "memory.reserved": ("device_memory_reserved", "mib"),
    "utilization.gpu": ("gpu_utilization", "%"),
    "utilization.memory": ("memory_utilization", "%"),
    "utilization.encoder": ("encoder_utilization", "%"),
    "utilization.decoder": ("decoder_utilization", "%"),
    "utilization.jpeg": ("jpeg_utilization", "%"),
    "utilization.ofa": ("optical_flow_utilization", "%"),
    "power.draw": ("gpu_power", "w"),
    "temperature.gpu": ("gpu_temperature", "c"),
    "temperature.memory": ("gpu_memory_temperature", "c"),
    "clocks.gr": ("graphics_clock", "mhz"),
    "clocks.current.graphics": ("graphics_clock", "mhz"),
    "clocks.sm": ("sm_clock", "mhz"),
    "clocks.current.sm": ("sm_clock", "mhz"),
    "clocks.mem": ("memory_clock", "mhz"),
    "clocks.current.memory": ("memory_clock", "mhz"),
    "clocks.video": ("video_clock", "mhz"),
    "clocks.current.video": ("video_clock", "mhz"),
    "fan.speed": ("fan_speed", "%"),
    "pstate": ("performance_state", ""),
    "used_gpu_memory": ("process_memory_used", "mib"),
    "used_memory": ("process_memory_used", "mib"),
    "max_memory_usage": ("process_memory_max", "mib"),
    "gpu_utilization": ("process_gpu_utilization", "%"),
    "gpu_util": ("process_gpu_utilization", "%"),
    "mem_utilization": ("process_memory_utilization", "%"),
    "mem_util": ("process_memory_utilization", "%"),
    "time": ("process_gpu_time", "ms"),
}
"""Field of `nvidia-smi --query-…` → name without its unit, unit where neither header nor cell gives one."""

_LIKELY_UNITS = (("memory", "mib"), ("utilization", "%"), ("power", "w"), ("temperature", "c"), ("clocks.", "mhz"))
_CELL = re.compile(r"([+-]?\d[\d.,]*(?:[eE][+-]?\d{1,4})?|0x[0-9a-fA-F]{1,16})\s*([%A-Za-z][A-Za-z/]*)?", re.ASCII)
_STATES = {
    "active": 1.0,
    "enabled": 1.0,
    "on": 1.0,
    "yes": 1.0,
    "not active": 0.0,
    "disabled": 0.0,
    "off": 0.0,
    "no": 0.0,
}


def unit_named(text: str) -> Unit | None:
    """The unit that `text` names, as in `MiB`, `[%]` or `GPM:MiB/s`; None for one that is not known."""
    return UNITS.get(text.strip(" []()").removeprefix("GPM:").lower())


def query_series(field: str) -> tuple[str, str]:
    """Name without unit and likely unit of any query field; unknown ones keep their own name, dots as underscores."""
    if field in QUERY:
        return QUERY[field]
    if field.startswith("clocks_") or "reasons" in field:
        return (field.replace(".", "_"), "")
    likely = next((unit for start, unit in _LIKELY_UNITS if field.startswith(start)), "")
    return (re.sub(r"[^a-z0-9]+", "_", field).strip("_"), likely)


def is_missing(text: str) -> bool:
    """Whether a cell says that there is no value: N/A, `[Unknown Error]`, `ERR!`."""
    lowered = text.strip().lower()
    return lowered in MISSING or lowered == "err!" or (lowered.startswith("[") and lowered.endswith("]"))


def parse_cell(text: str) -> tuple[float, str]:
    """`(number, unit)` of a cell as printed: `12 %`, `33,09 W`, `1.024,5 MiB`, `0x0004`, `P0`, `Not Active`.

    The unit is empty when the cell has none. Raises ValueError when the cell holds no number.
    """
    text = text.replace("\xa0", " ").strip()
    match = _CELL.fullmatch(text)
    if match is None:
        lowered = text.lower()
        if lowered in _STATES:
            return _STATES[lowered], ""
        if len(lowered) <= 3 and lowered[:1] == "p" and lowered[1:].isdecimal() and lowered.isascii():
            return float(lowered[1:]), ""
        raise ValueError(f"not a number: {text[:40]!r}")
    number, unit = match[1], match[2] or ""
    if number.startswith("0x"):
        return float(int(number, 16)), unit
    if "," in number:
        # The last of the two marks is the decimal one.
        mark = "," if number.rfind(",") > number.rfind(".") else "."
        number = number.replace("." if mark == "," else ",", "").replace(",", ".")
    return to_real(number), unit
