"""Where time goes: what devices worked on, functions, kernels, profiled kernels, and what could not be told."""

from __future__ import annotations

from dataclasses import dataclass, replace

from reports.source import CaptureTables, Row
from reports.text import duration_text, place_text, plural, tidy, tidy_middle

MAX_ROWS, MAX_GROUPS, MAX_PROFILED = 10, 3, 15
BAR_WIDTH = 880
_KINDS = (
    ("gpu_share", "What {place} worked on", "kind of work"),
    ("operand_type", "What operators of {place} read, by type", "type of operands"),
    ("gpu_kernel", "Kernels and copies of {place}", "operation"),
    ("gpu_function", "Device time by the function that launched it, {place}", "function"),
    ("gpu_range", "Device time by range, {place}", "range"),
    ("cpu_function", "Samples of {what} by function, {place}", "function"),
)
_WORK = {
    "matmul": "matrix products and convolutions",
    "attention": "attention",
    "rotary": "rotary embedding",
    "cast": "casts between types",
    "layout_copy": "copies between layouts",
    "transfer": "copies to and from the device",
    "fill": "fills",
    "communication": "communication between devices",
    "other": "other",
}
_MISSING = {
    "cpu_path": "Time on the processors",
    "gpu_path": "Device time by call path",
    "operand_type": "Types of operands",
    "rounding": "Memory lost to rounding",
    "recomputation": "Work done again for earlier tokens",
}


@dataclass(frozen=True, slots=True)
class Spot:
    """One row: shares are 0 to 1 of the group, `label` is None for the rest that has no row. Amounts are text."""

    label: str | None
    detail: str
    count: int | None
    own: str
    own_ratio: float | None
    total: str | None
    total_ratio: float | None
    key: str = ""
    x: float = 0.0
    width: float = 0.0


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one kind, process and device; their own shares sum to 1. `note` says what they rest on."""

    kind: str
    title: str
    what: str
    has_total: bool
    rows: tuple[Spot, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Profiled:
    """One kernel with its figures of Nsight Compute; ratios 0 to 1, None where not measured."""

    name: str
    where: str
    detail: str
    count: int | None
    time: str
    compute_ratio: float | None
    memory_ratio: float | None
    occupancy_ratio: float | None
    suspect_id: int | None


@dataclass(frozen=True, slots=True)
class Rise:
    """A name whose calls a token rise with the position."""

    name: str
    where: str
    early: float
    late: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Rounding:
    """Bytes that rounding adds on one call path (None: all others)."""

    where: str | None
    count: int | None
    lost_bytes: int | None
    held_bytes: int | None


@dataclass(frozen=True, slots=True)
class Hotspots:
    """All of the section; `missing` are pairs of what is not known and why."""

    groups: tuple[Group, ...]
    groups_left_out: int
    profiled: tuple[Profiled, ...]
    rises: tuple[Rise, ...]
    rounding: tuple[Rounding, ...]
    missing: tuple[tuple[str, str], ...]


def read_hotspots(tables: CaptureTables) -> Hotspots:
    """The largest rows of `hotspots`, each group with a rest that still sums."""
    groups, left_out = [], 0
    for kind, title, what in _KINDS:
        rows = tables.query("hotspots", kind=kind, limit=MAX_ROWS, groups=MAX_GROUPS)
        left_out += max(0, rows[0]["group_count"] - MAX_GROUPS) if rows else 0
        for place in sorted({row["group_place"] for row in rows}):
            groups.append(_group(kind, title, what, [row for row in rows if row["group_place"] == place]))
    return Hotspots(
        tuple(groups),
        left_out,
        tuple(_profiled(row) for row in _query(tables, "profiled_kernel", MAX_PROFILED) if not row["is_other"]),
        tuple(_rise(row) for row in _query(tables, "recomputation", MAX_ROWS)),
        tuple(_roundings(tables)),
        tuple(
            (_MISSING.get(row["hotspot_kind"], tidy(row["hotspot_kind"], 60)), tidy(row["abstained_reason"], 300))
            for row in tables.rows(
                "SELECT hotspot_kind, abstained_reason FROM hotspots WHERE abstained_reason IS NOT NULL"
                " ORDER BY hotspot_id LIMIT 20"
            )
        ),
    )


def _query(tables: CaptureTables, kind: str, limit: int) -> list[Row]:
    return tables.query("hotspots", kind=kind, limit=limit, groups=MAX_GROUPS)


def _amount(value: float | None, unit: str | None) -> str:
    if value is None:
        return "not known"
    if unit == "samples":
        return plural(int(value), "sample")
    return duration_text(value) if unit == "ns" else f"{value:,.0f} {tidy(unit or '', 30)}".rstrip()


def _group(kind: str, title: str, what: str, rows: list[Row]) -> Group:
    first, whole = rows[0], rows[0]["whole"]
    place = place_text(process_id=first["process_id"], device_index=first["device_index"])
    rest_place = "all other processes and devices" if kind.startswith("gpu") else "all processes"
    spots = [_spot(kind, row) for row in rows if not row["is_other"] or kind == "gpu_share"]
    shown = sum(row["self_amount"] or 0 for row in rows if not row["is_other"] or kind == "gpu_share")
    counted = sum(row["call_count"] or 0 for row in rows if not row["is_other"] or kind == "gpu_share")
    if whole and whole > shown:
        rest = whole - shown
        count = int(first["whole_count"] - counted) if first["whole_count"] is not None else None
        spots.append(Spot(None, "", count, _amount(rest, first["unit"]), rest / whole, None, None, "rest"))
    x, placed = 0.0, []
    for number, spot in enumerate(spots):
        width = (spot.own_ratio or 0.0) * BAR_WIDTH
        placed.append(replace(spot, key=spot.key or f"k{number % 10}", x=round(x, 2), width=round(width, 2)))
        x += width
    titled = title.format(place=place or rest_place, what=tidy(first["what"] or "", 60))
    note = next((tidy(row["detail"], 300) for row in rows if row["detail"] and kind == "gpu_share"), "")
    return Group(kind, titled, what, first["total_amount"] is not None, tuple(placed), note)


def _spot(kind: str, row: Row) -> Spot:
    label, detail = tidy_middle(row["name"], 110) if row["name"] is not None else "no name", ""
    if kind == "gpu_share":
        label = _WORK.get(row["name"], label)
    elif kind == "gpu_range":
        label = tidy(row["range_path"], 160) if row["range_path"] is not None else "in no range"
    elif kind == "operand_type":
        detail = tidy(row["detail"], 120)
    elif kind.endswith("function"):
        detail = tidy_middle(row["file"] or row["module"] or "", 60)
    elif row["hotspot_event"] not in (None, "kernel"):
        detail = tidy(row["hotspot_event"], 30)
    return Spot(
        label,
        detail,
        row["call_count"],
        _amount(row["self_amount"], row["unit"]),
        row["self_ratio"],
        None if row["total_amount"] is None else _amount(row["total_amount"], row["unit"]),
        row["total_ratio"],
        "rest" if row["is_other"] else "",
    )


def _leaf(row: Row) -> str:
    """The innermost function of the row's call path."""
    if row["leaf_function"] is None:
        return ""
    file = (row["leaf_file"] or "").rpartition("/")[2]
    place = f" ({tidy(file, 60)}{':' + str(row['leaf_line']) if row['leaf_line'] else ''})" if file else ""
    return f"{tidy_middle(row['leaf_function'], 80)}{place}"


def _profiled(row: Row) -> Profiled:
    where = [tidy(row["range_path"], 120)] if row["range_path"] is not None else []
    where += [_leaf(row)] if row["leaf_function"] is not None else []
    return Profiled(
        tidy_middle(row["name"] or "no name", 110),
        " > ".join(where),
        tidy(row["detail"], 300),
        row["call_count"],
        _amount(row["self_amount"], row["unit"]),
        row["compute_ratio"],
        row["memory_ratio"],
        row["occupancy_ratio"],
        row["suspect_id"],
    )


def _rise(row: Row) -> Rise:
    return Rise(
        tidy(row["name"], 120),
        _leaf(row),
        row["calls_per_token_early"],
        row["calls_per_token_late"],
        row["rise_p_value"],
    )


def _roundings(tables: CaptureTables) -> list[Rounding]:
    """The call paths of the fullest process that lose most, and all others of it as one."""
    rows = [row for row in _query(tables, "rounding", MAX_ROWS) if row["group_place"] == 1]
    shown = [row for row in rows if not row["is_other"]]
    found = [
        Rounding(_leaf(row) or "no call path", row["call_count"], row["self_amount"], row["total_amount"])
        for row in shown
    ]
    if rows and rows[0]["whole"] > sum(row["self_amount"] for row in shown):
        lost = int(rows[0]["whole"]) - sum(row["self_amount"] for row in shown)
        found.append(Rounding(None, None, lost, None))
    return found if any(row.lost_bytes for row in found) else []
