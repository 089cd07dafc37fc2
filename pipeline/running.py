"""`leakpath run`: checks its input, drives the workflow, and says how each capture came out."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import EXIT_OUTPUT, LeakpathError, OutputError
from pipeline.failures import is_disk_full, keep_tracebacks_in
from pipeline.inputs import STATE, find_captures, prepare_out
from pipeline.jobs import INDEX, Job, jobs_of
from pipeline.liveview import LiveView
from pipeline.locks import locked
from pipeline.state import known_names, write_state
from pipeline.workflow import SNAKEMAKE_LOG, profile_folder, run_snakemake
from schemas.config import Config

_ROOM_BYTES = 64 * 1024
_FULL = "no space left on the device; free some space and run the same command again"


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended: capture names in the order given, and what failed of each."""

    out: Path
    captures: tuple[str, ...]
    failures: dict[str, Job]
    jobs_count: int

    @property
    def exit_code(self) -> int:
        """0, or the gravest code of what failed."""
        return max((job.exit_code for job in self.failures.values()), default=0)


def run_captures(
    paths: Sequence[Path],
    out: Path,
    config: Config,
    *,
    cores: int | None = None,
    profile: str = "local",
    quiet: bool = False,
) -> RunResult:
    """Run the workflow over the captures at `paths`. One that fails does not stop the others.

    Raises BadInput when a path can't be used, OutputError when OUT can't be written or is in use.
    """
    profile_folder(profile)
    captures = find_captures(paths, known_names(out.resolve()))
    resolved = prepare_out(out, captures)
    names = tuple(capture.name for capture in captures)
    with locked(resolved / STATE / "lock", out, wait_s=3) as lock:
        keep_tracebacks_in(resolved / STATE)
        write_state(resolved, captures, config)
        jobs = jobs_of(resolved, names)
        view = LiveView(jobs, quiet=quiet)
        try:
            code = run_snakemake(resolved, cores=cores, profile=profile, lock=lock, watch=view.update)
        finally:
            view.close()
        _name_full_disk(jobs, resolved)
        failures = {job.capture: job for job in reversed(jobs) if job.state == "failed" and job.capture}
        index = next(job for job in jobs if job.stage == INDEX)
        if failures and index.state == "waiting":
            # The index rule needs every capture's report: with one missing, index those that are there.
            with contextlib.suppress(LeakpathError):
                from pipeline.index import build_index

                build_index(resolved)
        elif code and not failures:
            raise _snakemake_failed(resolved, out, index)
    return RunResult(out, names, failures, sum(job.state != "waiting" for job in jobs))


def prepare_run(paths: Sequence[Path], out: Path, config: Config) -> list[str]:
    """Only write OUT/.leakpath, for a profile whose jobs read from a bucket; gives the captures' names."""
    captures = find_captures(paths, known_names(out.resolve()))
    resolved = prepare_out(out, captures)
    with locked(resolved / STATE / "lock", out, wait_s=3):
        write_state(resolved, captures, config)
    return [capture.name for capture in captures]


def _is_full(out: Path) -> bool:
    return shutil.disk_usage(out).free < _ROOM_BYTES


def _name_full_disk(jobs: Sequence[Job], out: Path) -> None:
    """On a full disk a job's last words are lost with the rest; the disk tells."""
    for job in jobs:
        if job.state == "failed" and job.is_silent and _is_full(out):
            job.message, job.exit_code = _FULL, EXIT_OUTPUT


def _snakemake_failed(resolved: Path, out: Path, index: Job) -> LeakpathError:
    if index.state == "failed":
        error = LeakpathError(index.message, where="index")
        error.exit_code = index.exit_code
        return error
    log = resolved / SNAKEMAKE_LOG
    if _is_full(resolved) or is_disk_full(log.read_text(encoding="utf-8", errors="replace")):
        return OutputError(_FULL, where=str(out))
    return LeakpathError("the workflow did not start or did not end well", todo=f"see {out / SNAKEMAKE_LOG}")
