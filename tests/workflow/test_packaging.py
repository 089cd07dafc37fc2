"""The wheel holds what a run needs, and the one Snakefile runs on every kind of executor and storage."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.workflow.conftest import ROOT, Leakpath


def tracked(pattern: str) -> set[str]:
    done = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True)
    return set(done.stdout.split())


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    for package in ("pipeline", "schemas", "ingest", "reports"):
        files = {file for file in tracked(package) if not file.startswith("pipeline/rules/")}
        assert files - inside == set()
    assert {"pipeline/workflow/Snakefile", "pipeline/workflow/pipeline/rules/common.smk"} <= inside
    assert {"pipeline/profiles/slurm/config.yaml", "schemas/config.schema.json"} <= inside
    tops = {name.split("/")[0] for name in inside}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"pipeline", "schemas", "ingest", "reports"}


def test_the_installed_command_is_not_the_checkout(command: Path) -> None:
    code = "import pipeline, ingest, schemas, reports; print(pipeline.__file__, reports.__file__)"
    done = subprocess.run([command.with_name("python"), "-P", "-c", code], capture_output=True, text=True, check=True)
    assert str(ROOT) not in done.stdout.replace(str(ROOT / ".venv"), "")


def test_a_folder_called_pipeline_where_the_user_stands_is_not_ours(
    leakpath: Leakpath, tiny: Path, tmp_path: Path
) -> None:
    for name in ("pipeline", "schemas", "ingest", "reports"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")
    done = leakpath("run", tiny, "--out", "out", "-q", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def prepared(leakpath: Leakpath, tiny: Path, out: Path) -> None:
    done = leakpath("run", tiny, "--out", out, "--prepare")
    assert (done.returncode, done.stdout) == (0, "tiny\n")


def snakemake(command: Path, folder: Path, *options: object) -> subprocess.CompletedProcess[str]:
    site = next(command.parent.parent.glob("lib/python*/site-packages"))
    return subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "snakemake",
            "--snakefile",
            site / "pipeline/workflow/Snakefile",
            *map(str, options),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": f"{command.parent}:/usr/bin:/bin", "HOME": str(folder)},
    )


@pytest.mark.parametrize("profile", ["slurm", "kubernetes"])
def test_profiles_plan_the_same_jobs(
    leakpath: Leakpath, command: Path, tiny: Path, tmp_path: Path, profile: str
) -> None:
    plugins = {"slurm": ["slurm"], "kubernetes": ["kubernetes"]}[profile]
    for plugin in plugins:
        if find_spec(f"snakemake_executor_plugin_{plugin}") is None:
            pytest.skip(f"the {profile} extra is not installed")
    out = tmp_path / "out"
    prepared(leakpath, tiny, out)
    storage: list[object] = []
    if profile == "kubernetes":  # a folder in the bucket's place: a dry run looks for its input
        storage = ["--default-storage-provider", "fs", "--default-storage-prefix", f"{out}/"]
    folder = ROOT / "pipeline" / "profiles" / profile
    done = snakemake(command, out, "--configfile", ".leakpath/run.json", "--workflow-profile", folder, "-n", *storage)
    assert done.returncode == 0, done.stdout + done.stderr
    planned = [line.split() for line in done.stdout.splitlines() + done.stderr.splitlines()]
    for rule in ("ingest", "analyze", "report", "index"):
        assert [rule, "1"] in planned


@pytest.mark.skipif(shutil.which("rsync") is None, reason="the fs storage plugin copies with rsync")
def test_every_file_is_declared(leakpath: Leakpath, command: Path, tiny: Path, tmp_path: Path) -> None:
    """Jobs that see only the files they declare, in a folder of their own, give the same results."""
    if find_spec("snakemake_storage_plugin_fs") is None:
        pytest.skip("snakemake-storage-plugin-fs is not installed")
    out, bucket, work = tmp_path / "out", tmp_path / "bucket", tmp_path / "work"
    prepared(leakpath, tiny, out)
    shutil.copytree(out / ".leakpath", bucket / ".leakpath")
    work.mkdir()
    storage = [
        "--default-storage-provider",
        "fs",
        "--default-storage-prefix",
        f"{bucket}/",
        "--shared-fs-usage",
        "none",
    ]
    done = snakemake(command, work, "--configfile", out / ".leakpath/run.json", "--cores", 1, *storage)
    assert done.returncode == 0, done.stdout + done.stderr
    assert leakpath("run", tiny, "--out", out, "-q").returncode == 0
    for path in ("tiny/findings.json", "tiny/report.html", "index.html", "tiny/tables/leak_evidence.parquet"):
        assert (bucket / path).read_bytes() == (out / path).read_bytes(), path
