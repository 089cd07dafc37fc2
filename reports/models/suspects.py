"""Suspects with their leak paths, and the groups of survivors that were looked at and let go."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.wording import LIBRARY_FRAME
from reports.models.attributes import Attributes, read_attributes
from reports.models.causes import Cause, cause_label, read_causes
from reports.source import CaptureTables, Row
from reports.text import epoch_noun, place_text, tidy, tidy_middle

MAX_SUSPECTS = 10
MAX_GROUPS = 20
MAX_FRAMES = 60  # of a leak path; the middle goes first
MAX_HOLDERS = 12
MAX_OWN_PATH = 9

_ADDRESS = re.compile(r"\s*0x[0-9a-f]+\s*$")
_LEVEL_NOUNS = {"tensor": "tensor", "segment": "segment", "driver": "driver allocation", "host": "host allocation"}


@dataclass(frozen=True, slots=True)
class PathFrame:
    """One frame of a leak path; `is_library` marks those outside the user's own code."""

    text: str
    is_library: bool


@dataclass(frozen=True, slots=True)
class OwnFrame:
    """One frame of the user's own code, short: `place` is `file.py:10` without the folder."""

    function: str
    place: str


@dataclass(frozen=True, slots=True)
class Holder:
    """Survivors of one epoch or request; `name` is None for the row of all others."""

    name: str | None
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Suspect:
    """One growing group of survivors, with all that a card shows. Bytes and counts are the table's own."""

    suspect_id: int
    suspect_rank: int | None
    cause: str
    noun: str
    epoch_noun: str
    reason: str
    confidence: float | None
    retained_count: int
    retained_bytes: int
    requested_bytes: int | None
    bounds: tuple[int, int] | None
    growth_per_epoch: float | None
    growth_per_hour: float | None
    epochs_count: int | None
    surviving_epochs_count: int | None
    rank: int | None
    place: str
    member_count: int | None
    frames: tuple[PathFrame, ...]
    own_frame: str
    own_path: tuple[OwnFrame, ...]
    range_path: str
    attribute: str
    attribute_lift: float | None
    attribute_p_value: float | None
    attributes: Attributes | None
    holders: tuple[Holder, ...]
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class LetGo:
    """One group that is no suspect; `verdict` is None for the row that sums the rest."""

    verdict: str | None
    reason: str
    level: str
    where: str
    retained_count: int
    retained_bytes: int
    group_count: int = 1


def read_suspects(tables: CaptureTables) -> tuple[list[Suspect], LetGo | None]:
    """Growing groups by rank, at most `MAX_SUSPECTS`, and a row that sums the others."""
    rows = tables.rows(
        "SELECT * FROM leak_suspects WHERE verdict = 'growing'"
        " ORDER BY suspect_rank NULLS LAST, retained_bytes DESC, suspect_id LIMIT $limit",
        {"limit": MAX_SUSPECTS},
    )
    return [_suspect(tables, row) for row in rows], _rest(tables, "verdict = 'growing'", rows)


def read_let_go(tables: CaptureTables) -> tuple[list[LetGo], LetGo | None]:
    """Groups with another verdict by bytes kept, at most `MAX_GROUPS`, and a row that sums the others."""
    rows = tables.rows(
        "SELECT * FROM leak_suspects WHERE verdict <> 'growing' ORDER BY retained_bytes DESC, suspect_id LIMIT $limit",
        {"limit": MAX_GROUPS},
    )
    groups = [
        LetGo(
            tidy(row["verdict"], 30).replace("_", "-"),
            tidy(row["verdict_reason"], 400),
            tidy(row["level"], 20),
            where_to_look(row["leak_path"]) or tidy_middle(row["range_path"]) or "no call path",
            row["retained_count"],
            row["retained_bytes"],
        )
        for row in rows
    ]
    return groups, _rest(tables, "verdict <> 'growing'", rows)


def _rest(tables: CaptureTables, condition: str, shown: list[Row]) -> LetGo | None:
    (total,) = tables.rows(
        "SELECT count(*) AS n, coalesce(sum(retained_count), 0)::BIGINT AS kept,"
        f" coalesce(sum(retained_bytes), 0)::BIGINT AS bytes FROM leak_suspects WHERE {condition}"
    )
    if total["n"] == len(shown):
        return None
    count = total["kept"] - sum(row["retained_count"] for row in shown)
    size = total["bytes"] - sum(row["retained_bytes"] for row in shown)
    return LetGo(None, "", "", "", count, size, total["n"] - len(shown))


def _suspect(tables: CaptureTables, row: Row) -> Suspect:
    frames = _frames(row["leak_path"])
    low, high = row["retained_bytes_low"], row["retained_bytes_high"]
    return Suspect(
        suspect_id=row["suspect_id"],
        suspect_rank=row["suspect_rank"],
        cause=cause_label(row["root_cause"]),
        noun=_LEVEL_NOUNS.get(row["level"]) or f"{tidy(row['level'], 30)} allocation".strip(),
        epoch_noun=epoch_noun(row["epoch_kind"]),
        reason=tidy(row["verdict_reason"], 1000),
        confidence=row["confidence"],
        retained_count=row["retained_count"],
        retained_bytes=row["retained_bytes"],
        requested_bytes=row["retained_requested_bytes"],
        bounds=None if low is None or high is None or low == high else (low, high),
        growth_per_epoch=row["growth_bytes_per_epoch"],
        growth_per_hour=row["growth_bytes_per_hour"],
        epochs_count=row["epochs_count"],
        surviving_epochs_count=row["surviving_epochs_count"],
        rank=row["rank"],
        place=place_text(rank=row["rank"], process_id=row["process_id"], device_index=row["device_index"]),
        member_count=row["member_count"],
        frames=frames,
        own_frame=_own_frame(frames),
        own_path=_own_path(frames),
        range_path=tidy(row["range_path"], 300),
        attribute=tidy(row["attribute"], 120),
        attribute_lift=row["attribute_lift"],
        attribute_p_value=row["attribute_p_value"],
        attributes=read_attributes(tables, row["suspect_id"], row["process_id"], row["attribute"]),
        holders=_holders(tables, row["suspect_id"], row["process_id"]),
        causes=tuple(read_causes(tables, row["suspect_id"])[0]),
    )


def _frames(leak_path: str | None) -> tuple[PathFrame, ...]:
    """Frames root to leaf, at most `MAX_FRAMES` with the middle cut."""
    lines = [line for line in (leak_path or "").split("\n") if line.strip()]
    head = MAX_FRAMES // 3
    cut = len(lines) - MAX_FRAMES
    if cut > 0:
        lines = [*lines[:head], f"… {cut + 1} frames not shown …", *lines[len(lines) - (MAX_FRAMES - head - 1) :]]
    return tuple(PathFrame(tidy_middle(line, 160), bool(LIBRARY_FRAME.search(line[:4096]))) for line in lines)


def where_to_look(leak_path: str | None) -> str:
    """The frame of a leak path (`leak_suspects.leak_path`) at which a person starts to look; empty without frames."""
    return _own_frame(_frames(leak_path))


def _own_frame(frames: tuple[PathFrame, ...]) -> str:
    """Where to start to look: the last frame of the user's own code, else the last with a name, else the leaf."""
    own = [frame.text for frame in frames if not frame.is_library]
    named = own or [frame.text for frame in frames if not _ADDRESS.match(frame.text)]
    if named:
        return named[-1]
    return f"{frames[-1].text} (native code without symbols)" if frames else ""


def _own_path(frames: tuple[PathFrame, ...]) -> tuple[OwnFrame, ...]:
    """Frames of the user's own code, at most `MAX_OWN_PATH` with the middle cut."""
    own = [OwnFrame(*_short(frame.text)) for frame in frames if not frame.is_library]
    if len(own) > MAX_OWN_PATH:
        own = [*own[:2], OwnFrame("…", ""), *own[len(own) - (MAX_OWN_PATH - 3) :]]
    return tuple(own)


def _short(text: str) -> tuple[str, str]:
    """Function and place of a frame as `function (folder/file:line)`; all of it is the function when it is not."""
    function, opened, place = text.rpartition(" (")
    return (function, place.removesuffix(")").rpartition("/")[2]) if opened and function else (text, "")


def _holders(tables: CaptureTables, suspect_id: int, process_id: int | None) -> tuple[Holder, ...]:
    rows = tables.query("holders", suspect_id=suspect_id, process_id=process_id, limit=MAX_HOLDERS)
    holders = [Holder(_holder_name(row), row["n"], row["bytes"]) for row in rows]
    if rows and rows[0]["holders"] > len(rows):
        n = rows[0]["all_n"] - sum(h.count for h in holders)
        holders.append(Holder(None, n, rows[0]["all_bytes"] - sum(h.bytes for h in holders)))
    return tuple(holders)


def _holder_name(row: Row) -> str:
    if row["request_id"] is not None:
        return f"request {tidy(row['request_id'], 60)}"
    if row["epoch_name"] is not None:
        return tidy(row["epoch_name"], 60)
    return f"epoch {row['epoch_index']}" if row["epoch_index"] is not None else "no epoch"
