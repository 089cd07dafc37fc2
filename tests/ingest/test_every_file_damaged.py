"""Cut and flipped variants of real files of every format: rows and counts or one clear error, in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ingest.support import SHARED

DATA = Path(__file__).resolve().parents[1] / "data"
MAX_PEAK_MIB = 1500
FILES_A_PROCESS = 24


def _files(root: Path) -> list[Path]:
    return sorted(
        path
        for path in root.rglob("*")
        if path.is_file() and path.suffix not in (".md", ".py") and not {"golden", "captures"} & set(path.parts[-3:-1])
    )


def _sweep(files: list[Path], variants: int, seed: int) -> None:
    for start in range(0, len(files), FILES_A_PROCESS):
        chunk = [str(path) for path in files[start : start + FILES_A_PROCESS]]
        command = [sys.executable, "-m", "tests.ingest.damage_sweep", str(seed), str(variants), *chunk]
        done = subprocess.run(command, capture_output=True, text=True, cwd=DATA.parents[1], timeout=3000, check=False)
        assert done.returncode == 0, f"the reading process died: {done.stderr[-2000:]}"
        told = json.loads(done.stdout.splitlines()[-1])
        assert not told["failures"], "\n".join(told["failures"][:3])
        assert "untold" not in told["outcome"]
        assert sum(told["outcome"].values()) > 0
        assert told["peak_mib"] < MAX_PEAK_MIB


def test_damaged_bundled_files() -> None:
    _sweep(_files(DATA), variants=4, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared captures and corpus beside the checkout")
def test_damaged_shared_files(seed: int) -> None:
    _sweep(_files(SHARED / "corpus") + _files(SHARED / "captures"), variants=20, seed=seed)
