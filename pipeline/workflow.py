"""Drives the packaged Snakefile in a process of its own, and watches its jobs through their logs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ingest.atomic import output_error
from ingest.errors import BadInput
from pipeline.inputs import STATE
from pipeline.lifeline import VARIABLE, lifeline
from pipeline.state import RUN_CONFIG

SNAKEMAKE_LOG = f"{STATE}/snakemake.log"
_POLL_S = 0.1
_GRACE_S = 8.0


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workflow_root() -> Path:
    """Folder that holds the Snakefile: in the wheel a folder of the package, in a checkout its root."""
    package = Path(__file__).resolve().parent
    packaged = package / "workflow"
    return packaged if (packaged / "Snakefile").is_file() else package.parent


def profile_folder(name: str) -> Path:
    """Folder of a profile: a bundled one by its name, or any folder with a config.yaml. Raises BadInput."""
    bundled = Path(__file__).resolve().parent / "profiles"
    for folder in (bundled / name, Path(name)):
        if (folder / "config.yaml").is_file():
            return folder.resolve()
    names = ", ".join(sorted(path.name for path in bundled.iterdir() if path.is_dir()))
    raise BadInput("no such profile", where=name, todo=f"give {names} or a folder with a config.yaml")


def snakemake_command(out: Path, cores: int | None, profile: str) -> list[str]:
    """The command line that runs the workflow in `out`."""
    limit = ["--cores", str(cores or usable_cores())] if cores or profile == "local" else []
    return [
        # -P: a folder called `pipeline` where the user stands is not ours.
        *(sys.executable, "-P", "-m", "pipeline.snakemake_process"),
        *("--snakefile", str(workflow_root() / "Snakefile")),
        *("--directory", str(out)),
        *("--configfile", str(out / RUN_CONFIG)),
        *("--workflow-profile", str(profile_folder(profile))),
        *limit,
        "--keep-going",
        "--rerun-incomplete",
        # `leakpath run` holds its own lock, which the system frees when the run dies.
        "--nolock",
        *("--rerun-triggers", "mtime", "params", "input"),
        *("--scheduler", "greedy"),
    ]


def _environment(out: Path) -> dict[str, str]:
    scripts = sysconfig.get_path("scripts")
    environment = os.environ | {
        # Snakemake caches sources below the home folder, which a service's user may not have.
        "XDG_CACHE_HOME": str(out / STATE / "cache"),
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]),
        VARIABLE: lifeline(),
    }
    # A profile of the user's own would send jobs elsewhere without being asked to.
    environment.pop("SNAKEMAKE_PROFILE", None)
    return environment


def run_snakemake(
    out: Path, *, cores: int | None, profile: str, lock: int, watch: Callable[[], None] = lambda: None
) -> int:
    """Run the workflow to its end and give Snakemake's exit code; `watch` is called several times a second.

    `lock` is the descriptor of the held lock, so that it stays held until Snakemake is gone as well.
    Snakemake's own words go to OUT/.leakpath/snakemake.log. On an interrupt the jobs are ended first.
    """
    command = snakemake_command(out, cores, profile)
    try:
        log = (out / SNAKEMAKE_LOG).open("wb")
    except OSError as error:
        raise output_error(error, out / SNAKEMAKE_LOG) from error
    with log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_environment(out),
            pass_fds=(lock,),
            start_new_session=True,
        )
        try:
            with _terminate_as_interrupt():
                while True:
                    watch()
                    try:
                        return process.wait(_POLL_S)
                    except subprocess.TimeoutExpired:
                        continue
        finally:
            _end(process)


@contextlib.contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Treat a request to end like Ctrl-C, so that the jobs are ended too."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End Snakemake and its jobs if they still run: first kindly, so that they clear what is half-written."""
    if process.poll() is not None:
        return
    for number, patience in ((signal.SIGINT, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + patience
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)
