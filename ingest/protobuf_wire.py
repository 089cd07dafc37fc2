"""Fields of protocol buffer messages without their schema: https://protobuf.dev/programming-guides/encoding/."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Value = int | bytes | float


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    for byte in message[place : place + 10]:
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place
        shift += 7
    raise ValueError("a number has no end")


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Each field's number and value: int for varints, float for fixed widths (double, float), bytes for the rest.

    Raises ValueError at the place of damage.
    """
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, place = _varint(message, place)
            yield number, value
            continue
        length = {FIXED64: 8, FIXED32: 4}.get(wire, 0)
        if wire == BYTES:
            length, place = _varint(message, place)
        elif not length:
            raise ValueError(f"wire type {wire} of field {number}")
        if place + length > len(message):
            raise ValueError(f"field {number} is longer than its message")
        part = message[place : place + length]
        place += length
        if wire == BYTES:
            yield number, part
        else:
            yield number, struct.unpack("<d" if wire == FIXED64 else "<f", part)[0]


def whole(fields_of: dict[int, Value], number: int) -> int | None:
    """The field as an integer, None when it is absent or of another type."""
    value = fields_of.get(number)
    return value if isinstance(value, int) else None


def text(fields_of: dict[int, Value], number: int) -> str:
    """The field as text, empty when it is absent or of another type."""
    value = fields_of.get(number)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def part(fields_of: dict[int, Value], number: int) -> bytes:
    """The field as an embedded message, empty when it is absent or of another type."""
    value = fields_of.get(number)
    return value if isinstance(value, bytes) else b""
