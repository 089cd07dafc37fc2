"""Counters sampled over time: metrics of the GPU and of network adapters.

Tables GPU_METRICS and NET_NIC_METRIC of https://docs.nvidia.com/nsight-systems/UserGuide/index.html; the low byte of a
GPU metric's type id is the number of the device. Percentages become ratios, megahertz hertz.
"""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from ingest.nsys_session import Session
from ingest.nsys_tables import Columns
from ingest.nsys_writer import RowWriter, ints

_BRACKETS = re.compile(r"\s*\[([^\]]*)\]\s*$")
_UNITS = {
    "mhz": ("hertz", 1e6),
    "ghz": ("hertz", 1e9),
    "hz": ("hertz", 1.0),
    "b": ("bytes", 1.0),
    "bytes": ("bytes", 1.0),
}


def series_of(name: str, unit: str | None = None) -> tuple[str, str, float]:
    """Name, unit and scale of a series from NVIDIA's name of the metric, as `SMs Active [Throughput %]`."""
    if match := _BRACKETS.search(name):
        name, unit = name[: match.start()], unit or match[1]
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "unnamed"
    text = (unit or "").strip()
    if "%" in text or "%" in name:
        return f"{slug}_ratio", "ratio", 0.01
    known, scale = _UNITS.get(text.lower(), (text.lower() or "count", 1.0))
    suffix = f"_{known}" if known in ("hertz", "bytes") and not slug.endswith(known) else ""
    return f"{slug}{suffix}", known, scale


def read_metrics(session: Session, rows: RowWriter) -> None:
    _read_gpu_metrics(session, rows)
    for table in ("NET_NIC_METRIC", "NET_IB_SWITCH_METRIC"):
        _read_network_metrics(session, rows, table)


def _read_gpu_metrics(session: Session, rows: RowWriter) -> None:
    wanted: Columns = {**ints("typeId metricId"), "metricName": pl.String}
    names = _series(session.rows("TARGET_INFO_GPU_METRICS", wanted), ("typeId", "metricId"), "metricName")
    unknown = 0
    for frame in session.batches("GPU_METRICS", {**ints("timestamp typeId metricId"), "value": pl.Float64}):
        named = frame.join(names, on=("typeId", "metricId"), how="left", maintain_order="left")
        unknown += named["metric"].null_count()
        made = named.filter(pl.col("metric").is_not_null()).select(
            "metric",
            "unit",
            ts_ns=session.time("timestamp"),
            value=pl.col("value") * pl.col("scale"),
            device_index=(pl.col("typeId").reinterpret(signed=False) % 256).cast(pl.Int32),
        )
        rows.write("metrics", made.drop_nulls("value"), cuda=False)
    session.sink.count("metrics_without_name", unknown, severity="data_loss", detail="GPU_METRICS")


def _read_network_metrics(session: Session, rows: RowWriter, table: str) -> None:
    wanted: Columns = {**ints("metricsListId metricsIdx"), "name": pl.String, "unit": pl.String}
    keys = ("metricsListId", "metricsIdx")
    names = _series(session.rows("TARGET_INFO_NETWORK_METRICS", wanted), keys, "name")
    label = "nic" if table == "NET_NIC_METRIC" else "switch"
    columns: Columns = {**ints("start end globalId metricsListId metricsIdx"), "value": pl.Float64}
    unknown = 0
    for frame in session.batches(table, columns):
        named = frame.join(names, on=keys, how="left", maintain_order="left")
        unknown += named["metric"].null_count()
        made = named.filter(pl.col("metric").is_not_null()).select(
            "metric",
            "unit",
            labels=pl.format(f'{{{{"{label}":"{{}}"}}}}', pl.col("globalId")),
            ts_ns=session.time("end"),
            value=pl.col("value") * pl.col("scale"),
        )
        rows.write("metrics", made.drop_nulls("value"), cuda=False)
    session.sink.count("metrics_without_name", unknown, severity="data_loss", detail=table)


def _series(described: list[dict[str, Any]], keys: tuple[str, str], name: str) -> pl.DataFrame:
    schema = dict.fromkeys(keys, pl.Int64) | {"metric": pl.String, "unit": pl.String, "scale": pl.Float64}
    listed = [
        (*(row[key] for key in keys), *series_of(row[name][:200], row.get("unit"))) for row in described if row[name]
    ]
    return pl.DataFrame(listed, schema, orient="row").unique(keys, keep="first", maintain_order=True)
