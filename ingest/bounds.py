"""Numbers that no machine can have produced: kept out of every raw table, so that no sum or difference overflows.

A damaged digit makes a size of 2^63 or a time in the year 2262. Within these limits the difference of two times, and of
two such differences, and the sum of an address and a size stay within 64 bits.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from schemas.tables import Table

MAX_TIME_NS = 2**62 - 1
"""The year 2116 of the realtime clock; no clock counts from before 0."""
MAX_BYTES = 2**46
"""64 TiB in one piece."""

_LIMITS = {"ns": (0, MAX_TIME_NS), "bytes": (0, MAX_BYTES)}


def bounded(table: Table, rows: pa.Table) -> tuple[pa.Table, dict[str, int]]:
    """`rows` with times and sizes beyond the limits as null, and how many a column.

    Where the contract allows no null the row is left out.
    """
    lost: dict[str, int] = {}
    for field in table.fields:
        if field.kind != "int64" or field.unit not in _LIMITS:
            continue
        low, high = _LIMITS[field.unit]
        values = rows[field.name]
        smallest, largest = pc.min_max(values).values()
        if not smallest.is_valid or (low <= smallest.as_py() and largest.as_py() <= high):
            continue
        fits = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
        kept = pc.fill_null(fits, True)
        lost[field.name] = rows.num_rows - pc.sum(kept).as_py()
        if field.nullable:
            place = rows.schema.get_field_index(field.name)
            rows = rows.set_column(
                place, rows.schema.field(place), pc.if_else(kept, values, pa.scalar(None, pa.int64()))
            )
        else:
            rows = rows.filter(kept)
    return rows, lost
