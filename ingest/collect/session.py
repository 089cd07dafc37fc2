"""One run of a program under any of the recorders: starts it, passes signals on, answers with its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from ingest.errors import BadInput, OutputError

from .agent import VARIABLE

INJECT = Path(__file__).resolve().parent / "inject"
PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Sampler(Protocol):
    """A recorder beside the program, in this process; `watch` tells it the program's process id."""

    def watch(self, pid: int) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: object) -> None: ...


@dataclass
class Session:
    """`wishes`: recorders inside the program, by name, as `agent` reads them; `samplers`: those beside it."""

    wishes: dict[str, dict[str, Any]] = field(default_factory=dict)
    samplers: list[Sampler] = field(default_factory=list)

    def run(self, target: tuple[str, ...]) -> int:
        """Run `target` to its end; its exit code, 128 + n when signal n ended it.

        Raises BadInput when it can't be started, or when a recorder inside it never came to life.
        """
        with ExitStack() as stack:
            for sampler in self.samplers:
                stack.enter_context(sampler)
            code = self._run(target)
        if code == 0 and "cupti" in self.wishes and not Path(self.wishes["cupti"]["path"]).exists():
            raise BadInput(
                "nothing was recorded: no Python interpreter in it loaded the recorder",
                where=target[0],
                todo="the target must run Python, without -I, -E or -S",
            )
        return code

    def _run(self, target: tuple[str, ...]) -> int:
        try:
            process = subprocess.Popen(target, env=self._environment())
        except FileNotFoundError:
            raise BadInput("no such program", where=target[0], todo="check the command after --") from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise BadInput(f"can't be run: {reason}", where=target[0], todo="check the command after --") from None
        for sampler in self.samplers:
            sampler.watch(process.pid)
        with _signals_passed_to(process):
            code = process.wait()
        return 128 - code if code < 0 else code

    def _environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        if self.wishes:
            paths = [str(INJECT), environment.get("PYTHONPATH", "")]
            environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
            environment[VARIABLE] = json.dumps({"launcher_pid": os.getpid(), **self.wishes})
        return environment


@contextmanager
def _signals_passed_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ctrl-C reaches the program from the terminal by itself, so it is only ignored here."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def new_output(path: Path) -> Path:
    """An absolute output path that can be created. Raises OutputError: it exists, or its folder can't be written."""
    path = path.expanduser().absolute()
    if path.exists():
        raise OutputError("exists already", where=str(path), todo="choose another name or remove it")
    if not path.parent.is_dir():
        raise OutputError("no such folder", where=str(path.parent), todo="make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError("no permission to write here", where=str(path.parent), todo="choose another folder")
    return path
