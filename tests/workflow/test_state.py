"""What decides that something must be done again, and the locks that keep two runs apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingest.errors import OutputError
from pipeline.fingerprints import code_digests, file_states
from pipeline.inputs import find_captures, prepare_out
from pipeline.locks import capture_lock, locked
from pipeline.state import RUN_CONFIG, STAGE_TABLES, known_names, write_state
from schemas.config import Config, config_from
from schemas.tables import TABLES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "a").write_text("aaaa")
    (folder / "b {x}*").write_text("bbbb")
    return folder


def run_config(capture: Path, out: Path, config: Config | None = None) -> dict[str, object]:
    captures = find_captures([capture], known_names(out))
    resolved = prepare_out(out, captures)
    write_state(resolved, captures, config or Config())
    return json.loads((resolved / RUN_CONFIG).read_text())  # type: ignore[no-any-return]


def test_every_path_is_below_out_and_there(capture: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    files = run_config(capture, out)["captures"]["c"]["files"]  # type: ignore[index]
    assert files == [".leakpath/inputs/c/a", ".leakpath/inputs/c/b {x}*"]
    assert [(out / file).read_text() for file in files] == ["aaaa", "bbbb"]


def test_nothing_changed_writes_nothing(capture: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_config(capture, out)
    before = {path: path.stat().st_mtime_ns for path in (out / ".leakpath").rglob("*.json")}
    run_config(capture, out)
    assert {path: path.stat().st_mtime_ns for path in (out / ".leakpath").rglob("*.json")} == before


def test_a_new_time_alone_changes_nothing(capture: Path, tmp_path: Path) -> None:
    before = run_config(capture, tmp_path / "out")
    os.utime(capture / "a", (1, 1))
    assert run_config(capture, tmp_path / "out") == before


@pytest.mark.parametrize("change", ["content", "added", "removed", "renamed"])
def test_a_changed_file_changes_its_digest_only(capture: Path, tmp_path: Path, change: str) -> None:
    before = run_config(capture, tmp_path / "out")
    if change == "content":
        (capture / "a").write_text("AAAA")
    elif change == "added":
        (capture / "new").write_text("aaaa")
    elif change == "removed":
        (capture / "a").unlink()
    else:
        (capture / "a").rename(capture / "z")
    after = run_config(capture, tmp_path / "out")
    assert after["captures"]["c"]["digest"] != before["captures"]["c"]["digest"]  # type: ignore[index]
    assert {**after, "captures": 0} == {**before, "captures": 0}


def test_changed_settings_change_their_digest_only(capture: Path, tmp_path: Path) -> None:
    before = run_config(capture, tmp_path / "out")
    after = run_config(capture, tmp_path / "out", config_from({"leaks": {"min_age_epochs": 7}}))
    assert after["settings"] != before["settings"]
    assert {**after, "settings": 0} == {**before, "settings": 0}


def test_only_settings_of_ingest_redo_the_reading(capture: Path, tmp_path: Path) -> None:
    before = run_config(capture, tmp_path / "out")["ingest_settings"]
    leaks = run_config(capture, tmp_path / "out", config_from({"leaks": {"min_age_epochs": 7}}))
    mapped = run_config(capture, tmp_path / "out", config_from({"ingest": {"request_columns": {"request_id": "id"}}}))
    assert leaks["ingest_settings"] == before
    assert mapped["ingest_settings"] != before
    settings = json.loads((tmp_path / "out" / ".leakpath" / "settings.json").read_text())
    assert settings["ingest"] == {"request_columns": {"request_id": "id"}}


def test_content_is_read_only_when_size_or_time_differ(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = file_states([capture / "a"], {})

    def refuse(path: Path) -> str:
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr("pipeline.fingerprints._file_digest", refuse)
    assert file_states([capture / "a"], first) == first
    os.utime(capture / "a", (1, 1))
    with pytest.raises(AssertionError):
        file_states([capture / "a"], first)


def test_every_table_is_written_by_one_stage() -> None:
    assert sorted(STAGE_TABLES["ingest"] + STAGE_TABLES["analyze"]) == sorted(TABLES)


def digests_with(change: str) -> dict[str, str]:
    """Digests of a copy of the packages in which one file differs."""
    code = (
        "import shutil, sys, tempfile, pathlib\n"
        "root, change = sys.argv[1:]\n"
        "copy = pathlib.Path(tempfile.mkdtemp())\n"
        "for name in ('pipeline', 'schemas', 'ingest', 'reports'):\n"
        "    shutil.copytree(pathlib.Path(root, name), copy / name)\n"
        "if change: (copy / change).open('a').write('\\n')\n"
        "sys.path.insert(0, str(copy))\n"
        "from pipeline.fingerprints import code_digests\n"
        "import json; print(json.dumps(code_digests())); shutil.rmtree(copy)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(ROOT), change], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_a_change_of_leakpath_redoes_what_it_touches() -> None:
    plain = code_digests()
    assert digests_with("") == plain
    for name in ("ingest/sink.py", "schemas/fields.py", "pipeline/database.py", "pipeline/rules/captures.smk"):
        changed = digests_with(name)
        assert changed["data"] != plain["data"], name
        assert changed["report"] != plain["report"], name
    template = digests_with("reports/templates/index.html.j2")
    assert (template["data"], template["report"] == plain["report"]) == (plain["data"], False)
    assert digests_with("ingest/collect/session.py") == plain


def test_a_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "lock", tmp_path, wait_s=0),
        pytest.raises(OutputError) as caught,
        locked(tmp_path / "lock", tmp_path, wait_s=0.2),
    ):
        pass
    assert f"process {os.getpid()}" in str(caught.value)
    with locked(tmp_path / "lock", tmp_path, wait_s=0):
        pass


def test_a_killed_writer_leaves_no_lock_and_its_halves_are_cleared(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib\n"
        "from pipeline.locks import capture_lock\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "with capture_lock(folder):\n"
        "    (folder / 'tables').mkdir(); (folder / 'tables' / '.a.parquet.1.partial').write_text('half')\n"
        "    print('held', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.kill()
    with capture_lock(tmp_path):
        assert list((tmp_path / "tables").iterdir()) == []


CHILD = """
import time
from pipeline.lifeline import hold_lifeline
hold_lifeline()
print("up", flush=True)
time.sleep(60)
"""
RUN = """
import os, subprocess, sys, time
from pipeline.lifeline import VARIABLE, lifeline
environment = os.environ | {VARIABLE: lifeline()}
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=environment, start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_process_ends_with_the_run_that_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", RUN, CHILD], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        words = {run.stdout.readline(), run.stdout.readline()}
        pid = int((words - {"up\n"}).pop())
        time.sleep(0.6)
        os.kill(pid, 0)
        run.kill()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and Path(f"/proc/{pid}").exists():
        if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text(errors="replace"):
            break
        time.sleep(0.1)
    else:
        assert not Path(f"/proc/{pid}").exists()
