"""One log of `nvidia-smi -q`: indented sections of `key : value`, a part for each device.

https://docs.nvidia.com/deploy/nvidia-smi/index.html, section "GPU Attributes". A series is named after its sections and
key unless it is one that other tools print too. A device's index is its place in the log when the log holds all
attached devices, else only its bus id is known.
"""

from __future__ import annotations

import re
from typing import Any

from ingest.gpu_samples import GpuSamples, labels_json
from ingest.gpu_series import UNITS, is_missing, parse_cell
from ingest.sink import Sink
from ingest.wallclock import WallClock

LOG_LINE = re.compile(r"=+NVSMI LOG=+")
MAX_HELD = 50_000

_GPU = re.compile(r"GPU ([0-9A-Fa-f:.]{5,20})\s*", re.ASCII)
_COUNTED = ("ecc errors", "remapped rows", "retired pages")
_NAMES = {
    "fb memory usage/total": "device_memory_total",
    "fb memory usage/reserved": "device_memory_reserved",
    "fb memory usage/used": "device_memory_used",
    "fb memory usage/free": "device_memory_free",
    "memory usage/total": "device_memory_total",
    "memory usage/used": "device_memory_used",
    "memory usage/free": "device_memory_free",
    "bar1 memory usage/total": "bar1_memory_total",
    "bar1 memory usage/used": "bar1_memory_used",
    "bar1 memory usage/free": "bar1_memory_free",
    "conf compute protected memory usage/used": "protected_memory_used",
    "utilization/gpu": "gpu_utilization",
    "utilization/memory": "memory_utilization",
    "utilization/encoder": "encoder_utilization",
    "utilization/decoder": "decoder_utilization",
    "utilization/jpeg": "jpeg_utilization",
    "utilization/ofa": "optical_flow_utilization",
    "temperature/gpu": "gpu_temperature",
    "temperature/gpu current temp": "gpu_temperature",
    "temperature/memory current temp": "gpu_memory_temperature",
    "power readings/power draw": "gpu_power",
    "gpu power readings/power draw": "gpu_power",
    "gpu power readings/instantaneous power draw": "gpu_power",
    "gpu power readings/average power draw": "gpu_power_average",
    "gpu power readings/current power limit": "gpu_power_limit",
    "clocks/graphics": "graphics_clock",
    "clocks/sm": "sm_clock",
    "clocks/memory": "memory_clock",
    "clocks/video": "video_clock",
    "fan speed": "fan_speed",
    "performance state": "performance_state",
    "pci/tx throughput": "pcie_sent",
    "pci/rx throughput": "pcie_received",
}
_PROCESS_NAMES = {
    "used gpu memory": "process_memory_used",
    "gpu utilization": "process_gpu_utilization",
    "memory utilization": "process_memory_utilization",
    "max memory usage": "process_memory_max",
    "time": "process_gpu_time",
}


class ReportReader:
    """Takes the lines of one log; `end` writes its samples."""

    def __init__(self, sink: Sink, samples: GpuSamples, clock: WallClock) -> None:
        self._sink, self._samples, self._clock = sink, samples, clock
        self._ts_ns: int | None = None
        self._attached: int | None = None
        self._buses: list[str] = []
        self._sections: list[tuple[int, str]] = []
        self._process: dict[str, str] = {}
        self._mig: dict[str, str] = {}
        self._held: list[tuple[int, str, str, int, dict[str, Any]]] = []

    def line(self, line: str, number: int) -> None:
        """One line below the log's heading."""
        text = line.strip()
        if not text:
            return
        if match := _GPU.fullmatch(line):
            self._buses.append(match[1])
            self._sections, self._process, self._mig = [], {}, {}
            return
        key, colon, value = f"{text} ".partition(": ")
        key, value = key.strip().lower(), value.strip()
        indent = len(line) - len(line.lstrip())
        while self._sections and self._sections[-1][0] >= indent:
            if self._sections.pop()[1] in ("mig device", "mig devices"):
                self._mig = {}
        if not colon:
            self._sections.append((indent, text.lower()))
            self._process = {} if text.lower() in ("processes", "accounted processes") else self._process
            return
        if not self._buses:
            self._about_all(key, value, number)
        elif key in ("process id", "gpu instance id", "compute instance id", "type", "name", *_PROCESS_NAMES):
            self._about_process(key, value, number)
        else:
            self._about_device(key, value, number)
        # What is indented below a leaf belongs to it: a process's numbers, a slowdown's reasons.
        self._sections.append((indent, key))

    def _about_all(self, key: str, value: str, number: int) -> None:
        if key == "timestamp":
            self._ts_ns = self._clock.time_ns(value, number)
        elif key == "driver version":
            self._sink.format_version = self._sink.format_version or value
        elif key == "attached gpus" and value.isascii() and value.isdecimal() and len(value) < 6:
            self._attached = int(value)

    def _about_process(self, key: str, value: str, number: int) -> None:
        if key == "process id":
            self._process = {"pid": value} | {k: v for k, v in self._process.items() if k.endswith("instance_id")}
        elif key.endswith(" instance id") and self._sections and self._sections[-1][1] == "processes":
            self._process = {k: v for k, v in self._process.items() if k.endswith("instance_id")}
            self._process[key.replace(" ", "_")] = "" if is_missing(value) else value
        elif key in ("type", "name") and "pid" in self._process:
            self._process[f"process_{key}"] = value
        elif key in _PROCESS_NAMES and "pid" in self._process:
            self._hold(_PROCESS_NAMES[key], value, number, dict(self._process))
        else:
            self._about_device(key, value, number)

    def _about_device(self, key: str, value: str, number: int) -> None:
        sections = [name for _, name in self._sections]
        in_mig = any(name.startswith("mig device") for name in sections)
        if in_mig and key in ("index", "gpu instance id", "compute instance id"):
            self._mig["mig_device" if key == "index" else key.replace(" ", "_")] = value
            return
        path = [name for name in sections if not name.startswith("mig device")] + [key]
        name = _NAMES.get("/".join(path[-2:])) or _NAMES.get("/".join(path))
        try:
            printed = parse_cell(value)[1]
        except ValueError:
            printed = ""
        if name is None:
            counted = path[0] in _COUNTED and value.isascii() and value.isdecimal()
            if not counted and (not printed or printed.lower() not in UNITS):
                if not is_missing(value):
                    self._sink.count("settings_left_out", detail=f"{'/'.join(path)}"[:120])
                return
            name = re.sub(r"[^a-z0-9]+", "_", "_".join(path)).strip("_")
        self._hold(
            f"mig_{name.removeprefix('device_')}" if in_mig else name, value, number, dict(self._mig) if in_mig else {}
        )

    def _hold(self, name: str, value: str, number: int, labels: dict[str, str]) -> None:
        if len(self._held) >= MAX_HELD:
            self._write(is_whole=False)
        self._held.append((len(self._buses) - 1, name, value, number, labels))

    def end(self) -> None:
        """Write the log's samples."""
        self._write(is_whole=self._attached == len(self._buses))

    def _write(self, *, is_whole: bool) -> None:
        for device, name, value, number, labels in self._held:
            pid = labels.pop("pid", "")
            if pid and not (pid.isascii() and pid.isdecimal() and len(pid) <= 10):
                self._sink.count("damaged_rows", severity="data_loss", detail=f"process id, first at line {number}")
                continue
            self._samples.cell(
                name,
                value,
                number,
                self._ts_ns,
                process_id=int(pid) if pid else None,
                device_index=device if is_whole else None,
                labels=labels_json({"gpu_bus_id": self._buses[device], **labels}),
            )
        self._held.clear()
