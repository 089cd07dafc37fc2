"""The text importers tell their files apart, and from everybody else's, by content alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ingest import bpftrace_cuda, nvml_csv, prometheus_scrape, request_log, tokens_csv
from ingest.errors import BadInput
from ingest.opening import read_head
from ingest.registry import Importer
from ingest.sink import Sink
from tests.ingest.support import SHARED, read_into

DATA = Path(__file__).parents[1] / "data"
IMPORTERS = {
    module.IMPORTER.name: module.IMPORTER
    for module in (bpftrace_cuda, nvml_csv, request_log, tokens_csv, prometheus_scrape)
}
FILES = [path for name in IMPORTERS for path in sorted((DATA / name).iterdir())]


def claims(head: bytes) -> list[str]:
    return [name for name, importer in IMPORTERS.items() if importer.sniff(head, Path("x.bin"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_each_file_has_one_importer(path: Path) -> None:
    assert len(FILES) >= 7
    head = read_head(path)
    assert claims(head) == [path.parent.name]
    assert claims(head.decode().encode("utf-16")) == [path.parent.name]
    assert claims(head.replace(b"\n", b"\r\n")) == [path.parent.name]


CAPTURE_NAMES = {
    "bpftrace": "bpftrace_cuda",
    "nvml": "nvml_csv",
    "requests": "request_log",
    "tokens": "tokens_csv",
    "metrics": "prometheus_scrape",
}


@pytest.mark.skipif(not SHARED.exists(), reason="the full captures are not beside the checkout")
def test_every_shared_file() -> None:
    seen = 0
    for path in sorted((SHARED / "captures").rglob("*")):
        if path.is_file():
            head = read_head(path)
            name = CAPTURE_NAMES.get(path.name.split(".")[0])
            assert claims(head) == ([name] if name and head else []), path
            seen += name is not None
    assert seen >= 40


@pytest.mark.skipif(not SHARED.exists(), reason="the corpus is not beside the checkout")
def test_other_kinds_of_the_corpus_are_not_claimed() -> None:
    kinds: dict[str, int] = {}
    for path in sorted((SHARED / "corpus").rglob("*")):
        if path.is_file():
            kind = path.relative_to(SHARED / "corpus").parts[0]
            is_ours = kind == "prom_vllm" and path.suffix in (".prom", ".txt")
            assert claims(read_head(path)) == (["prometheus_scrape"] if is_ours else []), path
            kinds[kind] = kinds.get(kind, 0) + 1
    assert len(kinds) >= 10


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n\n",
        "a,b,c\n1,2,3\n",
        "timestamp_ns,value\n1,2\n",
        '{"request_id": 1, "event": "alloc", "timestamp_ns": 1796036736812447379}\n',
        '{"kind": "KERNEL", "start": 1, "end": 2, "correlation_id": 3}\n',
        '{"kind": "MARKER", "id": 1, "timestamp": 2, "name": "request:0"}\n',
        '[{"request_id": 1, "start_ns": 1, "end_ns": 2}]\n',
        "# Title\n\nSome text about # TYPE lines.\n",
        "# a comment\nmain;foo;bar 12\n",
        "main;foo 12\nmain 3\n",
        "total 12\nused 5\n",
        "Attaching 3 probes...\nTime(ns) CPU Cache Op Addr Bytes\n1 1 filp ALLOC 0xffff 192\n",
        "123 456 789 malloc 0x10 16 0\n",
    ],
)
def test_look_alikes_are_not_claimed(text: str) -> None:
    assert claims(text.encode()) == []


def test_noise_is_not_claimed() -> None:
    chance = random.Random(3)
    for _ in range(200):
        assert claims(chance.randbytes(chance.randrange(2000))) == []


def test_samples_without_comments_are_recognised() -> None:
    text = 'vllm:num_requests_running{model="m"} 3.0\nvllm:kv_cache_usage_perc{model="m"} 0.25\n'
    assert claims(text.encode()) == ["prometheus_scrape"]


def test_a_request_line_longer_than_the_head_is_recognised() -> None:
    line = '{"request_id": 1, "arrival_ns": 5, "end_ns": 6, "prompt": "' + 'say \\"x\\": {1} ' * 10_000
    assert claims(line.encode()[: 64 * 1024]) == ["request_log"]
    trace = '{"args": {"request_id": 1, "start_ns": 5, "end_ns": 6}, "traceEvents": [' + '{"id": 1}, ' * 10_000
    assert claims(trace.encode()[: 64 * 1024]) == []


@pytest.mark.parametrize("importer", [nvml_csv.IMPORTER, tokens_csv.IMPORTER], ids=lambda importer: importer.name)
def test_a_file_without_the_header_is_refused_in_one_line(importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("1,2,3\n")
    with pytest.raises(BadInput) as caught:
        importer.read(path, Sink(tmp_path, 0, importer.source))
    assert "timestamp_ns" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        read_into(tmp_path / "none", tmp_path, nvml_csv.IMPORTER)
