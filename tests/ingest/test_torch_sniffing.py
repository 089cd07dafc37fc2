"""Which files are taken for pickles."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.registry import importer_for
from ingest.torch_snapshot import IMPORTER, sniff
from tests.ingest.support import ingest_file
from tests.ingest.torch_shapes import whole, write


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_is_recognised_and_read(protocol: int, tmp_path: Path) -> None:
    path = write(tmp_path, whole(), "no.extension", protocol)
    assert importer_for(path.read_bytes(), path) is IMPORTER
    assert ingest_file(path, tmp_path)["memory_events"].height == 5


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\x80",
        b"\x80\x77",
        b"{}",
        b"count\n12\n13\n",
        b"cpu\nidle\nuser\n",
        b"id,x\n",
        b"(note)\n",
        b"}\n",
        b"PK\x03\x04",
    ],
)
def test_what_is_no_pickle_is_left_to_others(head: bytes) -> None:
    assert not sniff(head, Path("x"))


@pytest.mark.parametrize(
    "head", [b"cos\nsystem\n(S'true'\ntR.", b"cposix\nsystem\nq\x00X", b"(icos\nsystem\n(", b"\x80\x02cos\n"]
)
def test_pickles_that_call_something_are_recognised_to_be_refused(head: bytes) -> None:
    assert sniff(head, Path("x"))
