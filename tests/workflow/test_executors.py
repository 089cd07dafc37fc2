"""Snakemake sees of the installed executors only what the profile names."""

from __future__ import annotations

import pkgutil
from importlib.machinery import FileFinder
from pathlib import Path

import pytest

from pipeline.snakemake_process import _executor, hide_executors
from pipeline.workflow import profile_folder

INSTALLED = ["json", "snakemake_executor_plugin_kubernetes", "snakemake_executor_plugin_slurm_jobstep"]
INSTALLED += ["snakemake_executor_plugin_slurm", "snakemake_storage_plugin_fs"]


@pytest.mark.parametrize(
    ("profile", "left"),
    [
        ("local", {"json", "snakemake_storage_plugin_fs"}),
        ("slurm", set(INSTALLED) - {"snakemake_executor_plugin_kubernetes"}),
        ("kubernetes", {"json", "snakemake_executor_plugin_kubernetes", "snakemake_storage_plugin_fs"}),
    ],
)
def test_executors_of_other_profiles_are_not_imported(
    profile: str, left: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    finder = FileFinder(str(tmp_path))
    found = [pkgutil.ModuleInfo(finder, name, ispkg=True) for name in INSTALLED]
    monkeypatch.setattr(pkgutil, "iter_modules", lambda path=None, prefix="": iter(found))
    hide_executors(_executor(["run", "--workflow-profile", str(profile_folder(profile)), "--cores", "2"]))
    assert {module.name for module in pkgutil.iter_modules()} == left
