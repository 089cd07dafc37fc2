"""A capture's files: which are read, in which order, what becomes of each, and what capture.yaml adds."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest import capture as module
from ingest.capture import FileResult, capture_files, read_capture
from ingest.capture_yaml import read_capture_yaml
from ingest.digests import file_digest
from ingest.errors import BadInput, OutputError
from tests.ingest.torch_shapes import whole, write

LOG = '{"request_id": 1, "arrival_ns": 1796036887197815835, "end_ns": 1796036888103727645, "status": 200}\n'


def _read(root: Path, tmp_path: Path) -> dict[str, FileResult]:
    results, _ = read_capture(capture_files(root), root, tmp_path / "parts")
    return {result.path: result for result in results}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "capture"
    folder.mkdir()
    write(folder, whole())
    return folder


def test_what_becomes_of_each_file(root: Path, tmp_path: Path) -> None:
    (root / "a.jsonl").write_text(LOG)
    (root / "b.jsonl.gz").write_bytes(gzip.compress(LOG.encode() * 500)[:-20])
    (root / "c.txt").write_text("groceries\n")
    (root / "d.bin").write_bytes(b"")
    (root / "e.pickle").write_bytes(b"\x80\x04cos\nsystem\n.")
    (root / "f.pickle").write_bytes((root / "snapshot.pickle").read_bytes()[:400])
    found = _read(root, tmp_path)
    assert {path: result.read_state for path, result in found.items()} == {
        "a.jsonl": "read",
        "b.jsonl.gz": "partial",
        "c.txt": "unknown_format",
        "d.bin": "refused",
        "e.pickle": "refused",
        "f.pickle": "refused",
        "snapshot.pickle": "read",
    }
    assert [result.file_id for result in found.values()] == list(range(7))
    for result in found.values():
        assert (result.message is None) == (result.read_state in ("read", "partial"))
        assert "\n" not in (result.message or "")
        assert str(tmp_path) not in (result.message or ""), "a path of this machine in the tables"
        assert (result.row_count > 0) == (result.read_state in ("read", "partial"))
    assert "os.system" in str(found["e.pickle"].message)
    assert found["e.pickle"].format == "torch_snapshot"
    table = pq.read_table(tmp_path / "parts/capture_files/00000.parquet")
    assert table["path"].to_pylist() == list(found)
    parts = {path.parent.name: path.name for path in (tmp_path / "parts").rglob("*.parquet")}
    assert parts["memory_events"] == "00006.parquet"
    assert not list((tmp_path / "parts").rglob(".*")), "what a refused file began is gone"


def test_a_file_that_can_not_be_opened(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "locked.csv").write_text("a,b\n")
    original = module.parts_digest

    def digest(parts: Sequence[Path]) -> str:
        if parts[0].name == "locked.csv":
            raise PermissionError(13, "Permission denied", str(parts[0]))
        return original(parts)

    monkeypatch.setattr(module, "parts_digest", digest)
    result = _read(root, tmp_path)["locked.csv"]
    assert result.read_state == "refused"
    assert result.message == "Permission denied; check the path and its permissions"


def test_nothing_readable_is_one_clear_error(tmp_path: Path) -> None:
    root = tmp_path / "capture"
    root.mkdir()
    for number in range(5):
        (root / f"{number}.txt").write_text("groceries\n")
    with pytest.raises(BadInput, match=r"nothing in it could be read \(0.txt: .*and 2 more files") as refused:
        _read(root, tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("make", ["missing", "empty", "hidden", "notes"])
def test_folders_without_files(make: str, tmp_path: Path) -> None:
    root = tmp_path / "capture"
    if make != "missing":
        root.mkdir()
    if make == "hidden":
        (root / ".git").mkdir()
        (root / ".git" / "x.csv").write_text("a")
        (root / ".x").write_text("a")
    if make == "notes":
        (root / "capture.yaml").write_text("rank: 1\n")
    with pytest.raises(BadInput, match=r"no such file or folder|holds no files"):
        capture_files(root)


def test_one_file_is_a_capture(root: Path, tmp_path: Path) -> None:
    found = _read(root / "snapshot.pickle", tmp_path)
    assert list(found) == ["snapshot.pickle"]
    assert found["snapshot.pickle"].digest == file_digest(root / "snapshot.pickle")


def test_an_error_of_an_importer_leaves_no_half_written_parts(root: Path, tmp_path: Path, monkeypatch: Any) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ingest.torch_snapshot._settings", fail)
    with pytest.raises(KeyboardInterrupt):
        _read(root, tmp_path)
    assert not list((tmp_path / "parts").rglob("*.parquet"))


def test_parts_that_can_not_be_written(root: Path, tmp_path: Path) -> None:
    (tmp_path / "parts").write_text("a file where the folder should be")
    with pytest.raises(OutputError):
        _read(root, tmp_path)


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("rank0/s.pickle", 0),
        ("run/rank_12/s.pickle", 12),
        ("snapshot_rank3.pickle", 3),
        ("snapshot-RANK-4.pickle", 4),
        ("franking5.pickle", None),
        ("rank.pickle", None),
        ("rank7x/s.pickle", None),
        ("s.pickle", None),
    ],
)
def test_ranks_are_told_by_path(path: str, rank: int | None, tmp_path: Path) -> None:
    root = tmp_path / "capture"
    (root / path).parent.mkdir(parents=True)
    write((root / path).parent, whole(), Path(path).name)
    assert _read(root, tmp_path)[path].rank == rank


def test_names_of_any_kind(root: Path, tmp_path: Path) -> None:
    for name in ('it\'s "quoted".pickle', "ünïcode 中.pickle", "new\nline.pickle", "-rf.pickle", "a;b$(c).pickle"):
        write(root, whole(), name)
    (Path(os.fsencode(root).decode()) / os.fsdecode(b"\xff\xfe.pickle")).write_bytes((root / "-rf.pickle").read_bytes())
    found = _read(root, tmp_path)
    assert len(found) == 7
    assert {result.read_state for result in found.values()} == {"read"}


def test_notes_reach_the_files(root: Path, tmp_path: Path) -> None:
    (root / "a.jsonl").write_text(LOG)
    (root / "skip.jsonl").write_text(LOG)
    (root / "capture.yaml").write_text(
        "rank: 3\nhost: gpu7\nfiles:\n  '*.jsonl': {host: web1, process_id: 99}\n  skip.jsonl: {ignore: true}\n"
        "  snapshot.pickle: {rank: 5, clock: monotonic}\n"
    )
    found = _read(root, tmp_path)
    assert {p: (r.rank, r.host, r.process_id, r.clock) for p, r in found.items()} == {
        "a.jsonl": (3, "web1", 99, "realtime"),
        "snapshot.pickle": (5, "gpu7", None, "monotonic"),
    }


@pytest.mark.parametrize(
    "text",
    [
        "periods: [{name: a, start: 2001-13-45, end: 1}]",
        "rank: " + "9" * 5000,
        "rank: 99999999999999999999",
        "files: {x: {process_id: 99999999999999999999}}",
        "files: {x: {clock_offset_ns: 99999999999999999999}}",
        "? [a, b]\n: 1",
        "? {a: 1}\n: 1",
        "[" * 5000,
        "&a [*a]",
        "!!python/object/apply:os.system ['true']",
        "files: {x: {clock: tai}}",
        "files: [1]",
        "\x00",
        "- 1",
        "rank: true",
        "rank: 1\nrank: 2",
        "unknown: 1",
    ],
)
def test_notes_that_can_not_be_used_are_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "capture.yaml").write_text(text)
    with pytest.raises(BadInput) as refused:
        read_capture_yaml(tmp_path)
    assert "\n" not in str(refused.value)
    assert "capture.yaml" in str(refused.value)
    assert len(str(refused.value)) < 600


def test_a_whole_number_written_with_a_point_is_one(root: Path, tmp_path: Path) -> None:
    (root / "capture.yaml").write_text("files: {'*': {clock_offset_ns: -3.6e+12, rank: 2.0}}\n")
    results, notes = read_capture(capture_files(root), root, tmp_path / "parts")
    assert results[0].rank == 2
    assert repr(notes.of("snapshot.pickle")["clock_offset_ns"]) == "-3600000000000"


def test_notes_with_text_that_no_table_can_hold(root: Path, tmp_path: Path) -> None:
    (root / "capture.yaml").write_text('host: "\\ud800"\n')
    try:
        assert _read(root, tmp_path)["snapshot.pickle"].read_state == "read"
    except BadInput as error:
        assert "capture.yaml" in str(error)


def test_a_file_without_end_has_a_digest(tmp_path: Path) -> None:
    """/proc/kmsg and alike call themselves regular and empty, and reading them waits for ever."""
    link = tmp_path / "endless"
    link.symlink_to("/proc/kmsg")
    assert file_digest(link) == blake2b(digest_size=16).hexdigest()
