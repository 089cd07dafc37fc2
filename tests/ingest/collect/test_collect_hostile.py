"""`leakpath collect` when things go wrong: one line, the documented exit code, and what was recorded survives."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from .harness import collect, read_capture

CUPTI = ("cupti", "-o", "c.arrow", "--flush-period", "0.05", "--", "PYTHON", "app.py")
EMIT = "import os, sys, time, signal, cupti.cupti as c\nc.emit('RUNTIME', cbid=20)\n"


def test_the_programs_exit_code_is_passed_on(tmp_path: Path) -> None:
    result = collect(tmp_path, *CUPTI, app=f"{EMIT}sys.exit(7)")
    assert result.returncode == 7
    assert len(read_capture(tmp_path / "c.arrow").rows["RUNTIME"]) == 1


def test_a_program_that_raises_keeps_its_records_and_its_traceback(tmp_path: Path) -> None:
    result = collect(tmp_path, *CUPTI, app=f"{EMIT}raise RuntimeError('its own fault')")
    assert result.returncode == 1
    assert "its own fault" in result.stderr
    footer = read_capture(tmp_path / "c.arrow").footer
    assert footer is not None
    assert footer["records"] == {"RUNTIME": 1}


def test_sigterm_ends_the_recording_in_order(tmp_path: Path) -> None:
    result = collect(tmp_path, *CUPTI, app=f"{EMIT}os.kill(os.getpid(), signal.SIGTERM); time.sleep(30)")
    assert result.returncode == 128 + signal.SIGTERM
    capture = read_capture(tmp_path / "c.arrow")
    assert capture.footer is not None
    assert capture.footer["end_reason"] == "signal 15"
    assert len(capture.rows["RUNTIME"]) == 1


def test_sigkill_loses_only_what_was_not_flushed(tmp_path: Path) -> None:
    app = f"""{EMIT}
time.sleep(0.6)
c.emit('RUNTIME', cbid=22)
os.kill(os.getpid(), signal.SIGKILL)
"""
    result = collect(tmp_path, *CUPTI, app=app)
    assert result.returncode == 128 + signal.SIGKILL
    capture = read_capture(tmp_path / "c.arrow")
    assert capture.footer is None
    assert [row["cbid"] for row in capture.rows["RUNTIME"]] == [20]
    assert "was killed" in result.stderr


def _one_line(stderr: str) -> str:
    [line] = stderr.strip().splitlines()
    return line


@pytest.mark.parametrize("command", ["cupti", "torch", "nvml"])
def test_no_such_program(tmp_path: Path, command: str) -> None:
    result = collect(tmp_path, command, "-o", "out", "--", "no-such-program")
    assert result.returncode == 3
    assert "no-such-program: no such program" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["cupti", "torch", "nvml"])
def test_output_that_exists_or_has_no_folder(tmp_path: Path, command: str) -> None:
    (tmp_path / "taken").write_text("precious")
    for out, complaint in (("taken", "exists already"), ("missing/out", "no such folder")):
        result = collect(tmp_path, command, "-o", out, "--", "PYTHON", "app.py", app="print('ran')")
        assert (result.returncode, result.stdout) == (4, "")
        assert complaint in _one_line(result.stderr)
    assert (tmp_path / "taken").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_output_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    result = collect(tmp_path, "cupti", "-o", "locked/c.arrow", "--", "PYTHON", "app.py")
    assert result.returncode == 4
    assert "no permission" in _one_line(result.stderr)


def test_no_driver_and_no_library_stop_before_the_program_runs(tmp_path: Path) -> None:
    no_driver = collect(tmp_path, *CUPTI, app="print('ran')", STAND_IN_NO_DRIVER="1")
    blocker = tmp_path / "cupti"  # a package of the same name without the module
    blocker.mkdir()
    (blocker / "__init__.py").write_text("")
    no_library = collect(tmp_path, *CUPTI, app="print('ran')", stand_ins=False, PYTHONPATH=str(tmp_path))
    for result, complaint in ((no_driver, "CUDA driver is not found"), (no_library, "pip install cupti-python")):
        assert (result.returncode, result.stdout) == (3, "")
        assert complaint in _one_line(result.stderr)
    assert not (tmp_path / "c.arrow").exists()


def test_a_target_that_never_loads_the_recorder_is_an_error(tmp_path: Path) -> None:
    result = collect(tmp_path, "cupti", "-o", "c.arrow", "--", "PYTHON", "-I", "app.py", app="print('ran')")
    assert (result.returncode, result.stdout) == (3, "ran\n")
    assert "nothing was recorded" in _one_line(result.stderr)


def test_a_full_disk_ends_the_recording_not_the_program(tmp_path: Path) -> None:
    app = f"""{EMIT}
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize('c.arrow') + 100,) * 2)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
time.sleep(0.3)
print('still here')
"""
    result = collect(tmp_path, *CUPTI, app=app)
    assert (result.returncode, result.stdout) == (0, "still here\n")
    capture = read_capture(tmp_path / "c.arrow")
    assert (capture.rows, capture.footer) == ({}, None)
    assert "Traceback" not in result.stderr


def test_no_command_and_the_same_recorder_twice_are_usage_errors(tmp_path: Path) -> None:
    assert collect(tmp_path, "cupti").returncode == 2
    twice = collect(tmp_path, "torch", "-o", "a", "--", "leakpath", "collect", "torch", "-o", "b", "--", "PYTHON", "x")
    assert twice.returncode == 2
    assert "twice" in twice.stderr
