"""Record PyTorch's allocator history in one process and write snapshots of it.

Snapshots are what `torch.cuda.memory._snapshot()` returns, pickled:
https://pytorch.org/docs/stable/torch_cuda_memory.html
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import os
import pickle
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, BinaryIO, cast

GZIP_LEVEL = 3


class TorchMemoryRecorder:
    """Turns the history on when CUDA initialises; writes at exit, on a signal, and when an allocation fails.

    `path`: the snapshot written at exit; others stand beside it with `oom` or the signal's name and a number. A name
    that is taken is never written over. `max_entries`: events kept, the oldest are lost first. `stacks`: `python` or
    `all` (C++ frames too). `signal_name` may be empty. At most `max_oom_dumps` snapshots are written for failures.
    `is_first`: this is the process that the launcher started, which says so when there was nothing to record.
    """

    def __init__(
        self, path: str, max_entries: int, stacks: str, signal_name: str, max_oom_dumps: int, is_first: bool
    ) -> None:
        self.path, self.is_first = Path(path), is_first
        self.max_entries, self.stacks, self.oom_dumps_left = max_entries, stacks, max_oom_dumps
        self.torch: Any = None
        self.recording = False
        self.signal_name = signal_name
        self.is_ours = True
        if signal_name:
            with contextlib.suppress(ValueError):  # not the main thread
                signal.signal(signal.Signals[signal_name], self._on_signal)

    def follow(self, torch: ModuleType) -> None:
        """Wait for torch to initialise CUDA; before that its allocator has no device to record."""
        self.torch = torch
        try:
            torch.cuda._lazy_call(self._turn_on)
        except Exception as error:
            _complain(f"this torch ({getattr(torch, '__version__', '?')}) can't record memory: {error}")

    def stop(self, reason: str) -> None:
        if self.recording:
            self._write(None)
        elif self.is_first:
            why = "did not import torch" if self.torch is None else "did not initialise CUDA in its first process"
            _complain(f"no snapshot: the program {why}")

    def abandon(self) -> None:
        """In a forked child: CUDA does not work here, and the parent writes the snapshot."""
        self.recording = self.is_ours = False

    def _turn_on(self) -> None:
        if not self.is_ours:
            return
        try:
            memory = self.torch.cuda.memory
            memory._record_memory_history("all", stacks=self.stacks, max_entries=self.max_entries)
            self.torch._C._cuda_attach_out_of_memory_observer(self._on_oom)
        except Exception as error:
            _complain(f"this torch ({self.torch.__version__}) can't record memory: {error}; torch 2.1 or later can")
            return
        self.recording = True

    def _on_oom(self, device: int, requested: int, total: int, free: int) -> None:
        if self.oom_dumps_left > 0 and self.recording:
            self.oom_dumps_left -= 1
            self._write("oom")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.recording:
            self._write(signal.Signals(number).name.lower())
        else:
            _complain("no snapshot: torch has not initialised CUDA yet")

    def _write(self, cause: str | None) -> None:
        """Write a snapshot; a failure is one line on stderr, the program goes on."""
        try:
            with _no_garbage_collection():
                written = write_new(self.path, cause, self.torch.cuda.memory._snapshot())
        except Exception as error:
            _complain(f"no snapshot written to {self.path}: {error}")
        else:
            _complain(f"snapshot ({cause or 'exit'}) in {written}")


def write_new(path: Path, cause: str | None, snapshot: Any) -> Path:
    """Pickle `snapshot` under a name that is not taken; the name appears only when the file is complete.

    Raises OSError when it can't be written; nothing is left behind then.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with _open(partial, path.suffix == ".gz") as file:
            pickle.dump(snapshot, file, protocol=4)
        for name in _names(path, cause):
            try:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            except FileExistsError:
                continue
            partial.replace(name)
            return name
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    raise OSError("no free name")


def _open(path: Path, is_gzip: bool) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "wb", GZIP_LEVEL)) if is_gzip else path.open("wb")


def _names(path: Path, cause: str | None) -> Iterator[Path]:
    suffixes = "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:])
    stem = path.name.removesuffix(suffixes)
    if cause is None:
        yield path
    for number in range(1, 10_000):
        yield path.with_name(f"{stem}.{cause or os.getpid()}-{number}{suffixes}")


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A snapshot is millions of small objects, all alive: collecting garbage meanwhile costs several times the dump."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _complain(message: str) -> None:
    print(f"leakpath: torch: {message}", file=sys.stderr, flush=True)
