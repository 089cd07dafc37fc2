"""Columns of a table of CUPTI records, whatever types another program gave them, as the attributes that are read.

pandas and Spark turn whole numbers with gaps into floats, enumerations into names and records within records into text
or structs: all of these are met here, and what can't be read is counted.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from ingest.callpaths import clean_text
from ingest.cupti_enums import COLUMNS, NESTED
from ingest.cupti_lines import Count
from ingest.cupti_loose import LIMITS, parse_line, whole_number
from ingest.cupti_ndjson import kind_name
from ingest.cupti_records import CuptiRecords
from ingest.numbers import to_real

_MISSING = ("", "nan", "none", "null", "na", "<na>", "nat")
_EXACT = 1 << 53
_MAX_NESTED_TEXT = 4096


def attribute_name(column: str) -> str:
    """The attribute that a column holds: `object_id.pt.process_id` is `object_id_process_id`."""
    return column.strip().lower().replace(".pt.", ".").replace(".", "_")


class Cells:
    """Gives the columns of one file their types; `count` as `Sink.count`."""

    def __init__(self, count: Count) -> None:
        self._count = count

    def typed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """`kind` as text and the attributes that are read, of a batch of raw columns."""
        columns: dict[str, pl.Series] = {}
        for column in frame.iter_columns():
            name = attribute_name(column.name)
            if name in NESTED and column.dtype == pl.String:
                for part, series in self._nested(name, column).items():
                    columns.setdefault(part, series)
            elif name == "kind":
                columns[name] = self._kinds(column)
            elif (dtype := COLUMNS.get(name)) is not None:
                columns[name] = self._text(column) if dtype == pl.String else self._whole(name, column, dtype)
        columns.setdefault("kind", pl.Series([None] * frame.height, dtype=pl.String))
        return pl.DataFrame([series.alias(name) for name, series in columns.items()])

    def _kinds(self, column: pl.Series) -> pl.Series:
        if column.dtype.is_float():
            column = column.cast(pl.Int64, strict=False)
        texts = self._text(column).str.strip_chars()
        return texts.str.replace(r"^(\d{1,3})\.0$", "${1}").set(texts.str.to_lowercase().is_in(_MISSING), None)

    def _text(self, column: pl.Series) -> pl.Series:
        return column.cast(pl.String, strict=False)

    def _whole(self, name: str, column: pl.Series, dtype: Any) -> pl.Series:
        """Whole numbers; floats of 2^53 or more have lost digits, which is counted."""
        if column.dtype.is_float():
            column = column.fill_nan(None)
            vague = int((column.abs() >= _EXACT).sum())
            detail = f"{name} was written as a real number"
            self._count("inexact_numbers", vague, severity="data_loss", detail=detail)
            column = column.set(column != column.round(), None)
        if column.dtype.is_numeric() or column.dtype == pl.Boolean:
            return self._cast(name, column, column, dtype)
        if isinstance(column.dtype, pl.Datetime):
            return self._cast(name, column, column.dt.timestamp("ns"), dtype)
        if column.dtype == pl.String:
            return self._parsed(name, column, dtype)
        lost = len(column) - column.null_count()
        self._count("values_not_read", lost, severity="data_loss", detail=f"{name} as {column.dtype}"[:200])
        return pl.Series(name, [None] * len(column), dtype)

    def _cast(self, name: str, raw: pl.Series, column: pl.Series, dtype: Any) -> pl.Series:
        cast = column.cast(dtype, strict=False)
        self._count_lost(name, raw, cast)
        return cast

    def _parsed(self, name: str, column: pl.Series, dtype: Any) -> pl.Series:
        texts = column.str.strip_chars()
        texts = texts.set(texts.str.to_lowercase().is_in(_MISSING), None)
        plain = texts.set(~texts.str.contains(r"^-?\d{1,20}$"), None).cast(dtype, strict=False)
        odd = texts.filter(plain.is_null() & texts.is_not_null()).unique().to_list()
        if not odd:
            return plain
        words = {text: self._number(name, text, *LIMITS[dtype]) for text in odd}
        known = texts.replace_strict(words, default=None, return_dtype=dtype)
        read = plain.zip_with(plain.is_not_null(), known)
        self._count_lost(name, texts, read)
        return read

    def _number(self, name: str, text: str, low: int, high: int) -> int | None:
        """What a text that is no plain whole number means: 7.0, 1.5e9, 0x10 or the name of an enumeration value."""
        try:
            real = to_real(text)
        except ValueError:
            return whole_number(name, text, low, high)
        if abs(real) >= _EXACT:
            self._count("inexact_numbers", severity="data_loss", detail=f"{name} was written as a real number")
        return int(real) if real.is_integer() and low <= real <= high else None

    def _nested(self, outer: str, column: pl.Series) -> dict[str, pl.Series]:
        """Parts of a record within a record that was written as JSON, or as Python prints a dict."""
        parts = NESTED[outer]
        found: dict[str, list[Any]] = {flat: [] for flat in parts.values()}
        for text in column:
            record = parse_line(text.replace("'", '"').encode()) if text and len(text) <= _MAX_NESTED_TEXT else None
            if record is None and text and text.lower() not in _MISSING:
                self._count("values_not_read", severity="data_loss", detail=f"{outer} = {clean_text(text, 40)}")
            inside = (record or {}).get("pt", record)
            for key, flat in parts.items():
                value = inside.get(key) if isinstance(inside, dict) else None
                found[flat].append(None if value is None else whole_number(flat, value, *LIMITS[COLUMNS[flat]]))
        return {flat: pl.Series(flat, values, COLUMNS[flat]) for flat, values in found.items()}

    def _count_lost(self, name: str, raw: pl.Series, read: pl.Series) -> None:
        lost = raw.filter(raw.is_not_null() & read.is_null())
        if len(lost):
            detail = f"{name} = {clean_text(str(lost[0]), 40)}"
            self._count("values_not_read", len(lost), severity="data_loss", detail=detail)


def add_kinds(frame: pl.DataFrame, records: CuptiRecords, count: Count) -> None:
    """Hand over typed records with `event_index`, kind by kind."""
    for (written,), part in sorted(frame.partition_by("kind", as_dict=True).items(), key=lambda item: str(item[0][0])):
        if written is None:
            count("records_without_kind", part.height, severity="data_loss")
            continue
        name = kind_name(str(written))
        attributes = [attribute for attribute in CuptiRecords.attributes(name) if attribute in part.columns]
        if attributes:
            records.add(name, part.select(attributes))
        else:
            records.leave_out(name, part.height)
    records.flush()
