"""Snakemake as a child of `leakpath run`: ends with it, and is otherwise the `snakemake` command.

Snakemake imports every executor that is installed, whichever the profile names; those of clusters take a second. It
imports pandas to tell its tables from other parameters of rules, and at its end waits out a timer that has nothing
left to do.
"""

from __future__ import annotations

import logging
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import yaml

from pipeline.lifeline import hold_lifeline

_EXECUTORS = "snakemake_executor_plugin_"


def _executor(arguments: Sequence[str]) -> str:
    """The executor that the profile on the command line names; empty for this machine."""
    profile = Path(arguments[arguments.index("--workflow-profile") + 1])
    settings = yaml.safe_load((profile / "config.yaml").read_text(encoding="utf-8"))
    return str((settings or {}).get("executor") or "")


def hide_executors(executor: str) -> None:
    """Let a search for packages find no executors but `executor` and what belongs to it (slurm: slurm-jobstep)."""
    search = pkgutil.iter_modules
    wanted = _EXECUTORS + executor.replace("-", "_")

    def visible(path: Iterable[Any] | None = None, prefix: str = "") -> Iterator[pkgutil.ModuleInfo]:
        for module in search(path, prefix):
            if not module.name.startswith(_EXECUTORS) or (executor and module.name.startswith(wanted)):
                yield module

    pkgutil.iter_modules = visible


def main() -> None:
    """Run Snakemake with this process's arguments."""
    hold_lifeline()
    hide_executors(_executor(sys.argv))
    sys.modules.setdefault("pandas", cast("ModuleType", None))  # as if it were not installed
    from snakemake.cli import main as snakemake

    try:
        snakemake(sys.argv[1:])
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code or 0)
        raise


if __name__ == "__main__":
    main()
