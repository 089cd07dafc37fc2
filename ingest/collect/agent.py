"""What runs inside the recorded program: starts the recorders that the launcher asked for, ends them with the program.

The launcher passes its wishes as JSON in one environment variable. The process it starts itself records from the start;
processes further down record once they import a library that uses CUDA, each into a file of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from .import_hooks import AfterImport

VARIABLE = "LEAKPATH_COLLECT"
CUDA_LIBRARIES = ("torch", "cupy", "jax", "jaxlib", "tensorflow", "numba", "cuda", "pycuda", "onnxruntime", "tensorrt")
EXIT_BAD_INPUT = 3
EXIT_OUTPUT = 4


class Recorder(Protocol):
    """A recorder that has started."""

    def stop(self, reason: str) -> None: ...
    def abandon(self) -> None: ...


def start() -> None:
    """Start what the environment asks for; does nothing when it asks for nothing. Never raises."""
    wishes = json.loads(os.environ.get(VARIABLE) or "{}")
    if wishes:
        Agent(wishes, is_first=os.getppid() == wishes.get("launcher_pid")).start()


class Agent:
    """The recorders of one process. `wishes` is what `session.Session` wrote; `is_first`: the launcher's own child."""

    def __init__(self, wishes: dict[str, Any], *, is_first: bool) -> None:
        self.wishes, self.is_first = wishes, is_first
        self.recorders: dict[str, Recorder] = {}
        self.ended = False

    def start(self) -> None:
        if "cupti" in self.wishes:
            if self.is_first:
                self._begin("cupti", self._start_cupti)
            else:
                AfterImport(CUDA_LIBRARIES, lambda _: self._begin("cupti", self._start_cupti)).install()
        if "torch" in self.wishes:
            self._begin("torch", self._start_torch)
        atexit.register(self.end, "exit")
        os.register_at_fork(after_in_child=self._abandon)
        with contextlib.suppress(ValueError):  # not the main thread
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._on_sigterm)

    def end(self, reason: str) -> None:
        """Stop all recorders, the last started first; safe to call again."""
        if self.ended:
            return
        self.ended = True
        for name, recorder in reversed(self.recorders.items()):
            try:
                recorder.stop(reason)
            except Exception as error:
                complain(f"{name}: the recording could not be ended: {sentence(error)}")

    def _begin(self, name: str, starter: Callable[[dict[str, Any]], Recorder]) -> None:
        if name in self.recorders or self.ended:
            return
        try:
            self.recorders[name] = starter(self.wishes[name])
        except Exception as error:
            complain(f"{name}: {sentence(error)}")
            if self.is_first:  # nobody waits an hour for a run that records nothing
                os._exit(EXIT_OUTPUT if isinstance(error, OSError) else EXIT_BAD_INPUT)

    def _start_cupti(self, wish: dict[str, Any]) -> Recorder:
        try:
            from .cupti import CuptiRecorder, claim_file
        except ImportError as error:
            raise RuntimeError(
                f"this interpreter lacks {error.name}; pip install cupti-python pyarrow into it"
            ) from None
        path = Path(wish["path"])
        options = {key: wish[key] for key in ("api", "all_calls", "flush_period_s", "delivery")}
        recorder = CuptiRecorder(**options)
        recorder.start(claim_file(path))
        return recorder

    def _start_torch(self, wish: dict[str, Any]) -> Recorder:
        from .torch_memory import TorchMemoryRecorder

        recorder = TorchMemoryRecorder(**wish, is_first=self.is_first)
        AfterImport(["torch"], recorder.follow).install()
        return recorder

    def _abandon(self) -> None:
        self.ended = True
        for recorder in self.recorders.values():
            recorder.abandon()

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        self.end(f"signal {number}")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def complain(message: str) -> None:
    """One line on stderr."""
    print(f"leakpath: {message}", file=sys.stderr, flush=True)


def sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
