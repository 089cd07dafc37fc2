"""The ledger at its last and its fullest sample: who holds the device's memory."""

from __future__ import annotations

from dataclasses import dataclass

from reports.models.timeline import PART_LABELS
from reports.source import CaptureTables
from reports.text import tidy

MAX_DEVICES = 8
MAX_ROWS = 24
_LABELS = (
    {"device_total": "capacity", "device_used": "used, by the driver's count", "free": "free"}
    | PART_LABELS
    | {"driver_outside": "driver allocations outside torch", "context_and_modules": "context and modules"}
)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One part at the fullest and at the last sample; `process_id` None with `is_rest` sums other processes' rows."""

    key: str
    label: str
    process_id: int | None
    peak_bytes: int | None
    last_bytes: int | None
    is_rest: bool = False


@dataclass(frozen=True, slots=True)
class DeviceLedger:
    """One device. `impossible` are samples whose counters contradict each other, with an example."""

    device_index: int | None
    capacity_bytes: int | None
    peak_ns: int
    last_ns: int
    used: tuple[int | None, int | None]
    rows: tuple[LedgerRow, ...]
    impossible_count: int
    impossible_detail: str


def read_ledgers(tables: CaptureTables) -> tuple[list[DeviceLedger], int]:
    """Ledgers by device, at most `MAX_DEVICES`, and how many more devices there are."""
    devices = tables.query("ledger_devices", parts=list(PART_LABELS))
    ledgers = []
    for device in devices[:MAX_DEVICES]:
        parts = _parts(tables, device["device_index"], device["peak_ns"], device["last_ns"])
        used = next(((r.peak_bytes, r.last_bytes) for r in parts if r.key == "device_used"), (None, None))
        rows = [row for row in parts if row.key in PART_LABELS]
        ledgers.append(
            DeviceLedger(
                device["device_index"],
                device["capacity"],
                device["peak_ns"],
                device["last_ns"],
                used,
                _bounded(rows),
                device["impossible"],
                tidy(device["detail"], 300),
            )
        )
    return ledgers, max(0, len(devices) - MAX_DEVICES)


def _parts(tables: CaptureTables, device_index: int | None, peak_ns: int, last_ns: int) -> list[LedgerRow]:
    rows = tables.query("ledger_parts", device_index=device_index, peak_ns=peak_ns, last_ns=last_ns)
    order = list(_LABELS)
    found = [
        LedgerRow(row["ledger_part"], _LABELS[row["ledger_part"]], row["process_id"], row["peak"], row["last"])
        for row in rows
        if row["ledger_part"] in _LABELS
    ]
    return sorted(found, key=lambda row: order.index(row.key))


def _bounded(rows: list[LedgerRow]) -> tuple[LedgerRow, ...]:
    """The largest rows in ledger order; the rest of a part's processes are summed in one row."""
    if len(rows) <= MAX_ROWS:
        return tuple(rows)
    largest = sorted(rows, key=lambda row: -(row.last_bytes or 0))[: MAX_ROWS - len(PART_LABELS)]
    result = []
    for part in PART_LABELS:
        label = _LABELS[part]
        mine = [row for row in rows if row.key == part]
        result += [row for row in mine if row in largest]
        rest = [row for row in mine if row not in largest]
        if rest:
            peak, last = sum(r.peak_bytes or 0 for r in rest), sum(r.last_bytes or 0 for r in rest)
            result.append(LedgerRow(part, f"{label}, {len(rest)} more processes", None, peak, last, True))
    return tuple(result)
