"""NVTX ranges and marks.

Table NVTX_EVENTS of https://docs.nvidia.com/nsight-systems/UserGuide/index.html (SQLite Schema Reference): the exporter
has paired starts and ends already. A name is in `text`, or in StringIds by `textId`; domains and categories are named
by rows of their own, for each process.
"""

from __future__ import annotations

from typing import Any

import orjson
import polars as pl

from ingest.callpaths import MAX_TEXT, clean_text
from ingest.nsys_session import Session, process_of, thread_of
from ingest.nsys_tables import Columns
from ingest.nsys_writer import RowWriter, ints

_KINDS = {
    "nvtxpushpoprange": "push_pop",
    "nvtxtpushpoprange": "push_pop",
    "nvtxstartendrange": "start_end",
    "nvtxtstartendrange": "start_end",
    "nvtxmark": "mark",
}
_DOMAIN, _CATEGORY = "nvtxdomaincreate", "nvtxcategory"
_MAX_NAMES = 100_000
_PAYLOADS = ("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue")
_NAMED: Columns = {
    **ints("start eventType category globalTid textId domainId"),
    "text": pl.String,
}
_EVENTS: Columns = {
    **_NAMED,
    **ints("end jsonTextId uint64Value int64Value uint32Value int32Value"),
    **dict.fromkeys(("doubleValue", "floatValue"), pl.Float64),
    "jsonText": pl.String,
}


def read_ranges(session: Session, rows: RowWriter) -> None:
    """Ranges with their domain and thread; category and payload go into `attributes`."""
    words = session.words("ENUM_NSYS_EVENT_TYPE")
    kinds = {number: _KINDS[word] for number, word in words.items() if word in _KINDS}
    domains, categories = _names(session, words)
    often_empty = ("category", "textId", "jsonTextId", "jsonText", *_PAYLOADS)
    filled = session.filled("NVTX_EVENTS", often_empty)
    columns = {name: kind for name, kind in _EVENTS.items() if name in filled or name not in often_empty}
    unclosed = 0
    for frame in session.batches("NVTX_EVENTS", columns, ("eventType", sorted(kinds))):
        frame = frame.select(
            (pl.col(name) if name in frame.columns else pl.lit(None, kind)).alias(name)
            for name, kind in _EVENTS.items()
        )
        texts = pl.select(pl.coalesce(session.text(frame["textId"]), frame["text"]).alias("name"))[:, 0]
        keyed = frame.with_columns(process_of("globalTid").alias("process_id"), pl.col("domainId").fill_null(0))
        keyed = keyed.join(domains, on=("process_id", "domainId"), how="left", maintain_order="left")
        made = keyed.select(
            texts.str.slice(0, MAX_TEXT),
            range_kind=pl.col("eventType").replace_strict(kinds, default=None, return_dtype=pl.String),
            domain=pl.col("domain").fill_null(""),
            start_ns=session.time("start"),
            end_ns=session.time("end"),
            process_id="process_id",
            thread_id=thread_of("globalTid"),
            attributes=_attributes(session, keyed, categories),
        ).with_columns(
            end_ns=pl.when(pl.col("range_kind") == "mark").then(pl.coalesce("end_ns", "start_ns")).otherwise("end_ns")
        )
        unclosed += made["end_ns"].null_count()
        rows.write("ranges", made)
    session.sink.count("ranges_not_closed", unclosed, detail="the recording ended inside these ranges")


def _names(session: Session, words: dict[int, str]) -> tuple[pl.DataFrame, dict[tuple[Any, ...], str]]:
    """Domains as a frame of process, number and name; categories by process, domain and number."""
    wanted = [number for number, word in words.items() if word in (_DOMAIN, _CATEGORY)]
    domains: dict[tuple[int, int], str] = {}
    categories: dict[tuple[Any, ...], str] = {}
    for frame in session.batches("NVTX_EVENTS", _NAMED, ("eventType", sorted(wanted))):
        texts = pl.select(pl.coalesce(session.text(frame["textId"]), frame["text"]).alias("name"))[:, 0]
        named = frame.select("eventType", "category", pl.col("domainId").fill_null(0), process_of("globalTid"), texts)
        for kind, category, domain, process, name in named.iter_rows():
            if name is None or len(domains) + len(categories) >= _MAX_NAMES:
                continue
            if words[kind] == _DOMAIN:
                domains.setdefault((process, domain), name[:MAX_TEXT])
            else:
                categories.setdefault((process, domain, category), name[:MAX_TEXT])
    schema = {"process_id": pl.Int64, "domainId": pl.Int64, "domain": pl.String}
    return pl.DataFrame([(*key, name) for key, name in domains.items()], schema, orient="row"), categories


def _attributes(session: Session, frame: pl.DataFrame, categories: dict[tuple[Any, ...], str]) -> pl.Series:
    """Category and payload of each row as a JSON object, null for rows that have neither."""
    payload = pl.coalesce(pl.col(name).cast(pl.String) for name in _PAYLOADS)
    json = pl.coalesce(session.text(frame["jsonTextId"]), frame["jsonText"])
    numbered = frame.with_row_index("at").select(
        "at", "process_id", "domainId", none_zero("category"), payload.alias("payload"), json.alias("json")
    )
    some = numbered.filter(pl.any_horizontal(pl.col("category", "payload", "json").is_not_null()))
    found: dict[int, str] = {}
    for at, process, domain, category, number, text in some.iter_rows():
        facts: dict[str, Any] = {}
        if category is not None:
            facts["category"] = categories.get((process, domain, category), category)
        if number is not None:
            facts["payload"] = float(number) if "." in number or "e" in number else int(number)
        if text is not None:
            facts["payload_json"] = text[:MAX_TEXT]
        found[at] = clean_text(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS).decode(), 4 * MAX_TEXT)
    if not found:
        return pl.Series("attributes", [None] * frame.height, pl.String)
    return pl.Series("attributes", [found.get(at) for at in range(frame.height)], pl.String)


def none_zero(name: str) -> pl.Expr:
    return pl.when(pl.col(name) != 0).then(pl.col(name)).alias(name)
