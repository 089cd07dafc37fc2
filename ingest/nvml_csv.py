"""NVML samples as CSV: memory and utilisation of each device, and the memory of each process on it.

`timestamp_ns,device_index,used_bytes,free_bytes,total_bytes,gpu_util_pct,mem_util_pct,pid,pid_used_bytes`, one
row a process of a sample, or one with an empty pid when the device has none. The quantities are NVML's
nvmlDeviceGetMemoryInfo, nvmlDeviceGetUtilizationRates and nvmlDeviceGetComputeRunningProcesses
(https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html). `device_index` is NVML's own.
"""

from __future__ import annotations

from pathlib import Path

from ingest.csvrows import CsvRows, has_header
from ingest.numbers import INT32_MAX, MISSING, UINT64_MAX, NumberReader, to_real
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import open_lines
from ingest.units import unit_of

_REQUIRED = ("timestamp_ns", "device_index", "used_bytes")
_ROW = ("metric", "ts_ns", "value", "unit", "process_id", "device_index")
_DEVICE_BYTES = {
    "used_bytes": "device_memory_used_bytes",
    "free_bytes": "device_memory_free_bytes",
    "total_bytes": "device_memory_total_bytes",
}
_DEVICE_PERCENT = {"gpu_util_pct": "gpu_utilization_ratio", "mem_util_pct": "memory_utilization_ratio"}
_PROCESS_BYTES = {"pid_used_bytes": "process_memory_used_bytes"}

_MAX_BYTES = 2**61  # beyond it, differences of two counters no longer fit 64 bits
_NOT_AVAILABLE = str(UINT64_MAX)  # NVML_VALUE_NOT_AVAILABLE, what nvmlProcessInfo_t holds under WDDM and MIG


def sniff(head: bytes, path: Path) -> bool:
    """A header with a time, a device and its used bytes."""
    return has_header(head, _REQUIRED)


class _Reader:
    """Turns rows into samples; a device's values are written once though each of its processes repeats them."""

    def __init__(self, sink: Sink, rows: CsvRows) -> None:
        self._sink, self._rows = sink, rows
        self._numbers = NumberReader(sink)
        self._batch = RowBatch(sink, "metrics", _ROW)
        self._at = {name: place for place, name in enumerate(rows.columns)}
        known = {*_REQUIRED, "pid", *_DEVICE_BYTES, *_DEVICE_PERCENT, *_PROCESS_BYTES}
        extra = sorted(name for name in self._at if name not in known and "." not in name)
        self._process_extra = [name for name in extra if name.startswith(("pid_", "process_"))]
        self._device_extra = [name for name in extra if name not in self._process_extra]
        self._numeric: set[str] = set()
        self._texts: set[str] = set()
        self._sample: dict[int, tuple[int, list[str]]] = {}
        self._processes: dict[int, set[int]] = {}

    def read(self) -> None:
        device_columns = [self._at[name] for name in (*_DEVICE_BYTES, *_DEVICE_PERCENT) if name in self._at]
        for line, fields in self._rows:
            ts_ns = self._numbers.time_ns(fields[self._at["timestamp_ns"]], "timestamp_ns", line)
            device = self._numbers.integer(
                fields[self._at["device_index"]], "device_index", line, damage="damaged_rows"
            )
            if device is not None and device > INT32_MAX:
                self._impossible("device_index beyond 32 bits", line)
                continue
            if ts_ns is None or device is None:
                continue
            values = [fields[place] for place in device_columns]
            known_ts, known_values = self._sample.get(device, (None, []))
            if known_ts != ts_ns:
                self._sample[device] = (ts_ns, values)
                self._processes[device] = set()
                self._device(line, fields, ts_ns, device)
            elif values != known_values:
                detail = f"two readings of device {device} at one time, the first is used, first at line {line}"
                self._sink.count("contradicting_samples", severity="data_loss", detail=detail)
            self._process(line, fields, ts_ns, device)
        self._batch.flush()
        self._numbers.settle_clock()

    def _device(self, line: int, fields: list[str], ts_ns: int, device: int) -> None:
        found: dict[str, int] = {}
        for name, metric in _DEVICE_BYTES.items():
            if (value := self._bytes(fields, name, line)) is not None:
                found[name] = value
                self._batch.add(metric, ts_ns, float(value), "bytes", None, device)
        total = found.get("total_bytes")
        if total is not None and max(found.values()) > total:
            # Written all the same: the ledger is where a counter that can't be true is shown.
            self._impossible(f"used or free above total_bytes of device {device}", line)
        for name, metric in _DEVICE_PERCENT.items():
            if name in self._at and (percent := self._numbers.real(fields[self._at[name]], name, line)) is not None:
                if percent > 100:
                    self._impossible(f"{name} above 100", line)
                else:
                    self._batch.add(metric, ts_ns, percent / 100, "ratio", None, device)
        for name in self._device_extra:
            self._other(name, line, fields, ts_ns, None, device)

    def _process(self, line: int, fields: list[str], ts_ns: int, device: int) -> None:
        pid_text = fields[self._at["pid"]].strip() if "pid" in self._at else ""
        if pid_text.lower() in MISSING:
            return
        pid = self._numbers.integer(pid_text, "pid", line, damage="damaged_rows")
        if pid is None:
            return
        if pid in self._processes[device]:
            # NVML lists a process under compute and graphics with the same bytes: they must not add up.
            self._sink.count("repeated_processes", detail=f"process {pid}, first at line {line}")
            return
        self._processes[device].add(pid)
        for name, metric in _PROCESS_BYTES.items():
            if (value := self._bytes(fields, name, line)) is not None:
                self._batch.add(metric, ts_ns, float(value), "bytes", pid, device)
        for name in self._process_extra:
            self._other(name, line, fields, ts_ns, pid, device)

    def _bytes(self, fields: list[str], name: str, line: int) -> int | None:
        if name not in self._at:
            return None
        text = fields[self._at[name]]
        value = self._numbers.integer("" if text.strip() == _NOT_AVAILABLE else text, name, line)
        if value is not None and value > _MAX_BYTES:
            self._impossible(f"{name} beyond {_MAX_BYTES} bytes", line)
            return None
        return value

    def _other(self, name: str, line: int, fields: list[str], ts_ns: int, pid: int | None, device: int) -> None:
        """A column this format does not know: a series of its own, unless it holds text."""
        text = fields[self._at[name]].strip()
        try:
            self._batch.add(name, ts_ns, to_real(text), unit_of(name), pid, device)
            self._numeric.add(name)
        except ValueError:
            if text.lower() in MISSING:
                self._sink.count("missing_values", detail=f"{name}, first at line {line}")
            elif name in self._numeric:
                self._sink.count("damaged_values", severity="data_loss", detail=f"{name}, first at line {line}")
            elif name not in self._texts:
                self._texts.add(name)
                self._sink.count("text_columns", detail=f"{name} holds text and is left out")

    def _impossible(self, what: str, line: int) -> None:
        self._sink.count("impossible_values", severity="data_loss", detail=f"{what}, first at line {line}")


def read(path: Path, sink: Sink) -> None:
    """Read `metrics`; what is missing, damaged or impossible is counted and not written."""
    with open_lines(path, sink) as lines:
        _Reader(sink, CsvRows(lines, sink, path, _REQUIRED)).read()


IMPORTER = Importer(
    name="nvml_csv",
    priority=40,
    title="NVML device and process memory samples (CSV)",
    source="nvml",
    clock="realtime",
    versions="columns timestamp_ns, device_index, used_bytes; optional free_bytes, total_bytes, gpu_util_pct, "
    "mem_util_pct, pid, pid_used_bytes and others; any order",
    produced_by="`leakpath collect nvml`",
    recipe="leakpath collect nvml",
    left_out="nothing: unknown columns become series of their own",
    reference="https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html",
    tables=("metrics",),
    sniff=sniff,
    read=read,
)
