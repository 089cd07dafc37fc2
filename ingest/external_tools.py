"""Programs of the user's own that read what only they can: nsys, ncu and perf."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ingest.errors import BadInput

TIMEOUT_S = 1800
_KEPT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
_MESSAGE_CHARACTERS = 300


def tool_path(name: str) -> str | None:
    """Where the program is on the user's path, None when it is not there."""
    return shutil.which(name)


def run_tool(
    command: Sequence[str],
    *,
    capture: Path,
    todo: str,
    stdout: Path | None = None,
    timeout_s: int = TIMEOUT_S,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Run `command` (no shell, no input, C locale), its standard output into the file `stdout`; its standard error.

    Of the environment only the paths are passed on, and `variables` on top.
    Paths in the command must be absolute, so that none can be taken for an option. Raises BadInput that names
    `capture` when the program is not on the path (with `todo`), fails, or takes longer than `timeout_s` seconds.
    """
    program = tool_path(command[0])
    if program is None:
        raise BadInput(f"reading it needs `{command[0]}`, which is not on the path", where=str(capture), todo=todo)
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    output = stdout.open("wb") if stdout else subprocess.DEVNULL
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            env=environment | {"LC_ALL": "C"} | dict(variables or {}),
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BadInput(f"`{command[0]}` took longer than {timeout_s} s", where=str(capture), todo=todo) from error
    except OSError as error:
        raise BadInput(f"`{command[0]}` can't be run: {error.strerror}", where=str(capture), todo=todo) from error
    finally:
        if stdout:
            output.close()  # type: ignore[union-attr]
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[:_MESSAGE_CHARACTERS]
        raise BadInput(
            f"`{command[0]}` failed ({said or f'exit code {done.returncode}'})", where=str(capture), todo=todo
        )
    return done.stderr.decode("utf-8", "replace")
