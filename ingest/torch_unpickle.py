"""Unpickling that can build plain data and nothing else.

A pickle is a program; the two instructions that reach outside it (a global by name, a persistent id) are
refused, so the worst a file can do is to be large. Memory is bounded while it loads, because a few bytes of
pickle can ask for gigabytes (LONG_BINPUT with a high memo index).
Source of the instruction set: https://github.com/python/cpython/blob/3.11/Lib/pickletools.py
"""

from __future__ import annotations

import gc
import pickle
import resource
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Never

from ingest.errors import BadInput, UnsafeInput
from ingest.opening import DAMAGED_STREAM, open_bytes

MEMORY_PER_BYTE = 24
MEMORY_FREE_BYTES = 256 * 1024 * 1024
STACK_BYTES = 512 * 1024 * 1024
_REFUSED = "take the snapshot again with torch.cuda.memory._dump_snapshot; nothing of the file was executed"


class PlainUnpickler(pickle.Unpickler):
    """Admits no global at all: dicts, lists, tuples, numbers, text and bytes only."""

    def find_class(self, module: str, name: str, /) -> Never:
        raise UnsafeInput(f"the pickle asks for {module[:80]}.{name[:80]}, a snapshot never does", todo=_REFUSED)

    def persistent_load(self, pid: object, /) -> Never:
        raise UnsafeInput("the pickle asks for a persistent object, a snapshot never does", todo=_REFUSED)


@contextmanager
def bounded_memory(extra_bytes: int) -> Iterator[None]:
    """Let the process's address space grow by at most `extra_bytes` inside the block (MemoryError past it)."""
    with Path("/proc/self/statm").open() as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = now + extra_bytes
    if soft != resource.RLIM_INFINITY:
        limit = min(limit, soft)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def paused_gc() -> Iterator[None]:
    """No garbage collection inside the block: a snapshot has no cycles, and looking for some takes 4 × the load."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _unpacked_bytes(path: Path) -> int:
    """An upper estimate of the unpacked size, for the memory bound."""
    packed = path.stat().st_size
    with path.open("rb") as file:
        plain = file.read(1) == b"\x80"
    return packed if plain else packed * 40


def load_plain(path: Path) -> Any:
    """The object a pickle file describes.

    Raises UnsafeInput when it asks for code, BadInput when it is truncated, damaged or too large to build.
    """
    # A dictionary key of tuples nested a million deep is hashed by recursion in C, which an ordinary stack of 8 MiB
    # does not survive. This one (address space, no memory until used) outlasts 7 million levels, a byte of pickle each.
    usual = threading.stack_size(STACK_BYTES)
    try:
        with ThreadPoolExecutor(1) as deep:
            loaded = deep.submit(_load_bounded, path)
    finally:
        threading.stack_size(usual)
    return loaded.result()


def _load_bounded(path: Path) -> Any:
    with (
        open_bytes(path) as stream,
        paused_gc(),
        bounded_memory(MEMORY_FREE_BYTES + MEMORY_PER_BYTE * _unpacked_bytes(path)),
    ):
        return _load(stream, path)


def _load(stream: BinaryIO, path: Path) -> Any:
    try:
        return PlainUnpickler(stream).load()
    except UnsafeInput as error:
        if error.where is None:
            raise UnsafeInput(error.what, where=str(path), todo=error.todo) from None
        raise
    except MemoryError:
        raise BadInput(
            "needs more memory to unpickle than its size explains",
            where=str(path),
            todo="it may be damaged: copy it again",
        ) from None
    except (*DAMAGED_STREAM, pickle.UnpicklingError) as error:
        raise BadInput(
            f"the pickle ends early or is damaged ({error or type(error).__name__})",
            where=str(path),
            todo="copy it again",
        ) from None
    except Exception as error:  # a damaged pickle raises nearly anything: KeyError, TypeError, UnicodeDecodeError, …
        raise BadInput(
            f"the pickle is damaged ({type(error).__name__}: {str(error)[:120]})", where=str(path), todo="copy it again"
        ) from None
