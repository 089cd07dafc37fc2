"""Snakemake as a child of `leakpath run`: ends with it, and is otherwise the `snakemake` command.

Snakemake imports every executor that is installed, whichever the profile names; those of clusters take a second.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

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
    from snakemake.cli import main as snakemake

    snakemake(sys.argv[1:])


if __name__ == "__main__":
    main()
