"""What `leakpath run` takes for a capture, what it calls it, and where it refuses to write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import BadInput, OutputError
from pipeline.inputs import (
    STATE,
    Capture,
    capture_files,
    find_captures,
    name_captures,
    one_capture,
    prepare_out,
    safe_name,
)


def make(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_are_found_below_and_sorted_and_hidden_ones_are_not(tmp_path: Path) -> None:
    names = ["b", "a", "rank1/z", "rank0/z", ".hidden", ".git/config", "rank0/.x"]
    for name in names:
        make(tmp_path / name)
    found = [path.relative_to(tmp_path).as_posix() for path in capture_files(tmp_path)]
    assert found == ["a", "b", "rank0/z", "rank1/z"]


def test_a_pipe_is_not_opened_and_a_loop_of_links_not_followed(tmp_path: Path) -> None:
    make(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "linked").symlink_to(tmp_path / "a")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    assert [path.name for path in capture_files(tmp_path)] == ["a", "linked"]


@pytest.mark.parametrize("what", ["missing", "empty", "only_notes", "device"])
def test_what_is_no_capture(tmp_path: Path, what: str) -> None:
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    make(tmp_path / "only_notes" / "capture.yaml", "rank: 1")
    path = Path("/dev/null") if what == "device" else tmp_path / what
    with pytest.raises(BadInput) as caught:
        capture_files(path)
    assert str(path) in str(caught.value)


def test_a_file_is_a_capture_of_its_own(tmp_path: Path) -> None:
    file = make(tmp_path / "snapshot.pickle")
    (capture,) = find_captures([file], {})
    assert capture == Capture("snapshot.pickle", file, (file,))


def test_notes_change_the_capture_but_are_no_recording(tmp_path: Path) -> None:
    make(tmp_path / "c" / "capture.yaml", "rank: 1")
    file = make(tmp_path / "c" / "a")
    (capture,) = find_captures([tmp_path / "c"], {})
    assert capture.recordings == (file,)
    assert len(capture.files) == 2


def test_same_names_are_told_apart_and_stay(tmp_path: Path) -> None:
    roots = [tmp_path / night / "run" for night in ("mon", "tue")]
    for root in roots:
        make(root / "a")
    first = name_captures(roots, {})
    assert list(first.values()) == ["run", "tue_run"]
    known = {name: root for root, name in first.items()}
    assert name_captures(roots[::-1], known) == first
    assert name_captures(roots[1:], known) == {roots[1]: "tue_run"}


def test_names_that_differ_in_case_only_are_told_apart(tmp_path: Path) -> None:
    roots = [tmp_path / "a" / "Run", tmp_path / "b" / "run"]
    for root in roots:
        make(root / "x")
    assert list(name_captures(roots, {}).values()) == ["Run", "b_run"]


def test_a_capture_that_is_gone_gives_its_name_back(tmp_path: Path) -> None:
    make(tmp_path / "new" / "run" / "a")
    known = {"run": tmp_path / "old" / "run"}
    assert name_captures([tmp_path / "new" / "run"], known) == {tmp_path / "new" / "run": "run"}


def test_no_capture_takes_the_name_of_the_index(tmp_path: Path) -> None:
    root = tmp_path / "index.html"
    make(root / "a")
    assert name_captures([root], {})[root] != "index.html"


def test_a_path_given_twice_is_one_capture(tmp_path: Path) -> None:
    make(tmp_path / "c" / "a")
    (tmp_path / "link").symlink_to(tmp_path / "c")
    assert len(find_captures([tmp_path / "c", tmp_path / "c", tmp_path / "link"], {})) == 1


@given(st.text(min_size=1))
def test_a_safe_name_needs_no_quoting_and_is_its_own(text: str) -> None:
    name = safe_name(text)
    assert name
    assert not name.startswith((".", "-", "_"))
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert safe_name(name) == name


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=200),
        min_size=1,
        unique=True,
    )
)
def test_many_captures_have_distinct_stable_names(names: list[str]) -> None:
    roots = [Path("/captures") / name for name in names if name not in (".", "..")]
    given_names = name_captures(roots, {})
    assert len({name.lower() for name in given_names.values()}) == len(roots)
    assert all(safe_name(name) == name for name in given_names.values())


def test_out_is_made_and_writable(tmp_path: Path) -> None:
    out = prepare_out(tmp_path / "deep" / "out", [])
    assert (out / STATE).is_dir()
    assert list((out / STATE).iterdir()) == []


def test_out_must_not_lie_in_a_capture_nor_the_other_way_round(tmp_path: Path) -> None:
    make(tmp_path / "c" / "a")
    captures = find_captures([tmp_path / "c"], {})
    for out in (tmp_path / "c", tmp_path / "c" / "out", tmp_path):
        with pytest.raises(OutputError):
            prepare_out(out, captures)
        assert not (out / STATE).exists()
    prepare_out(tmp_path / "out", captures)


def test_a_file_as_out(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="not a folder"):
        prepare_out(make(tmp_path / "out"), [])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_out_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(OutputError, match="Permission denied"):
        prepare_out(tmp_path / "out", [])


def test_files_given_one_by_one_are_one_capture(tmp_path: Path) -> None:
    files = [make(tmp_path / "c" / name) for name in ("b", "a/x")]
    capture = one_capture(files, None)
    assert (capture.name, capture.root, capture.files) == ("c", tmp_path / "c", tuple(files))
    assert one_capture(files[:1], "given name").name == "given_name"
