"""Shows a run's progress on stderr: a line for each finished stage, and on a terminal one that moves."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence

import click

from pipeline.jobs import Job

_REDRAW_S = 0.2


class LiveView:
    """Call `update` often; it prints what the jobs newly said. Honours NO_COLOR, and plain output elsewhere."""

    def __init__(self, jobs: Sequence[Job], *, quiet: bool = False) -> None:
        self._jobs, self._quiet = jobs, quiet
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._color = self._terminal and not os.environ.get("NO_COLOR")
        self._drawn_at = 0.0
        self._has_line = False

    def update(self) -> None:
        """Read the jobs' logs and show what is new."""
        for job in self._jobs:
            for kind, text in () if job.is_over else job.read():
                if not self._quiet:
                    self._show(job, kind, text)
        if self._terminal and not self._quiet and time.monotonic() - self._drawn_at > _REDRAW_S:
            self._draw()

    def close(self) -> None:
        """Read the last words and remove the moving line."""
        self.update()
        self._clear()
        for job in self._jobs:
            job.close()

    def _show(self, job: Job, kind: str, text: str) -> None:
        if kind == "done":
            self._print(f"{job.label}: done in {job.elapsed_s:.1f} s", "green")
        elif kind == "error":
            self._print(f"{job.label}: {text}", "red")
        elif not self._terminal:
            self._print(f"{job.label}: {text or 'started'}", None)

    def _print(self, line: str, color: str | None) -> None:
        self._clear()
        click.echo(click.style(line, fg=color) if color and self._color else line, err=True, color=self._color)

    def _draw(self) -> None:
        now = self._drawn_at = time.monotonic()
        running = [job for job in self._jobs if job.state == "running"]
        if not running:
            return
        parts = [f"{job.label}: {job.message or 'starting'} ({now - job.started_at:.0f} s)" for job in running]
        width = shutil.get_terminal_size().columns - 1
        line = "; ".join(parts)
        self._clear()
        click.echo(line if len(line) <= width else line[: width - 1] + "…", nl=False, err=True)
        self._has_line = True

    def _clear(self) -> None:
        if self._has_line:
            click.echo("\r\x1b[K", nl=False, err=True, color=True)
            self._has_line = False
