"""Takes CUPTI records, kind by kind, and writes them to the tables of a sink; the same for every file layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import polars as pl

from ingest.callpaths import clean_text
from ingest.clocks import Clock, ClockPair
from ingest.cupti_columns import Rows
from ingest.cupti_enums import COLUMNS, ENUMS, KIND_NAMES
from ingest.cupti_memory import LIFETIMES
from ingest.cupti_ranges import ATTRIBUTES, RangePairs
from ingest.cupti_rows import IDENTITIES, IDENTITY_KEYS, ROWS
from ingest.sink import Sink

MAX_HELD_ROWS = 1_000_000
"""MEMORY records that wait to see whether MEMORY2 tells the same allocations better."""

MAX_DETAILS, MAX_DETAIL = 1000, 80
"""How many different unknown names are told apart, and their length."""

_CLOCKS: tuple[Clock, ...] = tuple(clock for clock in get_args(Clock) if clock != "unknown")
_SAME_CLOCK_NS = 1_000_000
_FAR_CLOCK_NS = 60_000_000_000
_REALTIME_FROM_NS = 10**18  # September 2001; no monotonic clock counts up to there
_INT64_MAX = (1 << 63) - 1
_TIMES = ("timestamp", "start")


class CuptiRecords:
    """The tables of one CUPTI file.

    `pid` is the process of records that name none. `add` takes frames with a column `event_index` and any of the
    attributes in `COLUMNS`; `flush` writes what was added, in the file's order; `finish` writes what had to wait for
    the end of the file.
    """

    def __init__(self, sink: Sink) -> None:
        self.pid: int | None = None
        self._sink = sink
        self._ranges = RangePairs()
        self._held: list[pl.DataFrame] | None = []
        self._held_rows = 0
        self._added: dict[str, list[pl.DataFrame]] = {}
        self._seen: dict[str, set[tuple[Any, ...]]] = {table: set() for table in IDENTITY_KEYS}
        self._processes: dict[int, None] = {}
        self._unused: dict[str, Counter[str]] = {"unused_kinds": Counter(), "unknown_kinds": Counter()}
        self._unknown_keys: set[str] = set()
        self._is_clock_known = False

    def note(self, kind: str, note: Mapping[str, Any]) -> None:
        """A `_HEADER` or `_FOOTER`: process, clocks, lost records."""
        if (pid := _int(note.get("pid"))) is not None:
            self.pid = pid
            self._processes.setdefault(pid)
            self._sink.process_id = self._sink.process_id or pid
        if isinstance(host := note.get("hostname"), str):
            self._sink.host = self._sink.host or clean_text(host, MAX_DETAIL)
        clocks = note.get("clock")
        pair = {name: _int(clocks.get(name)) for name in (*_CLOCKS, "width_ns")} if isinstance(clocks, Mapping) else {}
        known = {told.realtime_ns for told in self._sink.clock_pairs}
        realtime = pair.get("realtime")
        if realtime is not None and realtime not in known and len(known) < MAX_DETAILS:
            rest = (pair["monotonic"], pair["boottime"], pair["monotonic_raw"], pair["width_ns"])
            self._sink.clock_pairs.append(ClockPair(realtime, *rest, "start" if kind == "_HEADER" else "end"))
        if kind == "_HEADER" and not self._is_clock_known:
            clock = _clock_of(note.get("clock_name"), pair, _int(note.get("cupti_timestamp")))
            if clock is not None:
                self._sink.clock, self._is_clock_known = clock, True
        for key in ("dropped_records", "skipped_records"):
            lost = note.get(key)
            count = sum(filter(None, map(_int, lost.values()))) if isinstance(lost, Mapping) else _int(lost)
            self._sink.count(f"cupti_{key}", count or 0, severity="data_loss", detail=f"told by the file's {kind}")
        muted = _int(note.get("muted_records")) or 0
        self._sink.count("cupti_muted_records", muted, detail="left out on purpose by the recorder")

    def unknown_keys(self, kind: str, keys: Iterable[str]) -> None:
        """Attributes of a kind that is read which no known CUPTI version has."""
        for key in sorted(keys)[:MAX_DETAILS]:
            if len(self._unknown_keys) < MAX_DETAILS:
                self._unknown_keys.add(f"{kind}.{clean_text(key, MAX_DETAIL)}")

    @staticmethod
    def attributes(kind: str) -> list[str]:
        """What `add` looks at in records of the kind, `event_index` among it; nothing for a kind it has no use for."""
        if kind == "MARKER":
            return list(ATTRIBUTES)
        rows = [*filter(None, (ROWS.get(kind), IDENTITIES.get(kind))), *(LIFETIMES if kind == "MEMORY" else ())]
        names = {name for table_rows in rows for name in table_rows.attributes}
        return ["event_index", *sorted(names - {"event_index"})] if rows else []

    def leave_out(self, kind: str, number: int) -> None:
        """Count records of a kind that no table is made from."""
        kinds = self._unused["unused_kinds" if kind in KIND_NAMES else "unknown_kinds"]
        kinds[clean_text(kind, MAX_DETAIL) if len(kinds) < MAX_DETAILS else "others"] += number

    def add(self, kind: str, records: pl.DataFrame) -> None:
        """Take the records of one kind."""
        if not records.height:
            return
        self._check(kind, records)
        if rows := ROWS.get(kind):
            if kind == "MEMORY2":
                self._sink.count("memory_records_superseded", self._drop_held(), detail="MEMORY2 tells the same")
            self._put(rows.table, self._rows(rows, records))
        elif rows := IDENTITIES.get(kind):
            self._put_new(rows, records)
        elif kind == "MARKER":
            self._put_ranges(self._ranges.add(self._complete(records, ATTRIBUTES)))
        elif kind == "MEMORY":
            self._hold(records)
        else:
            self.leave_out(kind, records.height)

    def flush(self) -> None:
        """Write the rows of all records taken since the last call."""
        for table, frames in self._added.items():
            rows = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal")
            if len(frames) > 1 and "event_index" in rows.columns:
                rows = rows.sort("event_index")
            arrow = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
            self._sink.write(table, dict(zip(arrow.column_names, arrow.columns, strict=True)))
        self._added.clear()

    def finish(self) -> None:
        """Write what waited for the end of the file, and the counts."""
        self._put_held()
        self._put_ranges(self._ranges.finish())
        self.flush()
        self._sink.process_id = self._sink.process_id or self.pid
        count = self._sink.count
        count("ranges_not_closed", self._ranges.unclosed, detail="the recording ended inside these ranges")
        count("range_ends_without_start", self._ranges.unopened, detail="the ranges began before the recording")
        count("markers_of_unknown_kind", self._ranges.unknown)
        for name, kinds in self._unused.items():
            detail = ", ".join(f"{kind} {number}" for kind, number in kinds.most_common(20))
            count(name, kinds.total(), detail=detail)
        count("unknown_keys", len(self._unknown_keys), detail=", ".join(sorted(self._unknown_keys)[:20]))
        self._sink.write("processes", {"process_id": list(self._processes)}, rank=self._sink.rank, host=self._sink.host)

    def _complete(self, records: pl.DataFrame, attributes: Iterable[str]) -> pl.DataFrame:
        """The attributes asked for, null where the records have none; `process_id` falls back to the file's."""
        wanted = dict.fromkeys(attributes)
        columns = [
            pl.col(name) if name in records.columns else pl.lit(None, COLUMNS[name]).alias(name) for name in wanted
        ]
        complete = records.select(columns)
        if "process_id" in wanted:
            own = pl.when(pl.col("process_id") != 0).then("process_id")
            complete = complete.with_columns(pl.coalesce(own, pl.lit(self.pid, pl.Int64)).alias("process_id"))
        return complete

    def _rows(self, rows: Rows, records: pl.DataFrame) -> pl.DataFrame:
        made = self._complete(records, rows.attributes).select(
            expression.alias(name) for name, expression in rows.columns.items()
        )
        own = made["process_id"] if "process_id" in made.columns else pl.Series("process_id", [], pl.Int64)
        if own.null_count() or not len(own):
            made = made.with_columns(
                pl.coalesce(*(["process_id"] if len(own) else []), pl.lit(self.pid, pl.Int64)).alias("process_id")
            )
        for pid in own.drop_nulls().unique(maintain_order=True):
            self._processes.setdefault(pid)
        return made

    def _put_ranges(self, rows: pl.DataFrame) -> None:
        if rows.height:
            for pid in rows["process_id"].drop_nulls().unique(maintain_order=True):
                self._processes.setdefault(pid)
            self._put("ranges", rows)

    def _put_new(self, rows: Rows, records: pl.DataFrame) -> None:
        """Take the things not told before; a repeated record adds nothing."""
        key, seen = IDENTITY_KEYS[rows.table], self._seen[rows.table]
        made = self._rows(rows, records).unique(key, keep="first", maintain_order=True)
        fresh = [found not in seen for found in made.select(key).iter_rows()]
        seen.update(made.select(key).iter_rows())
        self._put(rows.table, made.filter(pl.Series(fresh, dtype=pl.Boolean)))

    def _hold(self, records: pl.DataFrame) -> None:
        if self._held is None:
            self._sink.count("memory_records_superseded", records.height)
            return
        self._held.append(pl.concat([self._rows(rows, records) for rows in LIFETIMES]))
        self._held_rows += records.height
        if self._held_rows > MAX_HELD_ROWS:
            self._put_held()

    def _put_held(self) -> None:
        for rows in self._held or []:
            is_free_without_time = (pl.col("action") == "free") & pl.col("ts_ns").is_null()
            self._put("memory_events", rows.filter(~is_free_without_time))
        self._held, self._held_rows = [] if self._held is not None else None, 0

    def _drop_held(self) -> int:
        dropped, self._held, self._held_rows = self._held_rows, None, 0
        return dropped

    def _put(self, table: str, rows: pl.DataFrame) -> None:
        if rows.height:
            self._added.setdefault(table, []).append(rows)

    def _check(self, kind: str, records: pl.DataFrame) -> None:
        """Count values without a word in the tables or too large for them; learn the clock where no header says."""
        for name in records.columns:
            column = records[name]
            if (words := ENUMS.get((kind, name))) is not None:
                odd = column.drop_nulls().filter(~column.drop_nulls().is_in(list(words)))
                if len(odd):
                    self._sink.count("unknown_enum_values", len(odd), detail=f"{kind}.{name} = {odd[0]}")
            elif column.dtype == pl.UInt64 and "address" not in name:
                odd = column.filter(column > _INT64_MAX)
                self._sink.count("values_out_of_range", len(odd), severity="data_loss", detail=f"{kind}.{name}")
            if name in _TIMES and not self._is_clock_known and (latest := column.max()):
                is_realtime = isinstance(latest, int) and latest > _REALTIME_FROM_NS
                self._sink.clock, self._is_clock_known = "realtime" if is_realtime else "unknown", True


def _int(value: object) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT64_MAX
    return value if fits and isinstance(value, int) else None


def _clock_of(name: object, pair: Mapping[str, int | None], cupti_ns: int | None) -> Clock | None:
    """The clock CUPTI's timestamps are on: as the header says, else the one its own timestamp was near to."""
    for clock in _CLOCKS:
        if name == clock:
            return clock
    distances = {clock: abs(cupti_ns - read) for clock in _CLOCKS if cupti_ns and (read := pair.get(clock)) is not None}
    nearest = min(distances.values(), default=_FAR_CLOCK_NS)
    # The clocks of a host that never slept are within microseconds of each other: the first of them is taken.
    return next((c for c, far in distances.items() if far < _FAR_CLOCK_NS and far <= nearest + _SAME_CLOCK_NS), None)
