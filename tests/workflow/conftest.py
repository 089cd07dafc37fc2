"""One leakpath for the workflow tests: the built wheel in an environment of its own, away from the checkout."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workflow.tiny import write_tiny

ROOT = Path(__file__).resolve().parents[2]
Leakpath = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], check=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed `leakpath`. Its environment sees this one's packages, but not the checkout."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    options = ["--python", str(python), "--no-deps", "--no-index", "--quiet", "--no-warn-script-location"]
    subprocess.run([sys.executable, "-m", "pip", *options[:2], "install", *options[2:], str(wheel)], check=True)
    packages = next((folder / "lib").glob("python*/site-packages"))
    # addsitedir would follow the .pth of an editable install back to the checkout; a plain path does not.
    (packages / "borrowed.pth").write_text("".join(f"{path}\n" for path in site.getsitepackages()))
    return folder / "bin" / "leakpath"


@pytest.fixture(scope="session")
def leakpath(command: Path, tmp_path_factory: pytest.TempPathFactory) -> Leakpath:
    """Runs the installed command from a folder that is nobody's."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def run(
        *arguments: object, cwd: Path = elsewhere, env: dict[str, str] | None = None, **options: object
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # type: ignore[call-overload, no-any-return]
            [str(command), *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=cwd,
            env={"PATH": os.defpath, "HOME": str(elsewhere), **(env or {})},
            **options,
        )

    return run


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A fresh capture `tiny` that leaks four blocks over twelve requests."""
    folder = tmp_path / "captures" / "tiny"
    assert write_tiny(folder) == 4
    return folder


def executed_jobs(out: Path) -> list[str]:
    """Names of the jobs that Snakemake started in the last run, in order."""
    log = (out / ".leakpath" / "snakemake.log").read_text(encoding="utf-8")
    names = [line.split()[1].rstrip(":") for line in log.splitlines() if line.startswith(("rule ", "localrule "))]
    return [name for name in names if name != "all"]
