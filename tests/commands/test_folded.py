"""`leakpath folded`: from a perf file to folded lines, and which capture is meant."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from ingest.errors import EXIT_BAD_INPUT
from pipeline.cli import cli
from pipeline.steps import ingest

TEXT = "x 7/8 [0] 1.000001: 5 cycles: \n\t 1 leaf ([kernel.kallsyms])\n\t 2 [unknown] (/lib/libc.so)\n\n"


def ask(out: Path, *options: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["folded", str(out), *options])
    return result.exit_code, result.stdout, result.stderr


def ingested(tmp_path: Path, *names: str) -> Path:
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "perf.txt").write_text(TEXT)
        ingest([tmp_path / name / "perf.txt"], tmp_path / name, tmp_path / "out" / name)
    return tmp_path / "out"


def test_one_capture(tmp_path: Path) -> None:
    out = ingested(tmp_path, "one")
    assert ask(out) == (0, "x;[libc.so];leaf 5\n", "")
    assert ask(out, "--tid", "--all", "--addrs") == (0, "x-7/8;[libc.so <2>];leaf_[k] 5\n", "")
    code, shown, error = ask(out, "--event", "faults")
    assert (code, shown) == (EXIT_BAD_INPUT, "")
    assert re.search("no samples of the event 'faults'; choose one of cycles", error)


def test_several_captures(tmp_path: Path) -> None:
    out = ingested(tmp_path, "one", "two")
    assert ask(out, "--capture", "two")[:2] == (0, "x;[libc.so];leaf 5\n")
    code, _, error = ask(out)
    assert code == EXIT_BAD_INPUT
    assert "several captures in here; choose one with --capture: one, two" in error
