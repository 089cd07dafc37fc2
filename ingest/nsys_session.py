"""What every row of an export needs: the clock's base, the table of strings, the words of enumerations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl

from ingest.callpaths import MAX_TEXT
from ingest.nsys_tables import Columns, Export, resolve
from ingest.sink import Sink

MAX_STRINGS = 5_000_000
MAX_STRING_BYTES = 1 << 30
_VERSION = re.compile(r"[0-9][0-9A-Za-z.\-]{0,40}")
_TRUE = ("true", "1", "yes", "on")


def _words(text: str) -> dict[int, str]:
    return dict(enumerate(text.split()))


# https://docs.nvidia.com/nsight-systems/UserGuide/index.html (SQLite Schema Event Values). An export that has the
# ENUM_ table is read by it; older ones have the numbers only.
_DEFAULTS: dict[str, dict[int, str]] = {
    "ENUM_CUDA_MEMCPY_OPER": _words(
        "unknown htod dtoh htoa atoh atoa atod dtoa dtod htoh ptop uvm_htod uvm_dtoh uvm_dtod"
    ),
    "ENUM_CUDA_MEM_KIND": _words("pageable pinned device array managed device_static managed_static unknown"),
    "ENUM_CUDA_DEV_MEM_EVENT_OPER": {0: "allocation", 1: "deallocation"},
    "ENUM_CUDA_MEMPOOL_OPER": _words("invalid created destroyed trimmed"),
    "ENUM_CUPTI_SYNC_TYPE": _words(
        "unknown event_synchronize stream_wait_event stream_synchronize context_synchronize"
    ),
    "ENUM_CUPTI_STREAM_TYPE": _words("unknown default non_blocking null"),
    "ENUM_CUDA_UNIF_MEM_MIGRATION": _words("unknown user coherence prefetch eviction access_counters"),
    "ENUM_CUDA_UNIF_MEM_ACCESS_TYPE": _words("unknown read write atomic prefetch"),
    "ENUM_CUPTI_OVERHEAD_TYPE": _words(
        "undefined unknown driver_compiler cupti_buffer_flush cupti_instrumentation cupti_resource"
        " runtime_triggered_module_loading lazy_function_loading command_buffer_full"
    ),
    "ENUM_NSYS_EVENT_TYPE": {
        33: "nvtxcategory",
        34: "nvtxmark",
        59: "nvtxpushpoprange",
        60: "nvtxstartendrange",
        70: "nvtxtpushpoprange",
        71: "nvtxtstartendrange",
        75: "nvtxdomaincreate",
    },
}
_ANALYSIS: Columns = dict.fromkeys(("globalVid", "duration"), pl.Int64)
_PREFIXES = re.compile(
    r"CUDA_MEMCPY_KIND_|CUDA_MEMOPR_MEMORY_KIND_|CUDA_DEV_MEM_EVENT_OPR_|CUDA_MEMPOOL_OPERATION_TYPE_"
    r"|CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_|CUPTI_ACTIVITY_STREAM_CREATE_FLAG_|CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_"
    r"|CUDA_UNIFIED_MEMORY_ACCESS_TYPE_|CUPTI_ACTIVITY_OVERHEAD_|OVERHEAD_"
)


class Session:
    """An export and what is known of all of it. `sink.clock` and `sink.format_version` are set here."""

    def __init__(self, export: Export, sink: Sink) -> None:
        self.export, self.sink = export, sink
        self.read: set[str] = set()
        """Tables that were asked for."""
        self.base_ns = self._clock()
        self._strings = _Strings(self)

    def table(self, name: str) -> str | None:
        """The table of the export that holds what `name` stands for, noted as read; None when it has none."""
        found = resolve(self.export.tables(), name)
        if found:
            self.read.add(found)
        return found

    def filled(self, name: str, columns: Sequence[str]) -> set[str]:
        """Those of the columns that the table has and that hold anything."""
        found = self.table(name)
        return self.export.filled(found, columns) if found else set()

    def batches(
        self, name: str, columns: Columns, where: tuple[str, list[int]] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Batches of the table, nothing when the export has none of the name."""
        found = self.table(name)
        if found is not None:
            yield from _ahead(self.export.batches(found, columns, where))

    def rows(self, name: str, columns: Columns, limit: int = 100_000) -> list[dict[str, Any]]:
        """The first rows of a small table, as mappings."""
        rows: list[dict[str, Any]] = []
        for frame in self.batches(name, columns):
            rows += frame.head(limit - len(rows)).rows(named=True)
            if len(rows) >= limit:
                self.sink.count("rows_beyond_limit", severity="data_loss", detail=f"more than {limit} of {name}")
                break
        return rows

    def words(self, enumeration: str) -> dict[int, str]:
        """Number → word of an enumeration: NVIDIA's names without their prefix, in lower case."""
        words = dict(_DEFAULTS[enumeration])
        for row in self.rows(enumeration, {"id": pl.Int64, "name": pl.String}, limit=10_000):
            if row["id"] is not None and row["name"]:
                words[row["id"]] = _PREFIXES.sub("", row["name"]).lower()[:100]
        return words

    def time(self, name: str) -> pl.Expr:
        """A column of times as UTC, or on the session's clock when the export does not tell its start."""
        return pl.col(name) + self.base_ns

    def text(self, ids: pl.Series) -> pl.Series:
        """Strings by their numbers, null where there is none."""
        return self._strings.take(ids, "value")

    def call_name(self, ids: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Names of CUDA calls without the version of the interface, and whether they are runtime or driver calls."""
        return self._strings.take(ids, "call"), self._strings.take(ids, "api")

    def _recording(self, starts: list[int], meta: dict[str, str]) -> str:
        """What exports of one recording have in common, unless each holds a part of it."""
        analysis = [tuple(row.values()) for row in self.rows("ANALYSIS_DETAILS", _ANALYSIS, limit=100)]
        parts = [meta.get(f"EXPORT_PARAM_{name}_TO_EXPORT") for name in ("TABLES", "TIMES")]
        return f"nsys {starts} {analysis} {[part for part in parts if part]}"

    def _clock(self) -> int:
        """What makes a time of the export UTC: the session's start, unless the export has added it already."""
        meta = {
            row["name"]: row["value"]
            for table in ("META_DATA_EXPORT", "EXPORT_META_DATA")
            for row in self.rows(table, {"name": pl.String, "value": pl.String}, limit=1000)
        }
        product, schema = (
            text if (text := meta.get(f"EXPORT_{name}_VERSION")) and _VERSION.fullmatch(text) else None
            for name in ("PRODUCT", "SCHEMA")
        )
        if product or schema:
            self.sink.format_version = f"{product or 'unknown'} (schema {schema or 'unknown'})"
        if meta.get("EXPORT_PARAM_TIME_SHIFT") not in (None, "", "0"):
            self.sink.count("times_shifted_by_export", detail="nsys export --ts-shift moved the times")
        columns: Columns = {"utcEpochNs": pl.Int64}
        starts = [row["utcEpochNs"] for row in self.rows("TARGET_INFO_SESSION_START_TIME", columns, limit=1000)]
        known = sorted({start for start in starts if start is not None and 0 < start < 2**62})
        if known:
            self.sink.recording = self._recording(known, meta)
        if (meta.get("EXPORT_PARAM_TIME_NORMALIZE") or "").lower() in _TRUE:
            self.sink.clock = "realtime"
            return 0
        if not known:
            self.sink.clock = "session"
            return 0
        if len(known) > 1:
            self.sink.count("several_session_starts", detail="the earliest is used")
        self.sink.clock = "realtime"
        return int(known[0])


def _ahead(batches: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The batches, each read by a thread of its own while the one before is worked on."""
    with ThreadPoolExecutor(max_workers=1) as reader:
        coming = reader.submit(next, batches, None)
        while (frame := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield frame


class _Strings:
    """StringIds in memory, each text cut to what a table holds."""

    def __init__(self, session: Session) -> None:
        frames, rows, size = [], 0, 0
        for frame in session.batches("StringIds", {"id": pl.Int64, "value": pl.String}):
            rows, size = rows + frame.height, size + int(frame["value"].str.len_bytes().sum() or 0)
            if rows > MAX_STRINGS or size > MAX_STRING_BYTES:
                session.sink.count("strings_beyond_limit", severity="data_loss", detail="names are missing")
                break
            frames.append(frame.drop_nulls("id"))
        strings = pl.concat(frames) if frames else pl.DataFrame(schema={"id": pl.Int64, "value": pl.String})
        strings = strings.unique("id", keep="first", maintain_order=True).sort("id")
        strings = strings.with_columns(
            pl.col("value").str.slice(0, MAX_TEXT),
            pl.col("value").str.slice(0, MAX_TEXT).str.replace(r"_v\d{4,}$", "").alias("call"),
            pl.when(pl.col("value").str.contains("^cu[A-Z]"))
            .then(pl.lit("driver"))
            .otherwise(pl.lit("runtime"))
            .alias("api"),
        )
        self._ids = strings["id"].to_numpy()
        self._columns = {name: strings[name] for name in ("value", "call", "api")}
        dense = len(self._ids) > 0 and self._ids[0] >= 0 and self._ids[-1] <= 4 * len(self._ids) + 1024
        self._places: np.ndarray[Any, Any] | None = None
        if dense:
            self._places = np.full(int(self._ids[-1]) + 1, -1, np.int64)
            self._places[self._ids] = np.arange(len(self._ids))

    def take(self, ids: pl.Series, column: str) -> pl.Series:
        if not len(self._ids):
            return pl.Series(column, [None] * len(ids), pl.String)
        wanted = ids.fill_null(-1).to_numpy()
        if self._places is not None:
            inside = (wanted >= 0) & (wanted < len(self._places))
            places = np.where(inside, self._places[np.where(inside, wanted, 0)], -1)
        else:
            near = np.minimum(np.searchsorted(self._ids, wanted), len(self._ids) - 1)
            places = np.where(self._ids[near] == wanted, near, -1)
        found = self._columns[column].gather(np.where(places < 0, 0, places))
        known = pl.Series(places >= 0)
        return pl.select(pl.when(known).then(found))[:, 0] if not known.all() else found


def process_of(name: str) -> pl.Expr:
    """Process of a serialized global id: bits 24 to 47."""
    return (pl.col(name).reinterpret(signed=False) // 2**24 % 2**24).cast(pl.Int64)


def thread_of(name: str) -> pl.Expr:
    """Thread of a serialized global id: the low 24 bits."""
    return (pl.col(name).reinterpret(signed=False) % 2**24).cast(pl.Int64)


def worded(name: str, words: Mapping[int, str]) -> pl.Expr:
    """The enumeration value as text: null where absent, `unknown` where it has no word."""
    column = pl.col(name)
    return pl.when(column.is_not_null()).then(
        column.replace_strict(dict(words), default="unknown", return_dtype=pl.String)
    )
