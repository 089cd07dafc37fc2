"""The importers of the server side know their own files by content, and leave everybody else's alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest import access_log, kv_events, metrics_csv, otlp, prometheus_scrape, request_csv, request_log
from ingest.opening import read_head
from ingest.registry import importer_for
from tests.ingest.support import SHARED

DATA = Path(__file__).parents[1] / "data"
MODULES = (access_log, kv_events, metrics_csv, otlp, prometheus_scrape, request_csv, request_log)
OWN = {
    "nginx_timed.log": "access_log",
    "nginx_bare.log": "access_log",
    "nginx_combined.log": "access_log",
    "nginx_json.log": "request_log",
    "kv_events.jsonl": "kv_events",
    "otlp.jsonl": "otlp",
    "otlp_protobuf.json": "otlp",
    "openmetrics.txt": "prometheus_scrape",
}
OF_NAMES = {
    "kv_events.jsonl": ["kv_events"],
    "requests.jsonl": ["request_log"],
    "metrics.prom": ["prometheus_scrape"],
    "metrics.prom.gz": ["prometheus_scrape"],
    "vllm_metrics.txt": ["prometheus_scrape"],
    "metrics_qwen3b.csv": ["request_csv"],
    # by priority the request log is asked first
    "hw_dataset_newton.csv": ["metrics_csv", "request_csv"],
    "l4_test_run.csv": ["metrics_csv", "request_csv"],
}


def claims(head: bytes) -> list[str]:
    return [module.IMPORTER.name for module in MODULES if module.IMPORTER.sniff(head, Path("x.bin"))]


@pytest.mark.parametrize(("name", "importer"), OWN.items())
def test_own_files(name: str, importer: str) -> None:
    head = read_head(DATA / "server" / name)
    assert claims(head) == [importer]
    assert claims(head.decode().encode("utf-16")) == [importer]
    assert claims(head.replace(b"\n", b"\r\n")) == [importer]


def test_files_of_other_importers() -> None:
    """Of the fixtures of all formats, these importers get only those in folders of their own kinds."""
    names = {module.IMPORTER.name for module in MODULES}
    own = {"server", "request_log", "prometheus_scrape", "captures", "h200", "host_pressure"}
    seen = 0
    for path in sorted(DATA.rglob("*")):
        is_dump = any("golden" in part for part in path.relative_to(DATA).parts)
        if path.is_file() and not is_dump and path.relative_to(DATA).parts[0] not in own:
            seen += 1
            chosen = importer_for(read_head(path), Path("x.bin"))
            assert chosen is None or chosen.name not in names, path
    assert seen >= 20


@pytest.mark.skipif(not SHARED.exists(), reason="captures and corpus are not beside the checkout")
def test_every_shared_file() -> None:
    seen = 0
    for path in [path for root in ("captures", "corpus") for path in sorted((SHARED / root).rglob("*"))]:
        if path.is_file() and path.stat().st_size:
            head = read_head(path)
            expected = ["prometheus_scrape"] if path.suffix == ".prom" else OF_NAMES.get(path.name, [])
            assert claims(head) == expected, path
            seen += bool(expected)
    assert seen >= 25
