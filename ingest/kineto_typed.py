"""Events of Kineto's own categories, decoded into objects of no more than what the tables need of them.

A block is decoded so only when every event of it is of a known category and holds values of the usual types; any other
block is left to the general reader, which makes the same rows of it. What JSON forbids within values that are passed
over goes unseen here: such blocks are left out as well.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple, Union

import msgspec
import orjson

from ingest.kineto_columns import EXACT_FRACTION
from ingest.kineto_names import (
    ANNOTATIONS,
    API_CALLS,
    GPU_OPS,
    GPU_RANGES,
    MEMORY,
    OPERATORS,
    OUT_OF_MEMORY,
    OVERHEADS,
    PYTHON,
    SYNCS,
    WINDOWS,
)
from ingest.kineto_tables import NUMBERS

FLOW_CATEGORIES = ("ac2g", "async_cpu_to_gpu", "fwdbwd", "async")
MAX_VAIN_BLOCKS = 32
"""Blocks decoded in vain, less those decoded, after which a file is left to the general reader."""

_Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Time = (
    Annotated[float, msgspec.Meta(gt=-EXACT_FRACTION, lt=EXACT_FRACTION)]
    | Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
)
_Name = int | str
_OTHERS: dict[str, dict[str, Any]] = {
    "gpu": {"grid": list[int] | None, "block": list[int] | None},
    "sync": {"cuda_sync_kind": str | None},
    "operator": {"Call stack": str | None},
}


class Form(NamedTuple):
    """How events of one category are taken: their kind, constant columns, and the column of each field.

    `ph` and `args`, where there is any, are the first and the last field of an event and no columns.
    """

    kind: str
    constants: dict[str, str]
    fields: tuple[str, ...]
    arguments: tuple[str, ...]


FORMS: dict[type, Form | None] = {}
"""Types of events; None for those that are but counted, or turned back into objects."""


def _arguments(kind: str) -> tuple[type, tuple[str, ...]]:
    """A type of `args`, and the column of each of its fields."""
    keys: dict[str, tuple[str, Any]] = {name: (whole.key, _Whole | None) for name, whole in NUMBERS[kind].items()}
    keys |= {key: (key, of_type) for key, of_type in _OTHERS.get(kind, {}).items()}
    fields = [
        (f"field{number}", of_type, msgspec.field(default=None, name=key))
        for number, (key, of_type) in enumerate(keys.values())
    ]
    made = msgspec.defstruct(f"{kind}_arguments", fields, gc=False)
    return made, tuple(keys)


def _form(category: str, kind: str, **constants: str) -> type:
    # In the order in which Kineto writes them: each is looked for behind the one before.
    fields: list[tuple[str, Any]] = [("ph", Literal["X"]), ("name", str)]
    if kind == "memory":
        fields = [("ph", Literal["i", "I", "R", "n"]), ("name", Literal[MEMORY, OUT_OF_MEMORY])]
    if kind not in ("sync", "overhead"):
        fields.append(("pid", _Whole if kind == "gpu" else _Name))
    if kind not in ("gpu", "sync", "overhead"):
        fields.append(("tid", _Name))
    fields.append(("ts", _Time))
    if kind != "memory":
        fields.append(("dur", _Time))
    names = tuple(name for name, _ in fields if name != "ph")
    arguments: tuple[str, ...] = ()
    whole: list[Any] = list(fields)
    if kind in NUMBERS:
        of_type, arguments = _arguments(kind)
        whole.append(("args", of_type, msgspec.field(default_factory=of_type)))
    made = msgspec.defstruct(category, whole, tag=category, tag_field="cat", gc=False)
    FORMS[made] = Form(kind, constants, names, arguments)
    return made


def _plain(category: str, fields: list[Any]) -> type:
    made = msgspec.defstruct(category, fields, tag=category, tag_field="cat", gc=False)
    FORMS[made] = None
    return made


def _types() -> list[type]:
    types = [_form(category, "gpu", op=op) for category, op in GPU_OPS.items()]
    types += [_form(category, "api", api=api) for category, api in API_CALLS.items()]
    kinds = {"python": PYTHON, "operator": OPERATORS, "sync": SYNCS, "overhead": OVERHEADS}
    types += [_form(category, kind) for kind, categories in kinds.items() for category in categories]
    types.append(_form("cpu_instant_event", "memory"))
    return types


_FLOWS = frozenset(_plain(category, [("ph", Literal["s", "t", "f"])]) for category in FLOW_CATEGORIES)
_RANGE = [
    ("ph", Literal["X"]),
    ("ts", _Time),
    ("dur", _Time),
    ("name", str),
    ("pid", _Name),
    ("tid", _Name),
    ("args", msgspec.Raw, msgspec.Raw(b"null")),
]
_RANGES = {_plain(category, _RANGE): category for category in (*ANNOTATIONS, *GPU_RANGES, *WINDOWS)}
_DECODER = msgspec.json.Decoder(list[Union[*_types(), *_FLOWS, *_RANGES]])  # type: ignore[misc]


class TypedBlock(list[Any]):
    """Events of a block as such objects; never empty."""

    def groups(self) -> Iterable[tuple[type, list[Any]]]:
        """Events by their type, in the order of first sight."""
        groups: dict[type, list[Any]] = defaultdict(list)
        for event in self:
            groups[type(event)].append(event)
        return groups.items()


def is_flow(of_type: type) -> bool:
    """Whether events of a type are arrows between others."""
    return of_type in _FLOWS


def as_objects(of_type: type, events: list[Any]) -> tuple[str, list[dict[str, Any]]]:
    """Category and JSON objects of ranges."""
    names = ("ph", "ts", "dur", "name", "pid", "tid")
    return _RANGES[of_type], [
        {name: getattr(event, name) for name in names} | {"args": _loads(event.args)} for event in events
    ]


def _loads(text: msgspec.Raw) -> Any:
    try:
        return orjson.loads(bytes(text))
    except orjson.JSONDecodeError:  # 1e400
        return json.loads(bytes(text))


class TypedReader:
    """Decodes blocks of one file, as long as that is worth it."""

    def __init__(self) -> None:
        self._vain = 0

    def read(self, block: bytes) -> TypedBlock | None:
        """Events of a block, None when it is to be read as any JSON."""
        if self._vain > MAX_VAIN_BLOCKS:
            return None
        try:
            if not block.isascii():
                str(block, "utf-8")  # The encoding of texts that are passed over goes unseen.
            events = _DECODER.decode(b"[" + block + b"]")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._vain += 1
            return None
        self._vain -= self._vain > 0
        return TypedBlock(events) if events else None
