"""Every shared capture and corpus file is read, or refused with a reason; the golden file lists what came of each.

Files are read under names that say nothing, as on a machine without nsys, ncu and perf (what these make of a file is
tested beside each importer). `LEAKPATH_FIX_GOLDEN=1` rewrites `every_file.txt`: read its difference.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from ingest.capture import read_capture
from ingest.errors import BadInput
from tests.ingest.support import FIX_GOLDEN, SHARED

GOLDEN = Path(__file__).with_name("every_file.txt")
HIDDEN = "x.bin"

pytestmark = pytest.mark.skipif(not SHARED.exists(), reason="needs the shared captures and corpus beside the checkout")


def shared_files() -> list[Path]:
    """Captures and corpus files by path; what other tools answer (golden/, truth.json) is no capture."""
    return sorted(
        path
        for root in (SHARED / "captures", SHARED / "corpus")
        for path in root.rglob("*")
        if path.is_file() and "golden" not in path.parts and path.name != "truth.json"
    )


def _told(path: Path, folder: Path) -> str:
    """What comes of one file, read alone under a name that says nothing, in one line."""
    hidden, parts = folder / HIDDEN, folder / "parts"
    hidden.symlink_to(path)
    try:
        [result], _ = read_capture([hidden], folder, parts)
    except BadInput as error:
        said = re.search(r"could be read \(\S+: (.*)\); see", str(error))
        return f"- | refused | {said[1] if said else error}"
    counted, diagnostics = {}, []
    for part in sorted(parts.glob("*/*.parquet")):
        if part.parent.name == "diagnostics":
            rows = pl.read_parquet(part).sort("severity", "name").iter_rows(named=True)
            diagnostics = [f"{row['severity']}:{row['name']}={row['occurrence_count']}" for row in rows]
        elif part.parent.name != "capture_files":
            counted[part.parent.name] = pq.read_metadata(part).num_rows
    tables = " ".join(f"{table}={rows}" for table, rows in sorted(counted.items()))
    told = [result.format or "-", result.read_state, tables, " ".join(diagnostics), result.message or ""]
    return " | ".join(told).rstrip(" |")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Path → what came of the file."""
    lines = {}
    with pytest.MonkeyPatch.context() as machine:
        machine.setattr("ingest.external_tools.tool_path", lambda name: None)
        machine.setattr("ingest.ncu_report.tool_path", lambda name: None)
        for path in shared_files():
            folder = tmp_path_factory.mktemp("hidden")
            lines[path.relative_to(SHARED).as_posix()] = _told(path, folder)
            shutil.rmtree(folder)
    return lines


def test_what_came_of_every_file(outcomes: dict[str, str]) -> None:
    text = "".join(f"{path}: {outcome}\n" for path, outcome in sorted(outcomes.items()))
    if os.environ.get(FIX_GOLDEN):
        GOLDEN.write_text(text, encoding="utf-8")
    assert GOLDEN.read_text(encoding="utf-8") == text


def test_a_file_without_rows_says_why(outcomes: dict[str, str]) -> None:
    def untold() -> Iterator[str]:
        for path, outcome in outcomes.items():
            _, state, *rest = outcome.split(" | ")
            if state == "refused" and not "".join(rest).strip():
                yield path

    assert not list(untold())
