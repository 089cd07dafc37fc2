"""Backtraces of an export: tables of call chains, CPU samples and scheduler events.

A chain is the rows with one id, `stackDepth` 0 is the leaf; ids follow each other. Modules are named without their
folders, which tell of the user's home and no more of the code.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from ingest.bpftrace_stacks import MAX_CALL_PATHS, MAX_DEPTH
from ingest.callpaths import Frame
from ingest.nsys_session import Session, process_of, thread_of
from ingest.nsys_tables import BATCH_ROWS, Columns
from ingest.nsys_writer import RowWriter, ints

_MAX_FRAMES = 1_000_000
_UNKNOWN = "[unknown]"
_CHAIN: Columns = ints("id symbol module unresolved originalIP stackDepth")


class CallChains:
    """Chains of one table by their id, as call path numbers; 16 bytes a chain are kept."""

    def __init__(self, session: Session, table: str) -> None:
        self._session = session
        self._frames: dict[tuple[int | None, int | None, int | None], int] = {}
        self._paths: set[int] = set()
        chains = [self._chains(frame) for frame in self._whole_chains(table)]
        found = pl.concat(chains) if chains else pl.DataFrame(schema={"id": pl.Int64, "path": pl.Int64})
        found = found.unique("id", keep="first").sort("id")
        self._ids, self._numbers = found["id"].to_numpy(), found["path"]

    def __len__(self) -> int:
        return len(self._ids)

    def paths_of(self, ids: pl.Series) -> pl.Series:
        """Call path numbers of chains, null where there is no such chain."""
        if not len(self._ids):
            return pl.Series("call_path_id", [None] * len(ids), pl.Int64)
        wanted = ids.fill_null(-1).to_numpy()
        places = np.minimum(np.searchsorted(self._ids, wanted), len(self._ids) - 1)
        known = pl.Series(self._ids[places] == wanted)
        found = self._numbers.gather(places)
        return pl.select(pl.when(known).then(found).alias("call_path_id"))[:, 0]

    def _whole_chains(self, table: str) -> Iterator[pl.DataFrame]:
        """Batches that end where a chain does."""
        rest: pl.DataFrame | None = None
        for frame in self._session.batches(table, _CHAIN):
            frame = frame.drop_nulls("id")
            deep = frame.filter(pl.col("stackDepth") >= MAX_DEPTH).height
            self._session.sink.count("deep_stacks", deep, severity="data_loss", detail=f"frames beyond {MAX_DEPTH}")
            frame = frame.filter(pl.col("stackDepth") < MAX_DEPTH)
            rest = frame if rest is None else pl.concat([rest, frame])
            if not rest.height:
                continue
            open_id = rest["id"][-1]
            done = rest.filter(pl.col("id") != open_id) if rest.height < 2 * BATCH_ROWS else rest
            rest = rest.filter(pl.col("id") == open_id) if rest.height < 2 * BATCH_ROWS else None
            if done.height:
                yield done
        if rest is not None and rest.height:
            yield rest

    def _chains(self, rows: pl.DataFrame) -> pl.DataFrame:
        keys = rows.select(
            "id", "stackDepth", "symbol", "module", address=pl.when(pl.col("unresolved") == 1).then("originalIP")
        )
        parts = ["symbol", "module", "address"]
        distinct = keys.select(parts).unique(maintain_order=True)
        symbols = self._session.text(distinct["symbol"]).to_list()
        modules = self._session.text(distinct["module"]).to_list()
        numbers = [
            self._frame(key, symbol, module)
            for key, symbol, module in zip(distinct.iter_rows(), symbols, modules, strict=True)
        ]
        numbered = keys.join(
            distinct.with_columns(frame=pl.Series(numbers, dtype=pl.Int64)), on=parts, how="left", nulls_equal=True
        )
        stacks = numbered.group_by("id", maintain_order=True).agg(
            pl.col("frame").sort_by("stackDepth", descending=True)
        )
        paths = [self._path(stack) for stack in stacks["frame"].to_list()]
        return stacks.select("id", path=pl.Series(paths, dtype=pl.Int64))

    def _frame(self, key: tuple[int | None, ...], symbol: str | None, module: str | None) -> int:
        if len(self._frames) >= _MAX_FRAMES:
            self._frames.clear()
        number = self._frames.get(key)  # type: ignore[arg-type]
        if number is None:
            address = key[2]
            has_symbol = symbol is not None and not symbol.startswith("0x")
            frame = Frame(
                symbol if has_symbol and symbol else _UNKNOWN,
                module=base_name(module) if module else None,
                address=None if has_symbol or address is None else address % 2**64,
            )
            number = self._frames[key] = self._session.sink.call_paths.frame(frame)  # type: ignore[index]
        return number

    def _path(self, stack: list[int]) -> int | None:
        if len(self._paths) >= MAX_CALL_PATHS:
            self._session.sink.count(
                "call_paths_left_out", severity="data_loss", detail=f"more than {MAX_CALL_PATHS} different call paths"
            )
            return None
        number = self._session.sink.call_paths.path(stack)
        if number is not None:
            self._paths.add(number)
        return number


def base_name(path: str) -> str:
    """The last part of a path of either kind."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path


def read_samples(session: Session, rows: RowWriter) -> None:
    """CPU samples; where the counter does not count cycles the exporter writes 1, and the weight is not known."""
    chains = CallChains(session, "SAMPLING_CALLCHAINS")
    for frame in session.batches("COMPOSITE_EVENTS", ints("id start cpu globalTid cpuCycles")):
        has_cycles = pl.col("cpuCycles") > 1
        made = frame.select(
            chains.paths_of(frame["id"]),
            event=pl.lit("cycles"),
            ts_ns=session.time("start"),
            process_id=process_of("globalTid"),
            thread_id=thread_of("globalTid"),
            cpu_index=pl.col("cpu").cast(pl.Int32, strict=False),
            sample_count=pl.lit(1, pl.Int64),
            weight=pl.when(has_cycles).then("cpuCycles"),
            unit=pl.when(has_cycles).then(pl.lit("cycles")),
        )
        rows.write("stack_samples", made, cuda=False)


def read_scheduling(session: Session, rows: RowWriter) -> None:
    """When a thread got a processor and when it lost it."""
    for frame in session.batches("SCHED_EVENTS", ints("start cpu isSchedIn globalTid")):
        made = frame.select(
            event=pl.when(pl.col("isSchedIn") != 0).then(pl.lit("sched_in")).otherwise(pl.lit("sched_out")),
            ts_ns=session.time("start"),
            process_id=process_of("globalTid"),
            thread_id=thread_of("globalTid"),
            cpu_index=pl.col("cpu").cast(pl.Int32, strict=False),
            sample_count=pl.lit(1, pl.Int64),
        )
        rows.write("stack_samples", made, cuda=False)
