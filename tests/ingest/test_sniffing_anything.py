"""No importer's sniff raises, whatever the first bytes of a file are."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ingest.opening import HEAD_BYTES, read_head
from ingest.registry import Importer, importers

DATA = Path(__file__).resolve().parents[1] / "data"
MADE = (
    b"",
    b"\0",
    b"\n",
    b"{",
    b"[",
    b'"',
    b"@",
    b"\xff\xfe",
    b"\x80\x04",
    b"PAR1",
    b"SQLite format 3\0",
    b"NVR\0",
    b"PERFILE2",
    b"ARROW1\0\0",
    b"# ",
    b",,,,\n,,,",
    b"{" * HEAD_BYTES,
    b"[" * HEAD_BYTES,
    b"a" * HEAD_BYTES,
    b"1" * HEAD_BYTES,
    b" " * HEAD_BYTES,
    b"\n" * HEAD_BYTES,
    b'{"traceEvents": [' + b'{"ph": "X"},' * 5000,
    b'{"a": 1e999999999, "b": ' + b"9" * 5000,
)


def _heads() -> list[bytes]:
    chance = random.Random(5)
    heads = [*MADE, *(chance.randbytes(n) for n in (1, 2, 7, 64, 4096))]
    files = [path for path in sorted(DATA.rglob("*")) if path.is_file() and path.suffix not in (".md", ".py")]
    for path in chance.sample(files, 40):
        head = read_head(path)
        heads += [head[: chance.randrange(len(head) + 1)] for _ in range(3)] if head else []
        flipped = bytearray(head)
        for _ in range(20):
            if flipped:
                flipped[chance.randrange(len(flipped))] = chance.randrange(256)
        heads.append(bytes(flipped))
    return heads


HEADS = _heads()


@pytest.mark.parametrize("importer", importers(), ids=lambda importer: importer.name)
def test_sniffing_never_raises(importer: Importer, tmp_path: Path) -> None:
    nameless = tmp_path / "x.bin"
    nameless.touch()
    for head in HEADS:
        assert importer.sniff(head, nameless) in (True, False)
