"""Answers of the Prometheus HTTP API: `/api/v1/query_range` (matrix) and `/api/v1/query` (vector, scalar).

https://prometheus.io/docs/prometheus/latest/querying/api/. One answer, several one after the other, or only the
array of series that `promtool query -o json` prints. Series are read one at a time.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import orjson

from ingest.callpaths import clean_text
from ingest.errors import BadInput
from ingest.json_pieces import JsonPieces, utf8_chunks
from ingest.json_values import parse_json
from ingest.numbers import INT64_MAX, NumberReader
from ingest.opening import read_head
from ingest.privacy import public_labels
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import encoding_of
from ingest.units import unit_of

_ROW = ("metric", "labels", "ts_ns", "value", "unit")
_TYPE = re.compile(r'"resultType"\s*:\s*"(matrix|vector|scalar|string|streams)"')
_SERIES_FIRST = re.compile(r'\s*(\{\s*"data"\s*:\s*\{\s*"result"\s*:\s*)?\[\s*\{\s*"metric"\s*:\s*\{')
_FAILED = re.compile(r'\s*\{\s*"status"\s*:\s*"error"\s*,.{0,200}?"errorType"', re.DOTALL)


def is_answer(head: bytes) -> bool:
    """Whether a file begins like an answer of the HTTP API."""
    text = _text(head)
    if not text.lstrip().startswith(("{", "[")):
        return False
    return bool(_TYPE.search(text) or _SERIES_FIRST.match(text) or _FAILED.match(text))


def _text(head: bytes) -> str:
    codec, skip = encoding_of(head)
    return head[skip:].decode(codec, "replace")


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._numbers = NumberReader(sink)
        self._batch = RowBatch(sink, "metrics", _ROW)
        self.found = 0

    def series(self, series: Any) -> None:
        """Write one element of `result`."""
        self.found += 1
        metric = series.get("metric") if isinstance(series, dict) else None
        if not isinstance(metric, dict):
            self._damaged("a series without its labels")
            return
        public = public_labels({name: str(text) for name, text in metric.items()}, self._sink)
        labels = {clean_text(name): clean_text(text) for name, text in public.items()}
        name = labels.pop("__name__", None)
        if name is None:
            self._sink.count("series_without_name", detail="results of an expression, kept as query_result")
        text = orjson.dumps(labels, option=orjson.OPT_SORT_KEYS).decode()
        for key in ("values", "value"):
            points = series.get(key)
            for point in points if key == "values" and isinstance(points, list) else [points] if points else []:
                self.point(name or "query_result", text, point)
        for key in ("histograms", "histogram"):
            points = series.get(key)
            for point in points if key == "histograms" and isinstance(points, list) else [points] if points else []:
                self._histogram(name or "query_result", text, point)

    def point(self, name: str, labels: str, point: Any) -> None:
        """Write one `[seconds, "value"]`."""
        try:
            ts, value = point
            ts_ns = self._ts_ns(ts)
            number = float(value)
        except (ValueError, TypeError, OverflowError) as error:
            self._damaged(str(error))
            return
        self._batch.add(name, labels, ts_ns, number, unit_of(name))

    def _histogram(self, name: str, labels: str, point: Any) -> None:
        try:
            ts, histogram = point
            for part in ("count", "sum"):
                self.point(f"{name}_{part}", labels, [ts, histogram[part]])
        except (ValueError, TypeError, KeyError) as error:
            self._damaged(str(error))
            return
        self._sink.count("histogram_buckets_left_out", detail="of native histograms count and sum are read")

    def _ts_ns(self, ts: Any) -> int:
        seconds = float(ts)
        if not math.isfinite(seconds) or not 0 <= seconds * 1e9 <= INT64_MAX:
            raise OverflowError(f"no time: {str(ts)[:40]}")
        ts_ns = round(seconds * 1000) * 1_000_000  # the server's resolution is ms
        self._numbers.saw_time(ts_ns)
        return ts_ns

    def _damaged(self, detail: str) -> None:
        self._sink.count("damaged_rows", severity="data_loss", detail=detail[:120])

    def close(self) -> None:
        self._batch.flush()
        self._numbers.settle_clock()


def _read_small(head: bytes, reader: _Reader, path: Path) -> None:
    """An answer without series: a scalar, nothing, or an error. Raises BadInput for what holds no numbers."""
    try:
        answer = parse_json(_text(head))
    except ValueError:
        return
    if not isinstance(answer, dict):
        return
    if answer.get("status") == "error":
        what = f"an error of the server ({answer.get('errorType')}: {str(answer.get('error'))[:200]})"
        raise BadInput(what, where=str(path), todo="correct the query and run it again")
    data = answer.get("data")
    kind = data.get("resultType") if isinstance(data, dict) else None
    if kind == "scalar":
        reader.point("query_result", "{}", data["result"] if isinstance(data, dict) else None)
    elif kind in ("string", "streams"):
        raise BadInput(f"an answer of type {kind}", where=str(path), todo="supported are matrix, vector and scalar")


def read_answer(path: Path, sink: Sink) -> None:
    """Read `metrics`; damaged points are counted. Raises BadInput for an answer that says an error, or holds text."""
    head = read_head(path)
    reader = _Reader(sink)
    keys = frozenset(("",)) if _text(head).lstrip().startswith("[") else frozenset(("result",))
    for piece in JsonPieces(utf8_chunks(path, sink), sink, keys, frozenset()):
        try:
            reader.series(parse_json(piece.text))
        except ValueError as error:
            sink.count("damaged_rows", severity="data_loss", detail=str(error)[:120])
    if not reader.found:
        _read_small(head, reader, path)
    reader.close()
    if not sink.rows():
        sink.count("no_series", detail="the query matched nothing")
