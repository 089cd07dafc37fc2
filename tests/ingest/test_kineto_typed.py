"""Blocks decoded by type become the very rows that the general reader makes of them."""

from __future__ import annotations

import gzip
import itertools
import re
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ingest import kineto_stream, kineto_typed
from ingest.kineto import IMPORTER, read
from ingest.sink import Sink
from tests.ingest.kineto_reading import Events, load

DATA = Path(__file__).parents[1] / "data" / "kineto"
KINDS = tuple(DATA / name for name in ("cpu_stacks.json.gz", "ddp2_rank1.json.gz"))

ODDITIES = {
    "nothing odd": (rb"$^", b""),
    "a thread with a name": (rb'"tid": (\d+)', rb'"tid": "stream \1"'),
    "a number as text": (rb'"correlation": (\d+)', rb'"correlation": "\1"'),
    "an id beyond 64 bits": (rb'"External id": (\d+)', rb'"External id": 999999999999999999999\1'),
    "an address of 64 bits": (rb'"Addr": \d+', b'"Addr": 18446744073709551360'),
    "no duration": (rb'"dur": [0-9.]+,', b""),
    "whole times": (rb'"ts": (\d+)\.\d+', rb'"ts": \1'),
    "times since 1970": (rb'"ts": (\d+\.\d+)', rb'"ts": 17\1'),
    "times in ns": (rb'"ts": \d+(\d{7})\.(\d+)', rb'"ts": 179085702\1\2'),
    "no name": (rb'"name": "aten::[^"]*"', b'"name": null'),
    "no such category": (rb'"cat": "cpu_op"', b'"cat": "lambda"'),
    "an escape in a text": (rb'"name": "aten::', b'"name": "\\u00e4\\n::'),
    "half a surrogate": (rb'"name": "aten::', b'"name": "\\ud83d::'),
    "half a surrogate in a text not needed": (rb'"Input type": \[', b'"Input type": ["\\ud83d", '),
    "bytes that are no UTF-8 in a text not needed": (rb'"Input type": \[', b'"Input type": ["\xff\xfe", '),
    "no number in a value not needed": (rb'"Ev Idx": \d+', b'"Ev Idx": nan'),
    "a number that is none as a double": (rb'"Record function id": \d+', b'"Record function id": 1e40'),
    "args that are no object": (rb'"args": \{[^{}]*\}', b'"args": 7'),
}


def tables(path: Path, folder: Path) -> dict[str, bytes]:
    sink = Sink(folder, 0, IMPORTER.source, clock=IMPORTER.clock)
    read(path, sink)
    sink.close()
    made = {file.parent.name: file.read_bytes() for file in folder.rglob("*.parquet")}
    assert sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet")) == sink.rows()
    return made


@pytest.mark.parametrize("source", KINDS, ids=lambda path: path.name)
@pytest.mark.parametrize("oddity", ODDITIES)
@pytest.mark.parametrize("every", (1, 97))
def test_same_rows(source: Path, oddity: str, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_stream, "PIECE_BYTES", 16 * 1024)
    pattern, replacement = ODDITIES[oddity]
    place = itertools.count()

    def odd(match: re.Match[bytes]) -> bytes:
        if next(place) % every:
            return match[0]
        return replacement if match.re.groups == 0 else match.expand(replacement)

    path = tmp_path / "trace.json"
    path.write_bytes(re.sub(pattern, odd, gzip.decompress(source.read_bytes())[: 1 << 20]))
    typed = tables(path, tmp_path / "typed")
    monkeypatch.setattr(kineto_typed, "MAX_VAIN_BLOCKS", -1)
    assert typed == tables(path, tmp_path / "general")


@pytest.mark.parametrize("source", KINDS, ids=lambda path: path.name)
def test_most_events_are_typed(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_stream, "PIECE_BYTES", 16 * 1024)
    counts: Counter[str] = Counter()
    decode = kineto_typed.TypedReader.read

    def counted(reader: kineto_typed.TypedReader, block: bytes) -> kineto_typed.TypedBlock | None:
        events = decode(reader, block)
        counts["typed"] += len(events or ())
        return events

    monkeypatch.setattr(kineto_typed.TypedReader, "read", counted)
    tables(source, tmp_path / "parts")
    events: Events = load(source)[0]
    assert 0.8 * len(events) < counts["typed"] < len(events)
