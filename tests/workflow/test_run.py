"""`leakpath run` as a user runs it: the installed wheel, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from hashlib import blake2b
from pathlib import Path

import duckdb
import pytest

from tests.workflow.conftest import Leakpath, executed_jobs
from tests.workflow.tiny import BLOCK_BYTES, write_tiny

STAGES = ["ingest", "analyze", "report", "index"]


def contents(out: Path) -> dict[str, str]:
    """Digest of every result below OUT, without the state of the workflow."""
    return {
        path.relative_to(out).as_posix(): blake2b(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(out).parts)
        and path.name != "leakpath.duckdb"
    }


@pytest.fixture(scope="module")
def whole(leakpath: Leakpath, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What an undisturbed run of the tiny capture gives."""
    folder = tmp_path_factory.mktemp("whole")
    write_tiny(folder / "tiny")
    done = leakpath("run", folder / "tiny", "--out", folder / "out", "-q", env={"HOME": "/nonexistent"})
    assert done.returncode == 0, done.stderr
    return contents(folder / "out")


def test_from_capture_to_report(leakpath: Leakpath, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = leakpath("run", tiny, "--out", out)
    assert done.returncode == 0, done.stderr
    assert executed_jobs(out) == STAGES
    said = done.stdout
    assert str(out / "tiny" / "report.html") in said
    assert "4 allocations" in said
    assert "status=499" in said
    assert [line for line in done.stderr.splitlines() if line.startswith("tiny: ingest: done in ")]
    assert "\x1b" not in done.stderr + done.stdout
    assert (out / "tiny" / "report.html").read_text().startswith("<!")
    assert list((out / "tiny" / "flamegraphs").glob("*.speedscope.json"))
    assert 'href="tiny/report.html"' in (out / "index.html").read_text()

    again = leakpath("run", tiny, "--out", out, "--json")
    assert executed_jobs(out) == []
    summary = json.loads(again.stdout)
    assert (summary["exit_code"], summary["jobs_count"]) == (0, 0)
    (capture,) = summary["captures"]
    assert (capture["capture"], capture["verdict"], capture["error"]) == ("tiny", "leak", None)
    assert (capture["suspects"][0]["retained_count"], capture["retained_bytes"]) == (4, 4 * BLOCK_BYTES)


def test_only_what_changed_is_done_again(leakpath: Leakpath, tiny: Path, command: Path, tmp_path: Path) -> None:
    out, config = tmp_path / "out", tmp_path / "settings.yaml"
    other = tmp_path / "captures" / "other"
    write_tiny(other, leak_every=0)
    assert leakpath("run", tiny, other, "--out", out, "-q").returncode == 0
    assert sorted(executed_jobs(out)) == sorted(STAGES[:3] * 2 + ["index"])

    os.utime(tiny / "requests.jsonl")
    assert leakpath("run", tiny, other, "--out", out, "-q").returncode == 0
    assert executed_jobs(out) == [], "a new time alone"

    config.write_text("leaks: {min_age_epochs: 4}\n")
    assert leakpath("run", tiny, other, "--out", out, "-q", "--config", config).returncode == 0
    assert sorted(executed_jobs(out)) == sorted(STAGES[1:3] * 2 + ["index"]), "settings"

    write_tiny(tiny, requests=15)
    assert leakpath("run", tiny, other, "--out", out, "-q", "--config", config).returncode == 0
    assert executed_jobs(out) == STAGES, "one capture's file"
    assert json.loads(
        leakpath(
            "query", out, "SELECT count(*) AS n FROM leak_evidence WHERE capture = 'tiny'", "--format", "json"
        ).stdout
    ) == [{"n": 5}]

    template = next(command.parent.parent.glob("lib/python*/site-packages/reports/templates/index.html.j2"))
    text = template.read_text()
    try:
        template.write_text(text + "<!-- changed -->\n")
        assert leakpath("run", tiny, other, "--out", out, "-q", "--config", config).returncode == 0
        assert sorted(executed_jobs(out)) == ["index", "report", "report"], "a template of leakpath"
    finally:
        template.write_text(text)


def start(command: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(command), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(said: str, process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if said in line:
            return
    raise AssertionError(f"never said {said!r}")


def processes_below(out: Path) -> list[str]:
    """Command lines of processes that work in OUT."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if (entry / "cwd").resolve() == out or str(out) in (entry / "cmdline").read_text():
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("stage", ["ingest: started", "analyze: started", "report: started"])
def test_killed_and_started_again_gives_the_same(
    leakpath: Leakpath, command: Path, tiny: Path, tmp_path: Path, whole: dict[str, str], stage: str
) -> None:
    out = tmp_path / "out"
    with start(command, "run", tiny, "--out", out) as process:
        wait_for(stage, process)
        process.kill()
    assert contents(out) != whole
    done = leakpath("run", tiny, "--out", out, "-q")
    assert done.returncode == 0, done.stderr
    assert contents(out) == whole
    assert processes_below(out) == []
    assert not list(out.rglob("*.partial"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_jobs_too(
    command: Path, leakpath: Leakpath, tiny: Path, tmp_path: Path, number: int
) -> None:
    out = tmp_path / "out"
    with start(command, "run", tiny, "--out", out) as process:
        wait_for("analyze: started", process)
        process.send_signal(number)
        _, rest = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in rest
    assert rest.strip().splitlines()[-1] == "leakpath: error: interrupted; run the same command again to go on"
    deadline = time.monotonic() + 5
    while processes_below(out) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_below(out) == []
    assert leakpath("run", tiny, "--out", out, "-q").returncode == 0
    assert executed_jobs(out) == STAGES[1:]


def test_two_runs_never_share_an_out(command: Path, leakpath: Leakpath, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with start(command, "run", tiny, "--out", out) as process:
        wait_for("ingest: started", process)
        second = leakpath("run", tiny, "--out", out)
        assert second.returncode == 4
        assert f"process {process.pid}" in second.stderr
        assert process.wait(timeout=120) == 0


def test_one_bad_capture_does_not_stop_the_others(leakpath: Leakpath, tiny: Path, tmp_path: Path) -> None:
    bad = tmp_path / "captures" / "bad"
    bad.mkdir()
    # A pickle that would run a command if it were loaded as one.
    (bad / "snapshot.pickle").write_bytes(b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR.")
    out = tmp_path / "out"
    done = leakpath("run", bad, tiny, "--out", out)
    assert done.returncode == 3
    assert not (tmp_path / "ran").exists()
    assert "bad: failed in ingest" in done.stdout
    assert "tiny: " in done.stdout
    errors = [line for line in done.stderr.splitlines() if line.startswith("leakpath: error: ")]
    assert len(errors) == 1
    assert errors[0].startswith("leakpath: error: bad: ingest: ")
    page = (out / "index.html").read_text()
    assert "tiny/report.html" in page
    summary = json.loads(leakpath("run", bad, tiny, "--out", out, "--json").stdout)
    assert executed_jobs(out) == ["ingest"]
    assert [capture["capture"] for capture in summary["captures"]] == ["bad", "tiny"]
    assert summary["captures"][0]["error"]["exit_code"] == summary["exit_code"] == 3


def test_a_moved_out_still_answers(leakpath: Leakpath, tiny: Path, tmp_path: Path) -> None:
    out, moved = tmp_path / "out", tmp_path / "mo'ved [x]"
    assert leakpath("run", tiny, "--out", out, "-q").returncode == 0
    shutil.move(out, moved)
    with duckdb.connect(str(moved / "leakpath.duckdb"), read_only=True) as connection:
        assert connection.sql("SELECT DISTINCT capture FROM leak_evidence").fetchall() == [("tiny",)]
        views = {row[0] for row in connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
        for view in views:
            connection.sql(f'SELECT * FROM "{view}"').fetchall()
    assert leakpath("query", moved, "SELECT count(*) FROM allocations").returncode == 0
    assert leakpath("run", tiny, "--out", moved, "-q").returncode == 0
    assert executed_jobs(moved) == []


def test_captures_of_one_name_and_odd_file_names(leakpath: Leakpath, tmp_path: Path) -> None:
    folders = [tmp_path / "mon" / "my run", tmp_path / "tue" / "my run"]
    for folder in folders:
        write_tiny(folder)
        (folder / "snapshot.pickle").rename(folder / "{x} 'a' $(b) *?.pickle")
        (folder / "\x1b[31mred\n.txt").write_text("a name that would colour the terminal")
        Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_text("a name of no encoding")
    out = tmp_path / "out dir"
    done = leakpath("run", *folders, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    captures = json.loads(done.stdout)["captures"]
    assert [capture["capture"] for capture in captures] == ["my_run", "tue_my_run"]
    assert [capture["suspects_count"] for capture in captures] == [1, 1]
    assert len(captures[0]["missing"]) == 2
    again = leakpath("run", *folders, "--out", out)
    assert executed_jobs(out) == []
    assert "\x1b" not in again.stdout + done.stdout + done.stderr
