"""What the jobs of a run did, as their logs in OUT/.leakpath/logs tell."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from ingest.errors import EXIT_INTERNAL
from pipeline.inputs import STATE
from pipeline.progress import printable

STAGES = ("ingest", "analyze", "report")
INDEX = "index"


@dataclass(slots=True)
class Job:
    """One job of this run; `capture` is empty for the index. `elapsed_s` counts from its first word."""

    capture: str
    stage: str
    log: Path
    state: Literal["waiting", "running", "done", "failed"] = "waiting"
    message: str = ""
    exit_code: int = 0
    started_at: float = 0.0
    elapsed_s: float = 0.0
    noise: str = ""
    is_silent: bool = False
    _offset: int = field(default=0, repr=False)
    _rest: bytes = field(default=b"", repr=False)

    @property
    def label(self) -> str:
        return f"{self.capture}: {self.stage}" if self.capture else self.stage

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "failed")

    def read(self) -> Iterable[tuple[str, str]]:
        """What the job said since the last call, as (kind, text); kinds: start, message, done, error."""
        try:
            with self.log.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield from self._take(line)

    def _take(self, line: bytes) -> Iterable[tuple[str, str]]:
        said = _event(line)
        kind, text = said.get("event", ""), str(said.get("text", ""))
        if kind == "start":
            self.state, self.started_at = "running", time.monotonic()
        elif kind == "message":
            self.message = text
        elif kind == "done":
            self.state = "done"
        elif kind == "error":
            self.state, self.message = "failed", text
            self.exit_code = int(said.get("exit_code", EXIT_INTERNAL))
        else:
            self.noise = printable(line.decode("utf-8", "replace").strip()) or self.noise
            return
        self.elapsed_s = time.monotonic() - self.started_at
        yield kind, text

    def close(self) -> None:
        """After the run: a job that neither finished nor said why was ended from outside."""
        if self.state == "running" or (self.state == "waiting" and self.noise):
            self.state, self.exit_code, self.is_silent = "failed", EXIT_INTERNAL, not self.noise
            self.message = self.noise or "ended without a word: killed, perhaps for lack of memory"


def _event(line: bytes) -> dict[str, Any]:
    try:
        data = orjson.loads(line)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def jobs_of(out: Path, captures: Sequence[str]) -> list[Job]:
    """The jobs a run may start, with the logs of earlier runs removed."""
    logs = out / STATE / "logs"
    jobs = [Job(capture, stage, logs / f"{capture}.{stage}.log") for capture in captures for stage in STAGES]
    jobs.append(Job("", INDEX, logs / "index.log"))
    for job in jobs:
        job.log.unlink(missing_ok=True)
    return jobs
