"""The command line itself: help, versions, exit codes, and what a failure says."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ingest.errors import BadInput, OutputError
from pipeline.cli import LeakpathGroup, cli
from pipeline.failures import describe

LEAKPATH = str(Path(sys.executable).with_name("leakpath"))


def leakpath(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([LEAKPATH, *arguments], capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['leakpath', '--help']\n"
        "from pipeline.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = ('numpy', 'pyarrow', 'duckdb', 'polars', 'snakemake', 'torch', 'jinja2')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_version_is_the_distributions() -> None:
    assert leakpath("--version").stdout == "leakpath 0.1.0\n"


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_every_command_has_help(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert f"leakpath {name}" in result.output


@pytest.mark.parametrize(
    "arguments", [["nope"], ["run"], ["run", "x"], ["run", "x", "--out", "y", "--cores", "0"], ["query", "x"]]
)
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    assert leakpath(*arguments).returncode == 2


def _failing(error: BaseException) -> LeakpathGroup:
    group = LeakpathGroup("leakpath")

    @click.command()
    def fail() -> None:
        raise error

    group.get_command = lambda ctx, name: fail  # type: ignore[method-assign]
    return group


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            BadInput("not a snapshot", where="a.pickle", todo="record it again"),
            3,
            "a.pickle: not a snapshot; record it again",
        ),
        (OutputError("no permission", where="out"), 4, "out: no permission"),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x.parquet"),
            4,
            "x.parquet: No space left on device; free some space",
        ),
        (OSError(errno.EFBIG, os.strerror(errno.EFBIG)), 4, "File too large"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS), "out"), 4, "out: Read-only file system; choose a folder"),
        (
            RuntimeError("IO Error: Could not write: No space left on device"),
            4,
            "No space left on device; free some space",
        ),
        (FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "gone"), 3, "gone: No such file or directory"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 5, "out of memory"),
        (ValueError("first line\nsecond"), 5, "unexpected ValueError: first line; please report it with "),
    ],
)
def test_a_failure_is_one_line_and_a_code(error: BaseException, code: int, said: str) -> None:
    result = CliRunner().invoke(_failing(error), ["fail"])
    assert result.exit_code == code
    lines = result.stderr.strip().splitlines()  # click ends the line of a ^C first
    assert len(lines) == 1
    assert lines[0].startswith("leakpath: error: ")
    assert said in lines[0]
    assert "Traceback" not in result.output


def test_the_traceback_is_kept_in_a_file() -> None:
    text, _ = describe(ValueError("boom"))
    file = Path(text.rpartition("report it with ")[2])
    assert "ValueError: boom" in file.read_text()
    file.unlink()


def test_a_reader_that_goes_away_is_no_error() -> None:
    done = subprocess.run(
        f"{LEAKPATH} tables --json | head -c 10; echo ${{PIPESTATUS[0]}}",
        shell=True,
        capture_output=True,
        text=True,
        executable="/bin/bash",
    )
    assert done.stderr == ""
    assert done.stdout.endswith("0\n")


def test_events_are_json_lines(tmp_path: Path) -> None:
    done = leakpath("--events", "ingest", str(tmp_path / "missing"), "--out", str(tmp_path / "out"))
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [event["event"] for event in events] == ["start", "error"]
    assert events[1]["exit_code"] == done.returncode == 3
    assert "missing" in events[1]["text"]


def test_sniff_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "what").write_bytes(b"\x00\x01nothing known")
    (tmp_path / "log.txt").write_text('{"request_id": 0, "arrival_ns": 1, "start_ns": 2, "end_ns": 3, "status": 200}\n')
    known = leakpath("sniff", str(tmp_path / "log.txt"), "--json")
    assert (known.returncode, json.loads(known.stdout)[0]["format"]) == (0, "request_log")
    both = leakpath("sniff", str(tmp_path))
    assert both.returncode == 3
    assert f"{tmp_path / 'what'}: not recognised" in both.stdout


def test_tables_and_formats_as_json_agree_with_the_text() -> None:
    tables = json.loads(leakpath("tables", "--json").stdout)
    assert [line.split()[0] for line in leakpath("tables").stdout.splitlines()] == [table["name"] for table in tables]
    formats = {fact["name"] for fact in json.loads(leakpath("formats", "--json").stdout)}
    assert {"torch_snapshot", "cupti", "nvml_csv"} <= formats
    unknown = leakpath("tables", "nope")
    assert (unknown.returncode, unknown.stderr.count("\n")) == (3, 1)
