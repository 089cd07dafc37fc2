"""CUPTI's raw buffers, through a stand-in for the C library that speaks through real C function pointers."""

from __future__ import annotations

import ctypes
import importlib.util
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.collect.cupti_library import CuptiLibrary, CuptiUnavailable
from ingest.collect.deliveries import BUFFER_BYTES, BufferDelivery, ObjectDelivery
from ingest.collect.records import Block

from .harness import STAND_INS


def _stand_in() -> Any:
    spec = importlib.util.spec_from_file_location("stand_in_cupti", STAND_INS / "cupti" / "cupti.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CUPTI = _stand_in()


class CLibrary:
    """Knows the length of each record it put into a buffer, as CUPTI does. `lengths_asked` counts the questions."""

    def __init__(self, dropped: int = 0) -> None:
        self.dropped, self.lengths_asked = dropped, 0
        self.length_at: dict[int, int] = {}

    def cuptiActivityRegisterCallbacks(self, requested: Any, completed: Any) -> int:
        self.requested, self.completed = requested, completed
        return 0

    def cuptiActivityGetNextRecord(self, buffer: Any, valid: Any, record: Any) -> int:
        self.lengths_asked += 1
        cursor = record._obj
        offset = cursor.value - buffer.value
        following = offset + self.length_at[offset]
        cursor.value += self.length_at[offset]
        return 12 if following >= valid.value else 0

    def cuptiActivityGetNumDroppedRecords(self, context: Any, stream: int, count: Any) -> int:
        count._obj.value, self.dropped = self.dropped, 0
        return 0

    def deliver(self, records: list[bytes]) -> None:
        """Ask for a buffer, fill it and hand it over, as CUPTI's own thread does."""
        buffer, size, limit = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(99)
        self.requested(ctypes.pointer(buffer), ctypes.pointer(size), ctypes.pointer(limit))
        assert (size.value, limit.value) == (BUFFER_BYTES, 0)
        offset, self.length_at = 0, {}
        for data in records:
            self.length_at[offset] = len(data)
            offset += len(data)
        assert buffer.value is not None
        ctypes.memmove(buffer.value, b"".join(records), offset)
        self.completed(None, 0, buffer.value, size.value, offset)


def _delivery(library: CLibrary) -> tuple[BufferDelivery, list[Block]]:
    blocks: list[Block] = []
    delivery = BufferDelivery(library, CUPTI, blocks.append)
    delivery.register()
    return delivery, blocks


_KINDS = st.sampled_from(["RUNTIME", "EXTERNAL_CORRELATION", "MEMORY2", "MARKER"])


@settings(deadline=None)
@given(st.lists(st.lists(_KINDS, max_size=40), max_size=4))
def test_every_record_of_every_mix_comes_out_once_and_in_order(buffers: list[list[str]]) -> None:
    library = CLibrary()
    delivery, blocks = _delivery(library)
    sent: dict[str, list[int]] = {}
    serial = 0
    field = {"MARKER": "id"}
    for kinds in buffers:
        records = []
        for kind in kinds:
            serial += 1
            records.append(CUPTI.pack(kind, **{field.get(kind, "correlation_id"): serial}))
            sent.setdefault(kind, []).append(serial)
        library.deliver(records)
    received: dict[str, list[int]] = {}
    for block in blocks:
        received.setdefault(block.kind, []).extend(block.rows[field.get(block.kind, "correlation_id")].tolist())
    assert received == sent
    assert not delivery.skipped


def test_the_library_is_asked_for_each_kinds_length_once() -> None:
    library = CLibrary()
    _, blocks = _delivery(library)
    for _ in range(3):
        library.deliver([CUPTI.pack("RUNTIME")] * 1000 + [CUPTI.pack("MARKER")])
    assert library.lengths_asked == 2
    assert sum(len(block.rows) for block in blocks) == 3003


def test_texts_are_read_while_the_buffer_is_held() -> None:
    library = CLibrary()
    _, blocks = _delivery(library)
    names = ["request:0", None, "request:0", "прогон"]
    library.deliver([CUPTI.pack("MARKER", **({"name": name} if name else {})) for name in names])
    [block] = blocks
    texts = block.texts["name"]
    assert [texts.values[code] if code >= 0 else None for code in texts.codes] == names


def test_a_struct_of_another_size_is_counted_and_stepped_over() -> None:
    library = CLibrary()
    delivery, blocks = _delivery(library)
    longer = CUPTI.pack("RUNTIME") + bytes(16)
    library.deliver([longer, CUPTI.pack("MARKER"), longer])
    assert delivery.skipped == {"RUNTIME, 56 bytes": 2}
    assert [(block.kind, len(block.rows)) for block in blocks] == [("MARKER", 1)]


def test_a_buffer_that_makes_no_sense_is_counted_and_raises_nothing() -> None:
    library = CLibrary()
    delivery, blocks = _delivery(library)
    library.deliver([b"\x05" + bytes(2)])  # shorter than any record, and no multiple of eight
    assert not blocks
    assert sum(delivery.skipped.values()) > 0


def test_dropped_records_and_buffers_used_again() -> None:
    library = CLibrary(dropped=42)
    delivery, _ = _delivery(library)
    for _ in range(20):
        library.deliver([CUPTI.pack("RUNTIME")])
    assert delivery.dropped == 42
    assert len(delivery._free) == 1


@pytest.mark.parametrize(("release", "fits"), [("13.0.1", True), ("13.4.0", False), ("12.9.0", False)])
def test_objects_are_refused_when_their_release_is_not_the_librarys(
    monkeypatch: pytest.MonkeyPatch, release: str, fits: bool
) -> None:
    class Versioned(CLibrary):
        def cuptiGetVersion(self, version: Any) -> int:
            version._obj.value = 130001
            return 0

    library = object.__new__(CuptiLibrary)
    library.module, library.c_library = CUPTI, Versioned()
    monkeypatch.setattr("importlib.metadata.version", lambda _: release)
    if fits:
        assert isinstance(library.delivery("objects", print), ObjectDelivery)
    else:
        with pytest.raises(CuptiUnavailable, match=r"cupti-python==13\.0\.\*"):
            library.delivery("objects", print)
    assert isinstance(library.delivery("buffers", print), BufferDelivery)
