"""What a person sees while a run works: plain lines, or one that moves on a terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from pipeline.jobs import Job, jobs_of
from pipeline.liveview import LiveView
from pipeline.progress import printable


class Terminal(io.TextIOWrapper):
    """Standard error that is a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


def say(job: Job, *events: dict[str, object], raw: str = "") -> None:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)
        file.write(raw)


START, DONE = {"event": "start"}, {"event": "done"}
FAILED = {"event": "error", "text": "a.pickle: refused", "exit_code": 3}
READING = {"event": "message", "text": "reading a"}


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    return jobs_of(tmp_path, ["c"])


def test_there_is_a_job_a_stage_and_old_logs_are_gone(tmp_path: Path) -> None:
    first = jobs_of(tmp_path, ["a", "b"])
    assert [job.label for job in first] == [
        *(f"{name}: {stage}" for name in "ab" for stage in ("ingest", "analyze", "report")),
        "index",
    ]
    say(first[0], FAILED)
    again = jobs_of(tmp_path, ["a", "b"])
    assert list(again[0].read()) == []


def test_a_job_is_followed_through_half_written_lines(jobs: list[Job]) -> None:
    job = jobs[0]
    say(job, START, raw='{"event": "mess')
    assert list(job.read()) == [("start", "")]
    assert job.state == "running"
    say(job, raw='age", "text": "reading a"}\n')
    assert list(job.read()) == [("message", "reading a")]
    say(job, DONE)
    assert list(job.read()) == [("done", "")]
    job.close()
    assert (job.state, job.exit_code) == ("done", 0)


def test_a_failed_job_says_why(jobs: list[Job]) -> None:
    say(jobs[0], START, FAILED)
    list(jobs[0].read())
    assert (jobs[0].state, jobs[0].message, jobs[0].exit_code) == ("failed", "a.pickle: refused", 3)


@pytest.mark.parametrize(("raw", "said"), [("", "killed"), ("Segmentation fault\n", "Segmentation fault")])
def test_a_job_that_ends_without_a_word_has_failed(jobs: list[Job], raw: str, said: str) -> None:
    say(jobs[0], START, READING, raw=raw)
    list(jobs[0].read())
    jobs[0].close()
    assert (jobs[0].state, jobs[0].exit_code, jobs[0].is_silent) == ("failed", 5, not raw)
    assert said in jobs[0].message


@pytest.mark.parametrize("line", ["[1]", "null", "{", '{"event": "nonsense"}', "\x1b[2J"])
def test_what_is_no_event_is_kept_as_words(jobs: list[Job], line: str) -> None:
    say(jobs[0], raw=line + "\n")
    assert list(jobs[0].read()) == []
    assert "\x1b" not in jobs[0].noise


def test_plain_lines_where_there_is_no_terminal(jobs: list[Job], capsys: pytest.CaptureFixture[str]) -> None:
    view = LiveView(jobs)
    say(jobs[0], START, READING, DONE)
    say(jobs[1], START, FAILED)
    view.update()
    view.close()
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["c: ingest: started", "c: ingest: reading a"]
    assert lines[2].startswith("c: ingest: done in ")
    assert lines[3:] == ["c: analyze: started", "c: analyze: a.pickle: refused"]


def test_quiet_says_nothing(jobs: list[Job], capsys: pytest.CaptureFixture[str]) -> None:
    view = LiveView(jobs, quiet=True)
    say(jobs[0], START, READING, DONE)
    view.update()
    view.close()
    assert capsys.readouterr().err == ""
    assert jobs[0].state == "done"


@pytest.mark.parametrize("no_color", [False, True])
def test_one_line_moves_on_a_terminal(jobs: list[Job], monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    view = LiveView(jobs)
    say(jobs[0], START, {"event": "message", "text": "reading " + "x" * 99})
    view.update()
    moving = terminal.text()
    assert moving == "c: ingest: reading xxxxxxxxxx…"[:28] + "…"
    assert len(moving) <= 29
    say(jobs[0], DONE)
    view.close()
    rest = terminal.text()[len(moving) :]
    assert rest.startswith("\r\x1b[K")
    assert ("\x1b[32m" in rest) is not no_color
    assert rest.endswith("\n")


def test_nothing_that_a_terminal_obeys_is_printable() -> None:
    assert printable("a\x1b[31m\r\n\u202e\udcff b") == "a\\u001b[31m\\u000d\\u000a\\u202e\\udcff b"
    assert printable("größe 日本 – ✓") == "größe 日本 – ✓"
