"""Prometheus text exposition and OpenMetrics, one scrape or many, and answers of the Prometheus HTTP API.

https://prometheus.io/docs/instrumenting/exposition_formats/ and https://prometheus.io/docs/specs/om/open_metrics_spec/
(lines are read by prometheus_client's parser). Series keep their own names and labels; the unit is the one the name's
suffix tells. Marks of time between scrapes are those of `ingest/prometheus_text.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

from ingest.opening import read_head
from ingest.prometheus_api import is_answer, read_answer
from ingest.prometheus_text import PrometheusText, mark_of
from ingest.registry import Importer
from ingest.sink import Sink
from ingest.textlines import head_lines, open_lines

_SNIFFED_LINES = 64
_COMMENT = re.compile(
    r"#\s*(HELP\s+[a-zA-Z_:\"]|UNIT\s+[a-zA-Z_:\"]|scrape\s+\d|"
    r"TYPE\s+\S+\s+(counter|gauge|histogram|summary|untyped|unknown|info|stateset|gaugehistogram)\b)"
)
_SAMPLE = re.compile(
    r"([a-zA-Z_:][\w:]*\s*(\{.*\})?|\{(?:\"|__name__=).*\})\s+([+-]?[\d.]\S*|[+-]?Inf|NaN)(\s+-?[\d.]+)?(\s+#\s\{.*)?\s*",
    re.ASCII,
)
_HTTP = re.compile(r"HTTP/\d(?:\.\d)? \d{3}\b|[A-Za-z][A-Za-z0-9-]{0,60}: ")


def sniff(head: bytes, path: Path) -> bool:
    """HELP, TYPE or scrape comments at the start, or nothing but samples of which some have labels; or an answer."""
    if is_answer(head):
        return True
    lines = head_lines(head)
    is_curl = bool(lines) and lines[0].startswith("HTTP/")
    if lines and lines[0].startswith("#") and any(_COMMENT.match(line) for line in lines[:_SNIFFED_LINES]):
        return True
    lines = [line for line in lines if not (is_curl and _HTTP.match(line)) and mark_of(line) is None][:_SNIFFED_LINES]
    if not lines:
        return False
    if lines[0].startswith("#"):
        return any(_COMMENT.match(line) for line in lines)
    return all(_SAMPLE.fullmatch(line) or line.startswith("#") for line in lines[:-1] or lines) and any(
        "{" in line or _COMMENT.match(line) for line in lines
    )


def read(path: Path, sink: Sink) -> None:
    """Read `metrics`; a scrape with damage is read line by line and the damaged lines are counted."""
    if is_answer(read_head(path)):
        read_answer(path, sink)
        return
    with open_lines(path, sink) as lines:
        PrometheusText(sink).read(lines)


IMPORTER = Importer(
    name="prometheus_scrape",
    priority=70,
    title="Prometheus and OpenMetrics text, one or many scrapes; answers of the HTTP API",
    source="prometheus",
    clock="realtime",
    versions="text format 0.0.4 and 1.0.0; OpenMetrics 1.0; promtool tsdb dump; HTTP API v1 matrix, vector, scalar",
    produced_by="curl of a /metrics endpoint (vLLM, SGLang, TGI, dcgm-exporter, node_exporter, cadvisor); Prometheus",
    recipe='while sleep 1; do echo "# scrape $(date +%s%N)"; curl -s localhost:8000/metrics; done',
    left_out="exemplars, buckets of native histograms, HELP texts",
    reference="https://prometheus.io/docs/instrumenting/exposition_formats/",
    tables=("metrics",),
    sniff=sniff,
    read=read,
)
