"""Pieces of JSON text: against the json module at every chunk size, damage, bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest import json_pieces
from ingest.json_pieces import JsonPieces
from ingest.sink import Sink

DOCUMENT = {
    "a": {"spans": 1, "b": [1, {"x": '}"\\{', "n": "\n"}]},
    "batches": [
        {"resource": {"k": 's\\"p[]ans\\\\'}, "inner": [{"spans": [{"id": 1, "spans": [{"deep": "]}"}]}, {"id": 2}]}]},
        {"resource": {}, "inner": [{"spans": [{"id": 3}], "z": "é"}, {"spans": []}]},
    ],
}
EXPECTED = [
    ("batches", None),
    ("resource", DOCUMENT["batches"][0]["resource"]),  # type: ignore[index]
    ("spans", {"id": 1, "spans": [{"deep": "]}"}]}),
    ("spans", {"id": 2}),
    ("batches", None),
    ("resource", {}),
    ("spans", {"id": 3}),
]


def pieces(data: bytes, size: int = 64) -> tuple[list[tuple[str, Any]], dict[str, int]]:
    sink = Sink(Path("unused"), 0, "test")
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    found = JsonPieces(chunks, sink, frozenset(("spans", "resource")), frozenset(("batches",)))
    texts = [(piece.key, json.loads(piece.text) if piece.text else None) for piece in found]
    return texts, {name: count for (name, _), (count, _) in sink.counts.items()}


@pytest.mark.parametrize("is_ascii", [True, False])
@pytest.mark.parametrize("indent", [None, 0, 2])
def test_at_every_chunk_size(is_ascii: bool, indent: int | None) -> None:
    data = json.dumps(DOCUMENT, ensure_ascii=is_ascii, indent=indent).encode()
    for size in (*range(1, 24), 10_000):
        assert pieces(data + b"\n" + data, size) == (EXPECTED * 2, {"values_not_objects": 2}), size


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (b'junk\n{"spans": [{}]}\n', {"text_between_documents": 1}),
        (b'{"spans": [{}]}\n"junk" 7 \n', {"text_between_documents": 1}),
        (b'{"spans": [{}, null, 1, "x", true, [{}]]}', {"values_not_objects": 3}),
        (b'{"spans": null, "resource": "x", "z": "y", "u": [1]}', {"values_not_objects": 1}),
        (b'\x1e{"spans": [{}]}\r\n,\n[{"spans": [{}]}, {}]', {}),
    ],
)
def test_what_is_no_object_is_counted(text: bytes, counts: dict[str, int]) -> None:
    for size in (*range(1, 12), 1000):
        assert pieces(text, size)[1] == counts, size


def test_damage_ends_with_its_line() -> None:
    good = json.dumps(DOCUMENT).encode() + b"\n"
    assert pieces(good + good[:150] + b"\n" + good)[1] == {"cut_document": 1, "values_not_objects": 3}
    assert pieces(good + good[:150] + b"\n" + good)[0][-7:] == EXPECTED
    flipped = good.replace(b'"resource"', b'"resource', 1)
    assert pieces(good + flipped + good)[0][-7:] == EXPECTED
    assert pieces(good[:-90])[1] == {"cut_document": 1, "values_not_objects": 1}


def test_depth_and_size_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, counts = pieces(b"[" * 100_000 + b"\n" + json.dumps(DOCUMENT).encode(), 4096)
    assert texts == EXPECTED
    assert counts["nested_too_deep"] == 500
    monkeypatch.setattr(json_pieces, "MAX_PIECE_BYTES", 1000)
    large = json.dumps({"spans": [{"x": "y" * 5000}, {"id": 4}]}).encode()
    assert pieces(large) == ([("spans", {"id": 4})], {"large_values": 1})
    assert pieces(b'{"' + b"k" * 10**6 + b'": 1, "spans": [{"id": 5}]}', 4096) == ([("spans", {"id": 5})], {})
