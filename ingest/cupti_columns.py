"""How attributes of CUPTI records become columns: expressions that turn CUPTI's "none" values into nulls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from ingest.callpaths import MAX_TEXT
from ingest.cupti_enums import INVALID


@dataclass(frozen=True, slots=True)
class Rows:
    """The table a kind goes to, and its columns as expressions over the records' attributes."""

    table: str
    columns: Mapping[str, pl.Expr]

    @property
    def attributes(self) -> list[str]:
        """Attributes the expressions read."""
        names = {name for expression in self.columns.values() for name in expression.meta.root_names()}
        return sorted(names)


def number(name: str, *none: int, dtype: type[pl.DataType] = pl.Int64) -> pl.Expr:
    """The attribute as a number, null where it is one of `none` or does not fit."""
    column = pl.col(name).cast(dtype, strict=False)
    return pl.when(~column.is_in(none)).then(column) if none else column


def word(name: str, words: Mapping[int, str]) -> pl.Expr:
    """The enumeration value as text: null where absent, `unknown` where it has no word."""
    column = pl.col(name)
    return pl.when(column.is_not_null()).then(
        column.replace_strict(dict(words), default="unknown", return_dtype=pl.String)
    )


def triple(stem: str) -> pl.Expr:
    return pl.concat_str([pl.col(f"{stem}_{axis}") for axis in "xyz"], separator=",")


def text(name: str) -> pl.Expr:
    """The attribute as text of bounded length, null where it is empty."""
    column = pl.col(name)
    return pl.when(column != "").then(column.str.slice(0, MAX_TEXT))


def object_part(name: str, *kinds: int) -> pl.Expr:
    """A part of the record's object, where the object is of one of `kinds`."""
    return pl.when(pl.col("object_kind").is_in(kinds)).then(number(f"object_id_{name}", 0))


INDEX = {"event_index": pl.col("event_index")}
SPAN = {**INDEX, "start_ns": number("start", 0), "end_ns": number("end", 0)}
CALLED = {"correlation_id": number("correlation_id", 0, INVALID)}
PROCESS = {"process_id": number("process_id", 0)}
PLACE = {
    "device_index": number("device_id", INVALID, dtype=pl.Int32),
    "context_id": number("context_id", 0, INVALID),
    "stream_id": number("stream_id", 0, INVALID),
}
SIZE = {"size_bytes": number("bytes")}
