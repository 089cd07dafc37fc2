"""Runs `leakpath collect` on a small program in its own process, with stand-ins for the libraries of a GPU machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.collect.segments import FOOTER, HEADER, read_segments

ROOT = Path(__file__).resolve().parents[3]
STAND_INS = Path(__file__).resolve().parent / "stand_ins"
_MAIN = "from pipeline.cli import main; main()"


def collect(folder: Path, *arguments: str, app: str = "", stand_ins: bool = True, **environment: str) -> Any:
    """The finished process of `leakpath collect ARGUMENTS`, run in `folder`; `app` is what app.py there holds.

    `PYTHON` among the arguments becomes this interpreter. Its own PYTHONPATH gives the target the stand-ins.
    """
    (folder / "app.py").write_text(textwrap.dedent(app))
    paths = [str(ROOT), *([str(STAND_INS)] if stand_ins else []), environment.pop("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-c", _MAIN, "collect", *[sys.executable if a == "PYTHON" else a for a in arguments]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@dataclass
class Capture:
    """A `leakpath-cupti` file read back: rows by kind, as dicts; the footer is None where the file has none."""

    header: dict[str, Any]
    footer: dict[str, Any] | None
    rows: dict[str, list[dict[str, Any]]]


def read_capture(path: Path) -> Capture:
    header, footer = None, None
    rows: dict[str, list[dict[str, Any]]] = {}
    with path.open("rb") as file:
        for kind, table in read_segments(file):
            assert footer is None, "nothing follows the footer"
            if kind == HEADER:
                header = json.loads(table["json"][0].as_py())
            elif kind == FOOTER:
                footer = json.loads(table["json"][0].as_py())
            else:
                rows.setdefault(kind, []).extend(table.to_pylist())
    assert header is not None
    return Capture(header, footer, rows)
