"""Input that can't be used and output that can't be written: one clear line and the documented exit code."""

from __future__ import annotations

import gzip
import os
import pickle
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.workflow.conftest import Leakpath
from tests.workflow.tiny import write_tiny


def _bomb(folder: Path) -> None:
    (folder / "snapshot.pickle").write_bytes(b"cposix\nsystem\n(S'touch ran'\ntR.")


def _unknown(folder: Path) -> None:
    (folder / "notes.txt").write_text("nothing that anybody recorded\n")


def _truncated_gz(folder: Path) -> None:
    write_tiny(folder)
    whole = gzip.compress((folder / "snapshot.pickle").read_bytes())
    (folder / "snapshot.pickle.gz").write_bytes(whole[:30])
    (folder / "snapshot.pickle").unlink()
    (folder / "requests.jsonl").unlink()


def _other_pickle(folder: Path) -> None:
    (folder / "weights.pickle").write_bytes(pickle.dumps({"weights": [1, 2, 3]}))


def _bad_notes(folder: Path) -> None:
    write_tiny(folder)
    (folder / "capture.yaml").write_text("rank: first\n")


BAD: dict[str, Callable[[Path], None]] = {
    "unsafe pickle": _bomb,
    "unknown format": _unknown,
    "truncated gz": _truncated_gz,
    "a pickle that is no snapshot": _other_pickle,
    "wrong capture.yaml": _bad_notes,
    "empty file": lambda folder: (folder / "snapshot.pickle").touch(),
}


def one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith("leakpath: error: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize("name", BAD)
def test_a_capture_that_cannot_be_read(leakpath: Leakpath, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "capture"
    folder.mkdir()
    BAD[name](folder)
    assert "capture" in one_line(leakpath("ingest", folder, "--out", tmp_path / "out"), 3)
    assert not list((tmp_path / "out" / "capture").glob("tables/*"))


@pytest.mark.parametrize("verb", ["run", "ingest"])
def test_paths_that_are_no_capture(leakpath: Leakpath, tmp_path: Path, verb: str) -> None:
    (tmp_path / "empty").mkdir()
    for path, said in (
        (tmp_path / "missing", "No such file"),
        (tmp_path / "empty", "no files"),
        ("/dev/null", "neither"),
    ):
        line = one_line(leakpath(verb, path, "--out", tmp_path / "out"), 3)
        assert str(path) in line
        assert said in line
    assert not (tmp_path / "out").exists()


def test_settings_that_cannot_be_used(leakpath: Leakpath, tiny: Path, tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    for text, said in (
        ("leaks: {min_age_epoch: 3}", "min_age_epoch"),
        ("leaks: {max_p_value: 2}", "leaks.max_p_value"),
        ("leaks: [", "line 1"),
        ("a: &a [x]\nb: *a", "aliases"),
        ("leaks: 1\nleaks: 2", "twice"),
    ):
        config.write_text(text)
        line = one_line(leakpath("run", tiny, "--out", tmp_path / "out", "--config", config), 3)
        assert str(config) in line
        assert said in line
    assert str(tmp_path / "no.yaml") in one_line(
        leakpath("run", tiny, "--out", tmp_path / "out", "--config", tmp_path / "no.yaml"), 3
    )


def test_an_unknown_profile(leakpath: Leakpath, tiny: Path, tmp_path: Path) -> None:
    line = one_line(leakpath("run", tiny, "--out", tmp_path / "out", "--profile", "cloud"), 3)
    assert "kubernetes, local, slurm" in line


def test_outs_that_cannot_be_written(leakpath: Leakpath, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "below", tiny / "out", tiny.parent, "/proc/leakpath"):
        assert str(out) in one_line(leakpath("run", tiny, "--out", out), 4)
    assert sorted(path.name for path in tiny.iterdir()) == ["requests.jsonl", "snapshot.pickle"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_out_without_permission(leakpath: Leakpath, tiny: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert "Permission denied" in one_line(leakpath("run", tiny, "--out", locked / "out"), 4)


@pytest.mark.parametrize("limit_kib", [1, 60])
def test_a_file_that_may_not_grow(leakpath: Leakpath, tiny: Path, tmp_path: Path, limit_kib: int) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_kib * 1024, limit_kib * 1024))

    out = tmp_path / "out"
    line = one_line(leakpath("run", tiny, "--out", out, preexec_fn=limit), 4)
    assert "space" in line
    done = leakpath("run", tiny, "--out", out)
    assert done.returncode == 0, done.stderr
    assert not list(out.rglob("*.partial"))


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of its own with little room."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={request.param}k", "none", folder], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("may not mount a file system")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("small_disk", [16, 300], indirect=True)
def test_a_full_disk(leakpath: Leakpath, tiny: Path, small_disk: Path) -> None:
    line = one_line(leakpath("run", tiny, "--out", small_disk / "out"), 4)
    assert "No space left" in line or "no space left" in line
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    done = leakpath("run", tiny, "--out", small_disk / "out")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("small_disk", [64], indirect=True)
def test_a_disk_that_only_reads(leakpath: Leakpath, tiny: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    line = one_line(leakpath("run", tiny, "--out", small_disk / "out"), 4)
    assert "Read-only file system" in line
    assert str(small_disk / "out") in line


def test_what_is_damaged_is_told_and_the_rest_is_used(leakpath: Leakpath, tiny: Path, tmp_path: Path) -> None:
    (tiny / "unknown.bin").write_bytes(os.urandom(64))
    with (tiny / "requests.jsonl").open("a") as file:
        file.write('{"request_id": 99, "arrival_n')
    done = leakpath("run", tiny, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "missing: unknown.bin: not recognised" in done.stdout
    assert "4 allocations" in done.stdout
    page = (tmp_path / "out" / "index.html").read_text()
    assert "unknown.bin" in page
